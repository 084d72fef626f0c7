"""All commands, of the core and of the studies, and the message with which a run that fails ends."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from cxc_eccv import __version__
from cxc_eccv.cli.build import build, demo, images
from cxc_eccv.cli.compare import compare, report
from cxc_eccv.cli.delivery import COMMAND, command_text
from cxc_eccv.cli.encode import encode
from cxc_eccv.cli.evaluate import evaluate
from cxc_eccv.cli.hub import push, submit
from cxc_eccv.cli.list import list_all
from cxc_eccv.cli.shared_options import DATA, AllowModified, DataCommand, DataDir, DataOptions
from cxc_eccv.cli.sts import sts
from cxc_eccv.discovery import modules_of, study_modules
from cxc_eccv.errors import CxcEccvError
from cxc_eccv.terminal import say

INTERRUPTED = 128 + 2
"""Exit status of a program that Ctrl-C ends."""


class Program(TyperGroup):
    """All commands; an interruption says what is kept."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - of typer
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interruption:
            kept = getattr(interruption, "__notes__", ["Unfinished files were discarded; run the command again."])
            say(f"cxc-eccv: interrupted. {' '.join(kept)}", err=True)
            raise typer.Exit(INTERRUPTED) from None


def _describe(error: OSError) -> str:
    place = ": ".join(os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes))
    reason = error.strerror or str(error) or type(error).__name__
    return f"{place}: {reason}" if place else reason


def _drop_unwritable_output() -> None:
    """Lead standard output nowhere if it cannot be written, as Python would try again when the program ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(
    name="cxc-eccv",
    cls=Program,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["--help", "-h"]},
)
app.command()(demo)
app.command("list", cls=DataCommand)(list_all)
app.command(cls=DataCommand)(images)
app.command(cls=DataCommand)(evaluate)
app.command(cls=DataCommand)(encode)
app.command()(report)
app.command()(compare)
app.command(cls=DataCommand)(sts)
app.command(cls=DataCommand)(build)
app.command()(submit)
app.command()(push)


def _find_commands() -> Iterator[tuple[str, Any]]:
    """Names and commands of the studies: those named like a file of their room ``commands``, or in its ``COMMANDS``."""
    for room in study_modules("commands"):
        for place, module in (modules_of(room) if hasattr(room, "__path__") else {"": room}).items():
            yield from ((name, getattr(module, name)) for name in getattr(module, "COMMANDS", (place,)))


def _add_commands(added: typer.Typer) -> None:
    """Add the commands of the studies, functions or groups; groups of one name merge."""
    groups: dict[str, typer.Typer] = {}
    for name, command in _find_commands():
        if not isinstance(command, typer.Typer):
            added.command(cls=DataCommand)(command)
            continue
        command.rich_markup_mode = added.rich_markup_mode
        if name in groups:
            groups[name].registered_commands += command.registered_commands
        else:
            groups[name] = command
            added.add_typer(command, name=name)


_add_commands(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"cxc-eccv {__version__}")
        raise typer.Exit


def _show_warning(message: Warning | str, *_place: object, **_stream: object) -> None:
    say(f"cxc-eccv: warning: {message}", err=True)


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Honest labels and exact metrics for MS-COCO image-caption retrieval."""
    DATA.set(DataOptions(data_dir, allow_modified))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; an error of this package or of the system is one message and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    warnings.showwarning = _show_warning
    arguments = sys.argv[1:] if arguments is None else [*arguments]
    COMMAND.set(command_text(arguments))
    try:
        app(arguments, prog_name="cxc-eccv")
    except CxcEccvError as error:
        say(f"cxc-eccv: {type(error).__name__}: {error}", err=True)
    except OSError as error:
        _drop_unwritable_output()
        say(f"cxc-eccv: {_describe(error)}", err=True)
    sys.exit(2)
