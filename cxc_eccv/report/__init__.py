"""Reports to look at: ``page.py`` gathers the content, ``console.py``, ``pages.py`` and ``paper.py`` show it.

The functions here are how every report is shown and saved; the modules are imported when they are first needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cxc_eccv.types import Report


def report_text(report: Report) -> str:
    """The report for a terminal."""
    from cxc_eccv.report import console

    return console.report_text(report)


def report_html(report: Report) -> str:
    """The report for a notebook."""
    from cxc_eccv.report import console

    return console.report_html(report)


def save_report(report: Report, folder: str | Path, *, images: str | Path | None = None) -> list[Path]:
    """Write the folder of a report."""
    from cxc_eccv.report import folder as folders

    return folders.save_report(report, folder, images=images)
