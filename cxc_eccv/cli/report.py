"""``cxc-eccv report``: the pages of a report anew, or reports as the tables of a paper."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxc_eccv.cli.choices import Thumbnails
from cxc_eccv.cli.choices import names as names_of
from cxc_eccv.cli.output import say_written
from cxc_eccv.errors import InvalidOption
from cxc_eccv.terminal import say
from cxc_eccv.writing import replaced_file

if TYPE_CHECKING:
    from cxc_eccv.types import Report


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Folders that evaluate --output wrote; of tables also report.json."),
    ],
    images: Thumbnails = None,
    latex: Annotated[
        bool, typer.Option("--latex", help="Print tables for a paper, with the rules of booktabs.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print them as Markdown.")] = False,
    csv: Annotated[
        bool, typer.Option("--csv", help="Print them as CSV, values whole and under report.json's keys.")
    ] = False,
    mteb: Annotated[
        bool, typer.Option("--mteb", help="Write the JSON files that mteb.ResultCache reads, to the folder --output.")
    ] = False,
    intervals: Annotated[bool, typer.Option("--intervals", help="Of tables: with the intervals.")] = False,
    tasks: Annotated[
        list[str] | None,
        typer.Option(help="Of tables: which tasks. Default: COCO, CxC, ECCV Caption, Plausible match, Flickr."),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option(help="Of tables: models' names. Default: the reports', or where two are alike the folders'."),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="File for the tables; with --mteb a folder.")] = None,
) -> None:
    """Rebuild report.md and report.html, or print one or several reports as the tables of a paper.

    The pages are made from report.json, per_query.parquet and examples.parquet. The HTML page is one self-contained
    file: it loads nothing from elsewhere. Without --images it shows images by their file names and captions.

    Tables have a row per report and the columns of COCO 1K, COCO 5K, CxC and ECCV Caption, the best in bold. Reports of
    different data, splits or protocols are refused.

    Examples:
      cxc-eccv report out
      cxc-eccv report out --images val2014
      cxc-eccv report baseline new --latex --output scores.tex
      cxc-eccv report baseline new --markdown --tasks coco_5k,cxc --intervals
      cxc-eccv report out --mteb --output mteb_results
    """
    wanted = {"latex": latex, "markdown": markdown, "csv": csv, "mteb": mteb}
    forms = [name for name in wanted if wanted[name]]
    if len(forms) > 1:
        raise InvalidOption(f"--{' and --'.join(forms)} are different forms; name one")
    if not forms:
        for option, value in {"intervals": intervals, "tasks": tasks, "names": names, "output": output}.items():
            if value:
                raise InvalidOption(f"--{option} is for tables; name their form: --latex, --markdown or --csv")
        _rebuild(folders, images)
        return
    if images is not None:
        raise InvalidOption(f"--images are thumbnails in report.html, which --{forms[0]} does not make; leave one out")
    from cxc_eccv.comparison import read_reports

    if mteb:
        _write_mteb(read_reports(folders, names_of(names)), output, has_table_options=intervals or bool(tasks))
        return
    from cxc_eccv.report.paper import paper_csv, paper_tables
    from cxc_eccv.tables import tables_to_latex, tables_to_markdown

    reports, chosen = read_reports(folders, names_of(names)), names_of(tasks)
    if csv:
        text = paper_csv(reports, chosen, intervals=intervals)
    else:
        to_text = tables_to_latex if latex else tables_to_markdown
        text = to_text(paper_tables(reports, chosen, intervals=intervals))
    if output is None:
        say(text.rstrip("\n"))
    else:
        with replaced_file(output) as file:
            file.write_text(text, encoding="utf-8", newline="\n")
        say_written([output])


def _write_mteb(reports: Mapping[str, Report], output: Path | None, *, has_table_options: bool) -> None:
    from cxc_eccv.integrations.mteb_results import write_mteb

    if has_table_options:
        raise InvalidOption("--intervals and --tasks are for tables; --mteb writes every result with its interval")
    if output is None:
        raise InvalidOption("--mteb writes several files; name their folder with --output")
    say_written(write_mteb(output, reports))


def _rebuild(folders: list[Path], images: Path | None) -> None:
    from cxc_eccv.report.folder import rebuild_pages

    for folder in folders:
        say_written(rebuild_pages(folder, images))
