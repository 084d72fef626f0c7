"""``cxc-eccv compare``: models with each other; ``cxc-eccv conformance``: the numbers of other libraries with ours."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxc_eccv.cli.choices import ReportNames, names
from cxc_eccv.cli.output import check_folder, say_written
from cxc_eccv.errors import InvalidOption
from cxc_eccv.terminal import print_shown, say
from cxc_eccv.writing import replaced_folder, write_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cxc_eccv.comparison import Comparison, Placement, PublishedTable
    from cxc_eccv.comparison.published import ModelOrder
    from cxc_eccv.tables import Table
    from cxc_eccv.types import Report


CHARTS = ("published_ranks.svg", "published_ranks.png")
TEXTS = ("compare.html", "compare.json", "compare.md", "compare.tex", "compare.csv", "placements.csv", "scores.csv")


def compare(
    reports: Annotated[
        list[Path], typer.Argument(help="Files report.json or their folders; the first is the baseline.")
    ],
    published: Annotated[bool, typer.Option("--published", help="Rank the models among published ones.")] = False,
    all_published: Annotated[
        bool, typer.Option("--all-published", help="Also list all published models, with yours in their places.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder for a page, compare.json, tables in Markdown, LaTeX and CSV, and a chart of ranks."),
    ] = None,
    name: ReportNames = None,
    all_metrics: Annotated[
        bool, typer.Option("--all-metrics", help="Test every metric, not only the main one of each task.")
    ] = False,
    samples: Annotated[
        int | None,
        typer.Option(help="Bootstrap samples. Default: 10000, or more if the number of tests requires it."),
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="Confidence of the intervals; tests are at the level 1 minus this.")
    ] = 0.95,
) -> None:
    """Test the differences between models, or rank models among published ones.

    The tests compare the main metric of each task, one direction at a time. Holm's method corrects for their number.
    With three or more models, each also gets an interval of ranks and the group of models it cannot be told apart from.

    A comparison needs the per_query.parquet that evaluate --output writes beside each report; --published on one report
    does not. Reports of different data, splits or protocols cannot be compared.

    Examples:
    ```sh
    cxc-eccv compare baseline/report.json new/report.json
    cxc-eccv compare baseline new --all-metrics --output compared
    cxc-eccv compare new/report.json --published --output compared
    cxc-eccv compare new --all-published
    ```
    """
    from cxc_eccv.comparison import compare as compare_reports
    from cxc_eccv.comparison import load_reports, place, published_tables, read_reports
    from cxc_eccv.comparison.published import order_models
    from cxc_eccv.tables import tables_to_console

    published = published or all_published
    if len(reports) == 1 and not published:
        raise InvalidOption(
            "one report cannot be compared: add a second one, or rank it among published models with --published"
        )
    check_folder(output)
    scored = load_reports(reports, name) if len(reports) > 1 else ()
    models = {model.name: model.report for model in scored} or read_reports(reports, name)
    papers = published_tables() if published else ()
    placements = [placement for paper in papers for placement in place(paper, models)]
    orders = [order_models(paper, models) for paper in papers] if all_published else []
    comparison = None
    if len(reports) > 1:
        metrics = "all" if all_metrics else "main"
        comparison = compare_reports(*scored, samples=samples, confidence=confidence, metrics=metrics)
    tables = _lay_out(comparison, papers, placements, orders, list(models))
    written = []
    try:
        if output is not None:
            texts = texts_of(comparison, papers, placements, orders, tables)
            written = write_comparison(texts, models if published else None, output)
    finally:
        print_shown(tables_to_console(tables))
    say_written(written)


def _lay_out(
    comparison: Comparison | None,
    papers: Sequence[PublishedTable],
    placements: Sequence[Placement],
    orders: Sequence[ModelOrder],
    models: Sequence[str],
) -> list[Table]:
    from cxc_eccv.comparison.views import order_tables, placement_table

    tables = [] if comparison is None else comparison.tables()
    for paper in papers:
        in_table = [placement for placement in placements if placement.table == paper.name]
        tables.append(placement_table(paper, in_table, models))
        tables += [table for order in orders if order.table is paper for table in order_tables(order)]
    return tables


def texts_of(
    comparison: Comparison | None,
    papers: Sequence[PublishedTable],
    placements: Sequence[Placement],
    orders: Sequence[ModelOrder],
    tables: Sequence[Table],
) -> dict[str, str]:
    """The text of each file that a comparison writes, by name."""
    from cxc_eccv.comparison import published_agreement
    from cxc_eccv.comparison.views import comparison_to_json, order_to_csv, rows_to_csv
    from cxc_eccv.report.pages import render_comparison
    from cxc_eccv.tables import tables_to_latex, tables_to_markdown

    agreement = published_agreement() if papers else None
    texts = {
        "compare.json": comparison_to_json(comparison, placements, papers, agreement),
        "compare.md": tables_to_markdown(tables),
        "compare.tex": tables_to_latex(tables),
    }
    if comparison is not None:
        texts["compare.html"] = render_comparison(comparison)
        texts["compare.csv"] = rows_to_csv(comparison.records())
    if papers:
        texts["placements.csv"] = rows_to_csv([asdict(placement) for placement in placements])
    return texts | {f"published_{order.table.name}.csv": order_to_csv(order) for order in orders}


def write_comparison(texts: dict[str, str], models: dict[str, Report] | None, output: Path) -> list[Path]:
    """Write the files and the chart, all or nothing; the files of an earlier comparison are removed."""
    from cxc_eccv.comparison.published import eccv_caption_table, published_tables
    from cxc_eccv.comparison.published.rank_chart import draw_rank_chart

    names = list(texts)
    ours = {*TEXTS, *CHARTS, *(f"published_{paper.name}.csv" for paper in published_tables())}
    with replaced_folder(output, ours) as folder:
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
        if models is not None:
            try:
                draw_rank_chart(eccv_caption_table(), models, [folder / name for name in CHARTS])
                names += CHARTS
            except InvalidOption as error:
                say(f"no chart of ranks: {error}", err=True)
    return [output / name for name in names]


def conformance(
    libraries: Annotated[
        list[str] | None, typer.Argument(help="Libraries to run, such as ranx. Default: all that are installed.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder for the table, the script of the embeddings and the expected values."),
    ] = None,
) -> None:
    """Run other libraries on fixed embeddings, and prove why their numbers differ from ours.

    The kit has many equal scores. A difference counts as explained if the library's rule for ties and its definition,
    stated again here, give exactly its value. With an unexplained one the exit status is 1.

    Examples:
    ```sh
    cxc-eccv conformance
    cxc-eccv conformance ranx torchmetrics
    cxc-eccv conformance --output kit
    ```
    """
    from cxc_eccv.integrations.conformance import choose, comparison_tables, kit_files, run_kit
    from cxc_eccv.tables import tables_to_console, tables_to_markdown

    check_folder(output)
    chosen = choose(names(libraries))
    rows = run_kit(chosen)
    tables = comparison_tables(chosen, rows)
    texts = {
        "conformance.json": json.dumps([row._asdict() for row in rows], indent=2) + "\n",
        "conformance.md": tables_to_markdown(tables),
        **kit_files(),
    }
    written = [] if output is None else write_texts(output, texts)
    print_shown(tables_to_console(tables))
    say_written(written)
    if any(row.why is None for row in rows):
        raise typer.Exit(1)
