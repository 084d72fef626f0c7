"""``cxc-eccv compare``: reports against each other and against published models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxc_eccv.cli.choices import DataDir
from cxc_eccv.cli.choices import names as names_of
from cxc_eccv.cli.output import check_output, say_written
from cxc_eccv.errors import InvalidOption
from cxc_eccv.terminal import print_shown, say
from cxc_eccv.writing import replaced_folder

if TYPE_CHECKING:
    from cxc_eccv.types import Report

COMPARISON, CHARTS = "compare.json", ("published_ranks.svg", "published_ranks.png")


def compare(
    reports: Annotated[
        list[Path], typer.Argument(help="report.json files or their folders; the first is the baseline.")
    ],
    published: Annotated[bool, typer.Option("--published", help="Place the models among published ones.")] = False,
    output: Annotated[Path | None, typer.Option(help="Folder for compare.json and the chart of ranks.")] = None,
    names: Annotated[
        list[str] | None,
        typer.Option(help="Models' names. Default: the reports', or where two are alike the folders'."),
    ] = None,
    all_metrics: Annotated[
        bool, typer.Option("--all-metrics", help="Test every metric, not each task's main one alone.")
    ] = False,
    samples: Annotated[
        int | None,
        typer.Option(help="Bootstrap samples. Default: 10000, or more where the number of tests needs them."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    confidence: Annotated[float, typer.Option(help="Of the intervals; 1 minus it is the level of the tests.")] = 0.95,
    chart: Annotated[bool, typer.Option(help="With --published and --output, draw the ranks.")] = True,
    data_dir: DataDir = None,
) -> None:
    """Test the differences between models, or place models among published ones.

    Tested is the main metric of each task, direction by direction, corrected for the number of tests by Holm's method.

    Each report needs the per_query.parquet that evaluate --output writes beside it; a single report with --published
    does not. Reports of different data, splits or protocols are refused.

    Examples:
      cxc-eccv compare baseline/report.json new/report.json
      cxc-eccv compare baseline new --all-metrics --output compared
      cxc-eccv compare new/report.json --published --output compared
    """
    from cxc_eccv.comparison import compare as compare_reports
    from cxc_eccv.comparison import load_reports, place, published_agreement, published_tables, read_reports
    from cxc_eccv.comparison.published import require_matplotlib
    from cxc_eccv.comparison.views import comparison_to_json, render_comparison, render_placements

    if len(reports) == 1 and not published:
        raise InvalidOption("one report alone: name a second one, or place it among published models with --published")
    check_output(output)
    draws_chart = published and chart and output is not None
    if draws_chart:
        require_matplotlib()
    models, tables = read_reports(reports, names_of(names)), published_tables() if published else ()
    placements = [placement for table in tables for placement in place(table, models)]
    comparison, written = None, []
    if len(reports) > 1:
        scored = load_reports(reports, names_of(names), data_dir)
        metrics = "all" if all_metrics else "main"
        comparison = compare_reports(*scored, seed=seed, samples=samples, confidence=confidence, metrics=metrics)
    try:
        if output is not None:
            agreement = published_agreement() if published else None
            text = comparison_to_json(comparison, placements, tables, agreement)
            written = _write(text, models if draws_chart else None, output)
    finally:
        if comparison is not None:
            print_shown(render_comparison(comparison))
        for table in tables:
            placed = [placement for placement in placements if placement.table == table.name]
            print_shown(render_placements(table, placed, list(models)))
    say_written(written)


def _write(text: str, models: dict[str, Report] | None, output: Path) -> list[Path]:
    """Write ``compare.json`` and the chart of the models' ranks, all or nothing."""
    from cxc_eccv.comparison.published import draw_rank_chart, eccv_caption_table

    names = [COMPARISON]
    with replaced_folder(output, (COMPARISON, *CHARTS)) as folder:
        (folder / COMPARISON).write_text(text, encoding="utf-8")
        if models is not None:
            try:
                draw_rank_chart(eccv_caption_table(), models, [folder / name for name in CHARTS])
                names += CHARTS
            except InvalidOption as error:
                say(f"no chart of ranks: {error}", err=True)
    return [output / name for name in names]
