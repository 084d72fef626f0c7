"""Report to a console table: one block per task, a row per direction, a column per metric."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from cxc_eccv.types import Report, Result

__all__ = ["print_report", "render"]

PLAIN_NUMBERS = ("median_rank", "mean_rank", "rsum")
"""Metrics that are no fractions and are not shown in percent."""


def print_report(report: Report, console: Console | None = None) -> None:
    """Print the tables, then what was skipped and what the numbers were computed from."""
    (console or Console()).print(render(report))


def render(report: Report) -> RenderableType:
    """The report as a rich renderable."""
    tasks = dict.fromkeys(result.task for result in report.results)
    blocks: list[RenderableType] = [_table(task, [r for r in report.results if r.task == task]) for task in tasks]
    if not blocks:
        blocks.append(Text("No task could be computed.", style="bold"))
    blocks += [Text(f"skipped {name}: {reason}", style="dim") for name, reason in report.skipped.items()]
    return Group(*blocks)


def _table(task: str, results: list[Result]) -> Table:
    table = Table(title=f"{task}, in percent unless a rank", title_justify="left", title_style="bold")
    table.add_column("direction")
    metrics = list(dict.fromkeys(result.metric for result in results))
    for metric in metrics:
        table.add_column(metric.replace("recall_at_", "R@").replace("_", " "), justify="right")
    table.add_column("queries", justify="right")
    table.add_column("ties", justify="right")
    for direction in dict.fromkeys(result.direction for result in results):
        row = {result.metric: result for result in results if result.direction == direction}
        cells = [_cell(row[metric]) if metric in row else "" for metric in metrics]
        table.add_row(direction or "all", *cells, *_counts(row.values()))
    return table


def _cell(result: Result) -> str:
    scale = 1 if result.metric.startswith(PLAIN_NUMBERS) else 100
    text = f"{scale * result.value:.1f}"
    if result.low is None or result.high is None:
        return text
    return f"{text} [{scale * result.low:.1f}, {scale * result.high:.1f}]"


def _counts(results: Iterable[Result]) -> tuple[str, str]:
    rows = list(results)
    return f"{max(r.n_queries for r in rows):,}", f"{max(r.ties for r in rows):,}"
