"""What shows and keeps a report. It knows tasks, metrics and labels, and so it stands above the report itself.

``cxc_eccv/__init__.py``, which runs before any other module, names :mod:`cxc_eccv.report.presenter`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol


class Presenter(Protocol):
    """What a report needs to be shown and kept."""

    def report_text(self, report: Any, /) -> str:  # noqa: ANN401 - Report stands above this module
        """The tables of the command line."""

    def report_html(self, report: Any, /) -> str:  # noqa: ANN401
        """The same for a notebook."""

    def save_report(self, report: Any, folder: str | Path, /, *, images: str | Path | None) -> list[Path]:  # noqa: ANN401
        """Write the folder of a report."""


_known: list[Presenter] = []


def present_with(chosen: Presenter) -> None:
    """Show and keep all reports with this one."""
    _known[:] = [chosen]


def presenter() -> Presenter:
    """The one that reports are shown with."""
    return _known[0]
