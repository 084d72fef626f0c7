"""``cxc-eccv compare``: models with each other, and with published ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxc_eccv.cli.delivery import check_folder, say_written
from cxc_eccv.cli.shared_options import OF_STATISTICS, ReportNames
from cxc_eccv.errors import InvalidOption
from cxc_eccv.writing import recorded_folder, refuse_unwritable

if TYPE_CHECKING:
    from cxc_eccv.comparison import Comparison, ModelAgreement
    from cxc_eccv.comparison.compared_models import ComparedModels


COMPARISON_FILES = (
    "compare.html",
    "compare.json",
    "compare.md",
    "compare.tex",
    "compare.csv",
    "published.csv",
    "scores.csv",
)


def compare(
    reports: Annotated[
        list[Path], typer.Argument(help="Files report.json or their folders; the first is the baseline.")
    ],
    published: Annotated[bool, typer.Option("--published", help="Show the models among published ones.")] = False,
    agreement: Annotated[
        bool,
        typer.Option(
            "--agreement",
            help="Show how alike metrics order three or more models (Kendall's tau-b), in place of tests. Reports of "
            "the same models on other labels can be added; models are matched by name.",
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder for a page, compare.json and tables in Markdown, LaTeX and CSV."),
    ] = None,
    chart: Annotated[
        Path | None,
        typer.Option(
            help="File for the chart, .svg or .png: with --published the models among published ones, else their main "
            "metrics."
        ),
    ] = None,
    name: ReportNames = None,
    all_metrics: Annotated[
        bool, typer.Option("--all-metrics", help="Test every metric, not only the main one of each task.")
    ] = False,
    samples: Annotated[
        int | None,
        typer.Option(
            help="Bootstrap samples. Default: 10000, or more if the number of tests requires it.",
            rich_help_panel=OF_STATISTICS,
        ),
    ] = None,
    confidence: Annotated[
        float,
        typer.Option(
            help="Confidence of the intervals; tests are at the level 1 minus this.", rich_help_panel=OF_STATISTICS
        ),
    ] = 0.95,
) -> None:
    """Compare reports of models, or show them among published ones.

    Examples:
    ```sh
    cxc-eccv compare baseline new
    cxc-eccv compare baseline new --all-metrics --output compared
    cxc-eccv compare new --published --chart standing.svg
    ```

    The tests compare the main metric of each task, one direction at a time. Holm's method corrects for their number.
    With three or more models, each also gets an interval of ranks and the group of models it cannot be told apart from.

    A comparison needs the per_query.parquet that evaluate --output writes beside each report; --published on one report
    does not. Reports of different data, splits or protocols cannot be compared.
    """
    from cxc_eccv.comparison import compare as compare_reports
    from cxc_eccv.comparison import join, load_reports, measure_agreement, published_tables, read_reports
    from cxc_eccv.comparison.compared_models import ComparedModels

    if len(reports) == 1 and not published:
        raise InvalidOption(
            "one report cannot be compared: add a second one, or show it among published models with --published"
        )
    if agreement and published:
        raise InvalidOption("--agreement and --published are different tables: leave out one of the two")
    if agreement and chart is not None:
        raise InvalidOption("--agreement has no chart: leave out --chart")
    check_folder(output)
    if chart is not None:
        from cxc_eccv.presentation.drawing import check_chart_file

        check_chart_file(chart)
        refuse_unwritable(chart, file=True)
    scored = load_reports(reports, name, per_labels=agreement) if len(reports) > 1 else ()
    models = {model.name: model.report for model in scored} or read_reports(reports, name)
    papers = published_tables() if published else ()
    comparison: Comparison | ModelAgreement | None = None
    metrics = "all" if all_metrics else "main"
    if agreement:
        comparison = measure_agreement(*scored, samples=samples, confidence=confidence, metrics=metrics)
    elif len(reports) > 1:
        comparison = compare_reports(*scored, samples=samples, confidence=confidence, metrics=metrics)
    compared = ComparedModels(comparison, tuple(join(paper, models) for paper in papers), is_written=output is not None)
    written = []
    try:
        if output is not None:
            written = write_comparison(texts_of(compared), output)
        if chart is not None:
            compared.drawing.save(chart)
            written.append(chart)
    finally:
        compared.show()
    say_written(written)


def texts_of(compared: ComparedModels) -> dict[str, str]:
    """The text of each file that a comparison writes, by name."""
    from cxc_eccv.tables import rows_to_csv

    texts = {
        "compare.html": compared.to_html(),
        "compare.json": compared.to_json(),
        "compare.md": compared.to_markdown(),
        "compare.tex": compared.to_latex(),
    }
    if compared.comparison is not None:
        texts["compare.csv"] = compared.comparison.to_csv()
    if compared.published:
        texts["published.csv"] = rows_to_csv([row for joined in compared.published for row in joined.records()])
    return texts


def write_comparison(texts: dict[str, str], output: Path) -> list[Path]:
    """Write the files, all or nothing; the files of an earlier comparison are removed."""
    with recorded_folder(output, COMPARISON_FILES) as folder:
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return [output / name for name in texts]
