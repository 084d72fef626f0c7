"""The files of commands, and messages about files."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Collection, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from cxc_eccv.errors import InvalidOption
from cxc_eccv.terminal import print_shown, say, show_steps, visible
from cxc_eccv.writing import refuse_unwritable

if TYPE_CHECKING:
    from cxc_eccv.report import Report
    from cxc_eccv.runs import EmbeddingsRun
    from cxc_eccv.types.provenance import Provenance


COMMAND: ContextVar[str | None] = ContextVar("COMMAND", default=None)


def check_folder(output: Path | None, names: Collection[str] = (), *, images: Path | None = None) -> None:
    """Refuse, before any work, an output that cannot be written and images that no page could show."""
    if output is not None:
        refuse_unwritable(output, names)
    if images is not None and output is None:
        raise InvalidOption("--images adds thumbnails to report.html; name a folder for it with --output")
    if images is not None:
        from cxc_eccv.sources.download import image_folder

        image_folder(images)


def deliver(
    report: Report,
    output: Path | None,
    *,
    images: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Write the files of a report, then print it; a failure to write does not stop the printing."""
    from cxc_eccv.report.console import render
    from cxc_eccv.report.page_content import Page
    from cxc_eccv.report.saving import save_report

    try:
        written = []
        if output is not None:
            shown = add_command(report)
            with show_steps(1) as begin:
                begin("writing the report")
                written = save_report(shown, output, images=images, overwrite=overwrite)
    finally:
        reasons_place = "name --output to see why" if output is None else "report.json and the page say why"
        print_shown(render(Page(report), reasons_place))
    say_written(written)


def say_written(paths: Iterable[Path]) -> None:
    """Print which files were written, those of one folder together."""
    for folder, files in groupby(paths, lambda path: path.parent):
        names = [path.name for path in files]
        if len(names) == 1:
            say(f"wrote {folder / names[0]}")
            continue
        line = visible(f"wrote {folder}/: {', '.join(names)}")
        say("\n".join(wrap(line, 80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)))


def say_kept(run: EmbeddingsRun, was_there: bool) -> None:
    """Print on standard error where the embeddings of a model are saved."""
    if run.path is None:
        say("the embeddings were not saved: the cache cannot be written, or another file has their name", err=True)
    else:
        did = "reusing cached embeddings" if was_there else "saved the embeddings"
        say(f"{did}: {run.path}", err=True)


Result = TypeVar("Result", bound="Sourced")


class Sourced(Protocol):
    """A dataclass with the provenance of its numbers."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def provenance(self) -> Provenance:
        """What the numbers were computed from."""
        ...


def add_command(result: Result) -> Result:
    """The result with the command among its facts."""
    return replace(result, provenance=replace(result.provenance, command=COMMAND.get() or None))


SECRETS = ("--hub-token", "--hub_token")


def command_text(arguments: Sequence[str]) -> str:
    """The command line for others to repeat: without secrets, without the output, and without folders of files."""
    left_out = ("--output", *SECRETS)
    kept = [
        argument
        for previous, argument in pairwise(("", *arguments))
        if previous not in left_out and argument.partition("=")[0] not in left_out
    ]
    return show_command(kept)


def find_program() -> str:
    """What runs this program from the current folder: its name if the shell finds it, else its path."""
    program = Path(sys.executable).with_name("cxc-eccv")
    found = shutil.which("cxc-eccv")
    if not program.is_file() or (found is not None and Path(found) == program):
        return "cxc-eccv"
    here = Path.cwd()
    return str(program.relative_to(here) if program.is_relative_to(here) else program)


def show_command(arguments: Sequence[str]) -> str:
    """The command line to copy; of paths only the last name is kept."""
    return shlex.join(["cxc-eccv", *map(_strip_folder, arguments)])


def _strip_folder(argument: str) -> str:
    option, equals, value = argument.rpartition("=")
    is_path = os.sep in value and (Path(value).is_absolute() or Path(value).exists())
    return f"{option}{equals}{Path(value).name}" if is_path else argument
