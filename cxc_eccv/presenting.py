"""The presenter, which shows and saves reports.

Presenting needs tasks, metrics and labels, so its code lies in a higher layer than :class:`Report`. The package's
``__init__.py`` therefore registers :mod:`cxc_eccv.report` here, in a module that needs no NumPy: every command imports
the package, ``--help`` too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol


class Presenter(Protocol):
    """Shows and saves reports."""

    def report_text(self, report: Any, /) -> str:  # noqa: ANN401 - Report stands above this module
        """The report for a terminal."""

    def report_html(self, report: Any, /) -> str:  # noqa: ANN401
        """The report for a notebook."""

    def save_report(self, report: Any, folder: str | Path, /, *, images: str | Path | None) -> list[Path]:  # noqa: ANN401
        """Write the folder of a report."""


_registered: list[Presenter] = []


def present_with(chosen: Presenter) -> None:
    """Register the presenter of all reports."""
    _registered[:] = [chosen]


def presenter() -> Presenter:
    """The registered presenter."""
    return _registered[0]
