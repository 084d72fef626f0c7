"""``cxc-eccv annotate check``: which doubtful sheets count."""

from __future__ import annotations

from typing import Annotated

import typer

from cxc_eccv.cli.choices import AllowModified, DataDir
from cxc_eccv.cli.output import say_written
from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.annotation.commands.annotate.telling import Folder, say_status
from cxc_eccv.terminal import print_shown


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
    from cxc_eccv.sources.library import Library
    from cxc_eccv.studies.annotation.project import Project
    from cxc_eccv.studies.annotation.report import report_project
    from cxc_eccv.studies.asking.quality.sheets import CHECKS
    from cxc_eccv.tables import tables_to_console

    decided = {
        **{_read_sheet("--accept", text): True for text in accept or ()},
        **{_read_sheet("--reject", text): False for text in reject or ()},
    }
    if len(decided) < len(accept or ()) + len(reject or ()):
        raise InvalidOption("a sheet is named twice by --accept and --reject; decide once about each")
    project = Project.open(folder, Library(data_dir, allow_modified=allow_modified))
    if (decided or least_seconds is not None) and project.decide(decided, least_seconds):
        say_written([folder / CHECKS])
    found = report_project(project)
    if found.to_check:
        print_shown(tables_to_console([found.doubt_table()]))
    say_status(project, data_dir)


def _read_sheet(option: str, text: str) -> tuple[int, str]:
    """Number of a sheet and its worker, whose name may have colons of its own."""
    sheet, colon, worker = text.partition(":")
    if not (sheet.isdecimal() and sheet.isascii() and len(sheet) < 19 and colon and worker):
        raise InvalidOption(f"{option} {text}: name a sheet and its worker, as 3:ann")
    return int(sheet), worker
