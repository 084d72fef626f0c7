"""The report of a run: shows itself on the console, in notebooks and as a folder of files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cxc_eccv.presentation import ShownResult
from cxc_eccv.report.page_content import Page
from cxc_eccv.report.query_cards import find_shown_files
from cxc_eccv.report.report_data import ReportData
from cxc_eccv.report.score_tables import list_tables
from cxc_eccv.tables import Table
from cxc_eccv.wording import row_name

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True, repr=False)
class Report(ReportData, ShownResult):
    """All results of one run and their provenance.

    ``print`` shows the tables of the command line; a notebook shows them as HTML. The attributes are those of
    :class:`~cxc_eccv.report.report_data.ReportData`.

    Example:
        >>> from cxc_eccv.types import Result
        >>> print(Report((Result("coco_5k", "i2t", "recall_at_1", 0.5, 5000, low=0.48, high=0.52),)))
        Scores, percent with 95% interval
                                      i2t
        ──────────────────────────────────
         COCO 5K  R@1   50.0 [48.0, 52.0]
    """

    def save(self, folder: str | Path, *, images: str | Path | None = None) -> list[Path]:
        """Write the report to a folder, as ``cxc-eccv evaluate --output`` does; :func:`cxc_eccv.load_report` reads it.

        The files are report.json, per_query.parquet, examples.parquet, report.md and report.html. They replace those
        of an earlier report all at once; other files in the folder are kept. A report evaluated with
        ``per_query=True`` also saves the values of its queries, for comparisons, and example queries.

        Args:
            folder: created if it does not exist.
            images: folder with the image files, at any depth, for thumbnails in the HTML page.

        Returns:
            The paths of the files.

        Raises:
            InvalidOption: ``folder`` is a file, or holds files of these names without a report.json; ``images`` is not
                a folder.
            WriteFailed: another process is writing ``folder``.

        Example:
            >>> import tempfile
            >>> [path.name for path in Report(()).save(f"{tempfile.mkdtemp()}/out")][:2]
            ['report.json', 'per_query.parquet']
        """
        from cxc_eccv.report.saving import save_report

        return save_report(self, folder, images=images)

    @property
    def title(self) -> str:
        """The name of the model or of the run."""
        return self.name or "Retrieval report"

    @property
    def data(self) -> str:
        """The split and the edition of the data in words."""
        return Page(self).data

    def tables(self) -> list[Table]:
        """The main numbers, then those of all tasks together."""
        from cxc_eccv.report.console import list_brief_tables

        return list_brief_tables(Page(self))

    def all_tables(self) -> list[Table]:
        """The main numbers, then every number of each task."""
        return list_tables(Page(self), row_name)

    def facts(self) -> list[tuple[str, str]]:
        """The entries of the provenance."""
        return Page(self).facts

    def rendered(self) -> RenderableType:
        """What to check first, the tables, and what they leave out, for a console of rich."""
        from cxc_eccv.report.console import render

        return render(Page(self))

    def to_markdown(self) -> str:
        """The report as ``report.md`` has it."""
        from cxc_eccv.report.pages import render_markdown

        return render_markdown(Page.of(self))

    def to_html(self, images: str | Path | None = None) -> str:
        """The report as ``report.html`` has it; ``images`` is the folder of the photographs, for thumbnails."""
        from cxc_eccv.presentation.thumbnails import page_images
        from cxc_eccv.report.pages import render_html

        page = Page.of(self)
        return render_html(page, page_images(images, find_shown_files(page.cards)))
