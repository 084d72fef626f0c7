"""The report of a run: shows itself on the console, in notebooks and as a folder of files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cxc_eccv.report.report_data import ReportData


@dataclass(frozen=True, slots=True, repr=False)
class Report(ReportData):
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

    def __str__(self) -> str:
        from cxc_eccv.report.console import report_text

        return report_text(self)

    def _repr_html_(self) -> str:
        from cxc_eccv.report.console import report_html

        return report_html(self)
