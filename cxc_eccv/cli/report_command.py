"""``cxc-eccv report``: rebuild the pages of a report, or print reports as tables for a paper."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxc_eccv.cli.delivery import say_written
from cxc_eccv.cli.shared_options import ReportNames, Thumbnails, names
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.terminal import say
from cxc_eccv.writing import replaced_file

if TYPE_CHECKING:
    from cxc_eccv.types import Report


FORMATS = ("latex", "markdown", "csv", "mteb")


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...", help="Folders that evaluate --output wrote; for tables also report.json files."
        ),
    ],
    images: Thumbnails = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="Tables for a paper: latex (booktabs), markdown, or csv, with unrounded values under the keys of "
            "report.json; or mteb, the JSON files that mteb.ResultCache reads, to the folder --output.",
        ),
    ] = None,
    intervals: Annotated[bool, typer.Option("--intervals", help="Add the intervals to the tables.")] = False,
    tasks: Annotated[
        list[str] | None,
        typer.Option(help="Tasks in the tables. Default: COCO, CxC, ECCV Caption, Plausible match, Flickr."),
    ] = None,
    name: ReportNames = None,
    output: Annotated[
        Path | None, typer.Option(help="File for the tables, for mteb a folder. Default: the console.")
    ] = None,
) -> None:
    """Rebuild report.md and report.html, or print reports as tables for a paper.

    The pages are made from report.json, per_query.parquet and examples.parquet. The HTML page is one self-contained
    file. Without --images it shows images by their file names and captions.

    Tables have a row per report and columns for COCO 1K, COCO 5K, CxC and ECCV Caption, with the best values in bold.
    Reports of different data, splits or protocols are refused.

    Examples:
    ```sh
    cxc-eccv report out
    cxc-eccv report out --images val2014
    cxc-eccv report baseline new --format latex --output scores.tex
    cxc-eccv report baseline new --format markdown --tasks cxc --intervals
    cxc-eccv report out --format mteb --output mteb_results
    ```
    """
    if form is None:
        for option, value in {"intervals": intervals, "tasks": tasks, "name": name, "output": output}.items():
            if value:
                raise InvalidOption(f"--{option} is for tables; add --format latex, markdown or csv")
        _rebuild(folders, images)
        return
    if form not in FORMATS:
        raise UnknownName("format", form, FORMATS)
    if images is not None:
        raise InvalidOption(
            f"--images adds thumbnails to report.html, which --format {form} does not write; leave one out"
        )
    from cxc_eccv.comparison import read_reports

    if form == "mteb":
        _write_mteb(read_reports(folders, name), output, has_table_options=intervals or bool(tasks))
        return
    from cxc_eccv.report.paper import paper_csv, paper_tables
    from cxc_eccv.tables import tables_to_latex, tables_to_markdown

    reports, chosen = read_reports(folders, name), names(tasks)
    if form == "csv":
        text = paper_csv(reports, chosen, intervals=intervals)
    else:
        to_text = tables_to_latex if form == "latex" else tables_to_markdown
        text = to_text(paper_tables(reports, chosen, intervals=intervals))
    if output is None:
        say(text.rstrip("\n"))
    else:
        with replaced_file(output) as file:
            file.write_text(text, encoding="utf-8", newline="\n")
        say_written([output])


def _write_mteb(reports: Mapping[str, Report], output: Path | None, *, has_table_options: bool) -> None:
    from cxc_eccv.integrations.mteb_files import write_mteb

    if has_table_options:
        raise InvalidOption("--intervals and --tasks are for tables; mteb files have every result and its interval")
    if output is None:
        raise InvalidOption("--format mteb writes several files; name their folder with --output")
    say_written(write_mteb(output, reports))


def _rebuild(folders: list[Path], images: Path | None) -> None:
    from cxc_eccv.report.folder import rebuild_pages

    for folder in folders:
        say_written(rebuild_pages(folder, images))
