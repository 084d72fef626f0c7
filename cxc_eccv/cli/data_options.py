"""The options of the program that say which raw files a command reads."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from cxc_eccv.sources.library import Library

OF_DATA = "Raw files"
"""Panel of the help."""

DataDir = Annotated[
    str | None,
    typer.Option(
        "--data-dir",
        help="Folder with the raw files; 'sample' for the embedded sample. Default: CXC_ECCV_DATA, else the cache.",
        rich_help_panel=OF_DATA,
    ),
]
AllowModified = Annotated[
    bool,
    typer.Option(
        "--allow-modified",
        help="Use raw files whose hash differs from the catalog's. Reports say so.",
        rich_help_panel=OF_DATA,
    ),
]


class DataOptions(NamedTuple):
    """Which raw files a command reads: the options of the program, which stand before or after a command's name."""

    data_dir: str | None = None
    allow_modified: bool = False

    def to_arguments(self) -> list[str]:
        """The same options on a command line."""
        arguments = [] if self.data_dir is None else ["--data-dir", self.data_dir]
        return [*arguments, *(["--allow-modified"] if self.allow_modified else [])]


DATA: ContextVar[DataOptions] = ContextVar("DATA", default=DataOptions())  # noqa: B039 - a tuple is immutable


def open_library(labels: Sequence[str] = ()) -> Library:
    """The library of the raw files that the command line names, with these labels of people."""
    from cxc_eccv.sources.library import Library

    return Library(**DATA.get()._asdict(), labels=labels)


class DataCommand(TyperCommand):
    """A command that reads raw files: it takes the program's options that say which, too."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - a class of typer that is not public
        """Its own options, and those of the program."""
        of_program = [one for one in ctx.find_root().command.params if one.name in DataOptions._fields]
        return [*super().get_params(ctx), *of_program]

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - as of typer
        """Run with the options behind the command's name, else those before it, else those of a run.yaml."""
        before, behind = DATA.get()._asdict(), {name: ctx.params.pop(name) for name in DataOptions._fields}
        typed = {name for name in behind if ctx.get_parameter_source(name).name == "COMMANDLINE"}
        DATA.set(
            DataOptions(**{name: behind[name] if name in typed else before[name] or behind[name] for name in behind})
        )
        return super().invoke(ctx)


class ScriptCommand(TyperCommand):
    """A command whose options are those of a training script, which lists them itself."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - a class of typer that is not public
        """Print what the command does before what the script says of its options."""
        if "--help" in args or "-h" in args:
            self.get_help(ctx)
        return super().parse_args(ctx, [*DATA.get().to_arguments(), *args])
