"""``cxc-eccv annotate export``, ``import`` and ``check``: questions go out, answers come in, people check sheets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.cli.choices import AllowModified, DataDir
from cxc_eccv.cli.output import say_written
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.studies.annotation.commands.annotate.telling import (
    Folder,
    Form,
    count_nouns,
    open_project,
    say_next,
    say_status,
)
from cxc_eccv.terminal import print_shown, say


def export(
    folder: Folder,
    output: Annotated[Path, typer.Option(help="Folder to write to; other files in it stay.")],
    form: Form = "html",
    images: Annotated[
        str,
        typer.Option(
            help="Folder of the image files, which are embedded ('sample': the sample's); an address such as "
            "images/{file_name} or https://example.org/{folder}/{file_name}; or coco, where COCO has them."
        ),
    ] = "coco",
    number: Annotated[int | None, typer.Option("--round", help="Which round. Default: the last.")] = None,
    sheets: Annotated[
        str | None, typer.Option(help="Numbers of sheets, for one person: 0-4 or 0,7. Default: all of the round.")
    ] = None,
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Write the questions of a round as a page, or for an annotation tool. Nothing in them tells the known pairs.

    html is one page for any browser, by keyboard alone: people save their answers to a file, which import reads.

    Examples:
      cxc-eccv annotate export doubts --images val2014 --output questions
      cxc-eccv annotate export doubts --sheets 0-9 --output for_ann
      cxc-eccv annotate export doubts --format label_studio --output studio
    """
    from cxc_eccv.studies.asking.exchange import find_images, formats

    if form not in formats():
        raise UnknownName("format", form, formats())
    project = open_project(folder, data_dir, allow_modified=allow_modified)
    asked = project.round(number)
    only = None if sheets is None else _read_numbers("--sheets", sheets, len(asked.sheets))
    shown = asked.sheets if only is None else [asked.sheets[place] for place in only]
    addresses = find_images(images, shown, project.library, project.split)
    say_written(formats()[form].export(asked.sheets, project.scheme, addresses, output, only))
    say(f"round {asked.number}, {count_nouns(len(shown), 'sheet')}: {formats()[form].exported}")
    say_next(data_dir, "import", folder, "ANSWERS", *([] if form == "html" else ["--format", form]))


def _read_numbers(option: str, text: str, size: int) -> list[int]:
    """Numbers below a size: ``0-4,7``."""
    parts = [re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part) for part in text.split(",")]
    ranges = [range(int(part[1]), int(part[2] or part[1]) + 1) for part in parts if part is not None]
    found = [number for part in ranges if len(part) <= size for number in part]
    if None in parts or not all(ranges) or not all(part.stop <= size for part in ranges):
        raise InvalidOption(f"{option} {text}: give numbers from 0 to {size - 1}, as 0-4 or 0,7")
    return sorted(set(found))


def import_answers(
    folder: Folder,
    files: Annotated[list[Path], typer.Argument(help="Answered files, all of one round.")],
    form: Form = "html",
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Take in what people answered: all files or, where anything in one is not in order, none.

    Files say which round they answer. Answers that are there already are no error, so that a person's file may come
    again when more of it is done; a different answer of the same person is refused, with both places.

    Examples:
      cxc-eccv annotate import doubts ann.jsonl ben.jsonl
      cxc-eccv annotate import doubts project-3.json --format label_studio
    """
    before = open_project(folder, data_dir, allow_modified=allow_modified)
    after = before.add_answers(files, form)
    added = after.answers().num_rows - before.answers().num_rows
    say(f"{added:,} answers are new" if added else "nothing is new: these answers are there already")
    say_status(after, data_dir)


def check(
    folder: Folder,
    accept: Annotated[
        list[str] | None, typer.Option(help="A sheet whose answers are good, as SHEET:WORKER; repeat it for more.")
    ] = None,
    reject: Annotated[list[str] | None, typer.Option(help="A sheet whose answers are not; of any verdict.")] = None,
    least_seconds: Annotated[
        float | None, typer.Option(help="Time below which a sheet is too hasty; 0 for no limit.")
    ] = None,
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Say which sheets count, after somebody has looked at their answers; without an option list those to look at.

    A sheet with both known pairs answered wrongly is rejected. One wrong, the same answer to all candidates, or less
    than the least time: somebody looks at its answers, which report --output shows, and decides. What was decided
    is kept in the folder (checks.json), and a later decision about a sheet takes the place of an earlier one.

    Examples:
      cxc-eccv annotate check doubts
      cxc-eccv annotate check doubts --accept 3:ann --accept 4:ann
      --reject 4:ben
      cxc-eccv annotate check doubts --least-seconds 60
    """
    from cxc_eccv.studies.annotation.report import report_project
    from cxc_eccv.studies.asking.quality.sheets import CHECKS
    from cxc_eccv.tables import tables_to_console

    decided = {
        **{_read_sheet("--accept", text): True for text in accept or ()},
        **{_read_sheet("--reject", text): False for text in reject or ()},
    }
    if len(decided) < len(accept or ()) + len(reject or ()):
        raise InvalidOption("a sheet is named twice by --accept and --reject; decide once about each")
    project = open_project(folder, data_dir, allow_modified=allow_modified)
    if (decided or least_seconds is not None) and project.decide(decided, least_seconds):
        say_written([folder / CHECKS])
    report = report_project(project)
    if report.to_check:
        print_shown(tables_to_console([report.doubt_table()]))
    say_status(project, data_dir)


def _read_sheet(option: str, text: str) -> tuple[int, str]:
    """Number of a sheet and its worker, whose name may have colons of its own."""
    sheet, colon, worker = text.partition(":")
    if not (sheet.isdecimal() and sheet.isascii() and len(sheet) < 19 and colon and worker):
        raise InvalidOption(f"{option} {text}: name a sheet and its worker, as 3:ann")
    return int(sheet), worker
