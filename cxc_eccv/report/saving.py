"""Writes the folder of a report: report.json, the tables behind it, and the pages made from them."""

from __future__ import annotations

from pathlib import Path

from cxc_eccv.errors import DataError
from cxc_eccv.parquet import write_parquet
from cxc_eccv.presentation.thumbnails import page_images
from cxc_eccv.report.files import DIGEST, EXAMPLES, PER_QUERY, PER_QUERY_SCHEMA, REPORT, digest_of
from cxc_eccv.report.page_content import Page
from cxc_eccv.report.pages import render_html, render_markdown
from cxc_eccv.report.query_cards import find_shown_files
from cxc_eccv.report.report_data import ReportData
from cxc_eccv.sources.download import image_folder
from cxc_eccv.writing import refuse_foreign, refuse_unwritable, replaced_folder

MARKDOWN = "report.md"
HTML = "report.html"
FILES = (REPORT, PER_QUERY, EXAMPLES, MARKDOWN, HTML)
"""Files of a report; other files in its folder belong to the user."""


def save_report(
    report: ReportData,
    folder: str | Path,
    *,
    images: str | Path | None = None,
    overwrite: bool = False,
) -> list[Path]:
    """Write a report's folder, see :meth:`cxc_eccv.report.report.Report.save`; ``overwrite`` replaces any file."""
    folder = Path(folder)
    if images is not None:
        images = image_folder(images)
    refuse_unwritable(folder, FILES)
    if not overwrite:
        refuse_foreign_files(folder)
    return write_folder(folder, report, images)


def refuse_foreign_files(folder: Path) -> None:
    """Refuse a folder with files of a report's names, but without a report.json: they are the user's."""
    try:
        ReportData.from_json((folder / REPORT).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, DataError):
        names = [name for name in FILES if (folder / name).exists()]
        remedy = "Name another folder, or move them away; evaluate --overwrite replaces them"
        refuse_foreign(folder, names, (), "evaluation", remedy)


def write_folder(folder: Path, report: ReportData, images: str | Path | None = None) -> list[Path]:
    """Write the files of a report; equal inputs give equal bytes, and other files in the folder are kept.

    If thumbnails cannot be made, the report is written without them and the error is raised.
    """
    page = Page.of(report)
    uris = None
    failure = None
    try:
        uris = page_images(images, find_shown_files(page.cards))
    except Exception as error:
        failure = error
    values = PER_QUERY_SCHEMA.empty_table() if report.per_query is None else report.per_query
    with replaced_folder(folder, FILES) as new:
        (new / REPORT).write_text(report.to_json(), encoding="utf-8", newline="\n")
        for name, table in ((PER_QUERY, values), (EXAMPLES, page.example_table)):
            metadata = {**(table.schema.metadata or {}), DIGEST: digest_of(new / REPORT)}
            marked = table.replace_schema_metadata(metadata)
            write_parquet(marked, new / name)
        write_pages(new, page, uris)
    if failure is not None:
        raise failure
    return [folder / name for name in FILES]


def write_pages(folder: Path, page: Page, uris: dict[str, str] | None) -> None:
    """Write the Markdown and the HTML page into a folder."""
    for name, text in ((MARKDOWN, render_markdown(page)), (HTML, render_html(page, uris))):
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
