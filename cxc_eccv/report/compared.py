"""The page of a comparison: rank intervals with their groups, how ranks move from labels to labels, and differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cxc_eccv.comparison import Comparison, ModelRank
from cxc_eccv.comparison.labels import task_name
from cxc_eccv.comparison.ranks import group_ranks, label_tasks, rank_tables
from cxc_eccv.report.charts import LineChart, rank_chart
from cxc_eccv.report.pages import page_style, template
from cxc_eccv.report.wording import direction_name


def render_comparison(comparison: Comparison) -> str:
    """The comparison as one self-contained HTML page; everything from the data is escaped."""
    ranks, confidence = group_ranks(comparison.ranks), comparison.settings.confidence
    moves = {direction: _draw_moves(direction, by_task) for direction, by_task in ranks.items()}
    return template("compared.html.jinja", keep_trailing_newline=True).render(
        comparison=comparison,
        models=(comparison.baseline, *comparison.models),
        css=page_style(),
        ranks=ranks,
        overviews=dict(zip(ranks, rank_tables(comparison.ranks, confidence), strict=True)),
        moves={direction: chart for direction, chart in moves.items() if chart is not None},
        tables=comparison.difference_tables(),
    )


def _draw_moves(direction: str, by_task: Mapping[str, Sequence[ModelRank]]) -> LineChart | None:
    """The ranks under each set of labels of one gallery, of the models that all of them rank."""
    tables = {task: {row.model: row for row in rows} for task, rows in by_task.items()}
    steps = [task for task in label_tasks() if task in tables]
    if len(steps) < 2:
        return None
    models = [model for model in tables[steps[0]] if all(model in tables[task] for task in steps)]
    series = {
        model: [(row.rank, row.low, row.high) for row in (tables[task][model] for task in steps)] for model in models
    }
    title = f"Ranks from labels to labels, {direction_name(direction)}"
    return rank_chart(f"ranks-{direction}", title, [task_name(task) for task in steps], series)
