"""``cxc-eccv report``: pages, and files for mteb and Every Eval Ever; ``cxc-eccv tables``: tables for papers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.cli.delivery import say_written
from cxc_eccv.cli.shared_options import OF_ADVANCED, ReportNames, Thumbnails, names
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.terminal import say
from cxc_eccv.writing import replaced_file

MTEB = "mteb"
EVERY_EVAL_EVER = "every-eval-ever"
REPORT_FORMATS = (MTEB, EVERY_EVAL_EVER)
"""Formats of files in place of pages."""
FORMATS_OF_OPTIONS = {
    "name": REPORT_FORMATS,
    "output": REPORT_FORMATS,
    "organization": (EVERY_EVAL_EVER,),
    "relationship": (EVERY_EVAL_EVER,),
}
TABLE_FORMATS = ("latex", "markdown", "csv")
"""Formats of tables."""


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="Folders that evaluate --output wrote.")],
    images: Thumbnails = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="mteb|every-eval-ever",
            help="In place of pages, files to the folder --output: JSON that mteb.ResultCache reads, or a log with "
            "intervals for the datastore of Every Eval Ever.",
        ),
    ] = None,
    name: ReportNames = None,
    output: Annotated[Path | None, typer.Option(help="Folder for the files of --format.")] = None,
    organization: Annotated[
        str | None,
        typer.Option(
            help="Who evaluated and publishes the scores, for --format every-eval-ever.", rich_help_panel=OF_ADVANCED
        ),
    ] = None,
    relationship: Annotated[
        str | None,
        typer.Option(
            metavar="RELATION",
            help="What the organization is to those who made the model, for --format every-eval-ever: first_party, "
            "third_party, collaborative or other.",
            rich_help_panel=OF_ADVANCED,
        ),
    ] = None,
) -> None:
    r"""Rebuild a report's pages, or write files of other tools.

    Examples:
    ```sh
    cxc-eccv report clip --images val2014
    cxc-eccv report clip --format mteb --output mteb_results
    cxc-eccv report clip --format every-eval-ever --output logs \
      --name YOUR_NAME/clip --organization "Your Lab" --relationship first_party
    ```

    The pages are made from report.json, per_query.parquet and examples.parquet. The HTML page is one self-contained
    file. Without --images it shows images by their file names and captions.

    For tables of a paper, use cxc-eccv tables.
    """
    options = {"name": name, "output": output, "organization": organization, "relationship": relationship}
    _check_options(form, options, images)
    if form == MTEB:
        _write_mteb(folders, name, _require_output(form, output))
    elif form == EVERY_EVAL_EVER:
        _write_every_eval_ever(folders, name, _require_output(form, output), organization, relationship)
    else:
        from cxc_eccv.report.loading import rebuild_pages

        for folder in folders:
            say_written(rebuild_pages(folder, images))


def _check_options(form: str | None, options: Mapping[str, object], images: Path | None) -> None:
    """Refuse an unknown format, and options that do not belong to the format."""
    if form in TABLE_FORMATS:
        raise InvalidOption(f"report writes pages and files of mteb; for a table, use cxc-eccv tables --format {form}")
    if form not in (None, *REPORT_FORMATS):
        raise UnknownName("format", form, REPORT_FORMATS)
    for option, value in options.items():
        formats = FORMATS_OF_OPTIONS[option]
        if value and form not in formats:
            remedy = "pages are written beside their report.json" if form is None else "leave it out"
            raise InvalidOption(f"--{option} is for --format {' and '.join(formats)}; {remedy}")
    if form is not None and images is not None:
        raise InvalidOption(f"--images is for pages, which --format {form} does not write; leave one of the two out")


def _require_output(form: str, output: Path | None) -> Path:
    if output is None:
        raise InvalidOption(f"--format {form} writes several files; name their folder with --output")
    return output


def _write_mteb(folders: list[Path], name: list[str] | None, output: Path) -> None:
    from cxc_eccv.comparison import read_reports
    from cxc_eccv.integrations.mteb_files import write_mteb

    say_written(write_mteb(output, read_reports(folders, name)))


def _write_every_eval_ever(
    folders: list[Path], name: list[str] | None, output: Path, organization: str | None, relationship: str | None
) -> None:
    from cxc_eccv.comparison import read_reports
    from cxc_eccv.hub.every_eval_ever import write_every_eval_ever

    if name is None:
        raise InvalidOption(
            "name each report's model as on the Hub, in the order of the reports: --name DEVELOPER/MODEL. A report's "
            "own name may be that of a file"
        )
    reports = read_reports(folders, name)
    say_written(write_every_eval_ever(output, reports, organization=organization, relationship=relationship))


def tables(
    reports: Annotated[
        list[Path], typer.Argument(metavar="DIR", help="Folders that evaluate --output wrote, or report.json files.")
    ],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="latex|markdown|csv",
            help="LaTeX with booktabs, Markdown, or CSV with unrounded values under the keys of report.json.",
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
