"""Writing what a command was asked to keep."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from cxc_eccv.errors import InvalidOption
from cxc_eccv.terminal import say
from cxc_eccv.writing import refuse_unwritable

if TYPE_CHECKING:
    from cxc_eccv.runs import EmbeddingsRun, Run
    from cxc_eccv.sources.library import Library
    from cxc_eccv.types import Report

COMMAND: ContextVar[str | None] = ContextVar("COMMAND", default=None)


def check_output(output: Path | None, names: Collection[str] = (), *, images: Path | None = None) -> None:
    """Refuse a folder or files in it that cannot be written, and images that no page could show, before any work."""
    if output is not None:
        refuse_unwritable(output, names)
    if images is not None and output is None:
        raise InvalidOption("--images are thumbnails in report.html; name its folder with --output")
    if images is not None:
        from cxc_eccv.sources.download import image_folder

        image_folder(images)


def deliver(
    report: Report,
    output: Path | None,
    run: Run | None,
    library: Library,
    images: Path | None = None,
    run_file: str | None = None,
) -> None:
    """Write a report, then print it: a reader that has gone loses no file, and a full disk no number."""
    from cxc_eccv.report.console import print_report

    try:
        written = write_report(report, output, run, library, images, run_file)
    finally:
        print_report(report)
    say_written(written)


def say_written(paths: Iterable[Path]) -> None:
    """Print which files were written."""
    for path in paths:
        say(f"wrote {path}")


def say_kept(run: EmbeddingsRun, was_there: bool) -> None:
    """Print where the embeddings of a model are kept, on standard error."""
    if run.path is None:
        say("the embeddings are not kept: their place in the cache is taken, or cannot be written", err=True)
    else:
        did = "reusing the embeddings that are kept" if was_there else "kept the embeddings for the next time"
        say(f"{did}: {run.path}", err=True)


def write_report(
    report: Report,
    output: Path | None,
    run: Run | None,
    library: Library,
    images: Path | None = None,
    run_file: str | None = None,
) -> list[Path]:
    """Write the files of a report and give their paths; none without ``output``, no retrieved items without a run.

    ``run_file`` is the text of run.yaml.
    """
    if output is None:
        return []
    from cxc_eccv.report.collect import collect_examples
    from cxc_eccv.report.folder import write_folder

    examples = None
    if run is not None and report.per_query is not None:
        examples = collect_examples(run, report, library)
    if COMMAND.get() is not None:
        report = replace(report, provenance={**report.provenance, "command": COMMAND.get()})
    return write_folder(output, report, examples, images, run_file)


SECRETS = ("--hub-token", "--hub_token")


def command_text(arguments: Sequence[str]) -> str:
    """A command line to repeat, without secrets, the output, and the places of files."""
    left_out = ("--output", *SECRETS)
    kept = [
        argument
        for previous, argument in pairwise(("", *arguments))
        if previous not in left_out and argument.partition("=")[0] not in left_out
    ]
    return show_command(kept)


def show_command(arguments: Sequence[str]) -> str:
    """A command line to copy; files and folders lose their place and keep their name."""
    return shlex.join(["cxc-eccv", *map(_without_place, arguments)])


def _without_place(argument: str) -> str:
    option, equals, value = argument.rpartition("=")
    is_path = os.sep in value and (Path(value).is_absolute() or Path(value).exists())
    return f"{option}{equals}{Path(value).name}" if is_path else argument
