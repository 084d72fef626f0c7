"""``cxc-eccv report``: pages, and files for mteb; ``cxc-eccv tables``: tables for papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.cli.delivery import say_written
from cxc_eccv.cli.shared_options import ReportNames, Thumbnails, names
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.terminal import say
from cxc_eccv.writing import replaced_file

MTEB = "mteb"
TABLE_FORMATS = ("latex", "markdown", "csv")
"""Formats of tables."""


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="Folders that evaluate --output wrote.")],
    images: Thumbnails = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="mteb, in place of pages: the JSON files that mteb.ResultCache reads, to the folder --output.",
        ),
    ] = None,
    name: ReportNames = None,
    output: Annotated[Path | None, typer.Option(help="Folder for the files of --format mteb.")] = None,
) -> None:
    """Rebuild a report's pages, or write it as files of mteb.

    Examples:
    ```sh
    cxc-eccv report out
    cxc-eccv report out --images val2014
    cxc-eccv report out --format mteb --output mteb_results
    ```

    The pages are made from report.json, per_query.parquet and examples.parquet. The HTML page is one self-contained
    file. Without --images it shows images by their file names and captions.

    For tables of a paper, use cxc-eccv tables.
    """
    if form in TABLE_FORMATS:
        raise InvalidOption(f"report writes pages and files of mteb; for a table, use cxc-eccv tables --format {form}")
    if form not in (None, MTEB):
        raise UnknownName("format", form, [MTEB])
    if form == MTEB:
        _write_mteb(folders, name, output, images)
        return
    for option, value in {"name": name, "output": output}.items():
        if value:
            raise InvalidOption(f"--{option} is for --format mteb; pages are written beside their report.json")
    from cxc_eccv.report.loading import rebuild_pages

    for folder in folders:
        say_written(rebuild_pages(folder, images))


def _write_mteb(folders: list[Path], name: list[str] | None, output: Path | None, images: Path | None) -> None:
    from cxc_eccv.comparison import read_reports
    from cxc_eccv.integrations.mteb_files import write_mteb

    if images is not None:
        raise InvalidOption("--images is for pages, which --format mteb does not write; leave one of the two out")
    if output is None:
        raise InvalidOption("--format mteb writes several files; name their folder with --output")
    say_written(write_mteb(output, read_reports(folders, name)))


def tables(
    reports: Annotated[
        list[Path], typer.Argument(metavar="DIR", help="Folders that evaluate --output wrote, or report.json files.")
    ],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="latex (booktabs), markdown, or csv, with unrounded values under the keys of report.json.",
        ),
    ] = "markdown",
    intervals: Annotated[bool, typer.Option("--intervals", help="Add the intervals.")] = False,
    tasks: Annotated[
        list[str] | None,
        typer.Option(
            help="Tasks, comma-separated or repeated. Default: COCO, CxC, ECCV Caption, Plausible match, Flickr."
        ),
    ] = None,
    name: ReportNames = None,
    output: Annotated[Path | None, typer.Option(help="File for the tables. Default: the console.")] = None,
) -> None:
    """Print the scores of models as tables for a paper.

    Examples:
    ```sh
    cxc-eccv tables baseline new
    cxc-eccv tables baseline new --format latex --output scores.tex
    cxc-eccv tables new --tasks coco_5k,eccv_caption --intervals
    ```

    Tables have a row per report and columns for COCO 1K, COCO 5K, CxC and ECCV Caption, with the best values in bold.
    Reports of different data, splits or protocols are refused.
    """
    from cxc_eccv.comparison import read_reports
    from cxc_eccv.comparison.paper_tables import PaperTables

    if form not in TABLE_FORMATS:
        raise UnknownName("format", form, TABLE_FORMATS)
    shown = PaperTables(read_reports(reports, name), names(tasks), intervals)
    to_text = {"latex": shown.to_latex, "markdown": shown.to_markdown, "csv": shown.to_csv}
    text = to_text[form]()
    if output is None:
        say(text.rstrip("\n"))
        return
    with replaced_file(output) as file:
        file.write_text(text, encoding="utf-8", newline="\n")
    say_written([output])
