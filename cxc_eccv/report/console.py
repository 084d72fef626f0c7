"""Report to console tables: one per task, a row per metric, a column per direction."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.text import Text

from cxc_eccv.comparison.labels import metric_name, shown_value
from cxc_eccv.report.page import modified
from cxc_eccv.shown import visible
from cxc_eccv.terminal import Sheet, print_shown
from cxc_eccv.types import Report, Result, group_by_reason

__all__ = ["print_report", "render"]


def print_report(report: Report, console: Console | None = None) -> None:
    """Print the tables, then what was skipped."""
    print_shown(render(report), console)


def render(report: Report) -> RenderableType:
    """The report as a rich renderable.

    Example:
        >>> report = Report((Result("coco_5k", "i2t", "recall_at_1", 0.5, 5000, low=0.48, high=0.52),), {}, {})
        >>> console = Console(width=60)
        >>> with console.capture() as shown:
        ...     console.print(render(report))
        >>> "R@1       50.0 [48.0, 52.0]" in shown.get()
        True
    """
    tasks = dict.fromkeys(result.task for result in report.results)
    blocks: list[RenderableType] = []
    for task in tasks:
        results = [result for result in report.results if result.task == task]
        blocks += [_title(task, report), *(_table(group) for group in _alike(results))]
    if not blocks:
        blocks.append(Text("No task could be computed.", style="bold"))
    return Group(*blocks, *_modified(report), *_skipped(report))


def _alike(results: list[Result]) -> list[list[Result]]:
    """Directions that share their metrics share a table: retrieval in one, correlations in another."""
    metrics: dict[str, list[str]] = {}
    for result in results:
        metrics.setdefault(result.direction, []).append(result.metric)
    kinds = dict.fromkeys(tuple(names) for names in metrics.values())
    return [[r for r in results if tuple(metrics[r.direction]) == kind] for kind in kinds]


def _title(task: str, report: Report) -> Text:
    confidence = report.provenance.get("confidence", 0.95)
    interval = f" with {100 * confidence:g}% interval" if confidence else ""
    return Text.assemble((visible(task), "bold"), (f", percent{interval}", "dim"))


def _table(results: list[Result]) -> Sheet:
    directions = list(dict.fromkeys(result.direction for result in results))
    cells = {(result.metric, result.direction): result for result in results}
    rows, styles = [], []
    for metric in dict.fromkeys(result.metric for result in results):
        found = [cells.get((metric, direction)) for direction in directions]
        rows.append([metric_name(metric), *(_value(result) if result else "" for result in found)])
        styles.append("")
    if any(result.coverage is not None for result in results):
        rows.append(["judged pairs, least", *(_coverage(results, direction) for direction in directions)])
    for label, field in (("queries", "n_queries"), ("ties", "ties")):
        largest = [max(getattr(r, field) for r in results if r.direction == direction) for direction in directions]
        rows.append([label, *(f"{number:,}" for number in largest)])
    styles += ["dim"] * (len(rows) - len(styles))
    return Sheet(("", *(direction or "whole" for direction in directions)), rows, styles=styles)


def _coverage(results: list[Result], direction: str) -> str:
    """The least share, in percent, of the pairs that a metric of this direction needed and that were judged."""
    shares = [r.coverage for r in results if r.direction == direction and r.coverage is not None]
    return f"{100 * min(shares):.1f}" if shares else ""


def _value(result: Result) -> str:
    value, low, high = (
        None if number is None else shown_value(result.metric, number)
        for number in (result.value, result.low, result.high)
    )
    return f"{value}" if low is None or high is None else f"{value} [{low}, {high}]"


def _modified(report: Report) -> list[Text]:
    lines = [
        f"modified data: {name} has sha256 {found}, expected {expected}" for name, expected, found in modified(report)
    ]
    return [Text(visible(line), style="bold red") for line in lines]


def _skipped(report: Report) -> list[Text]:
    return [
        Text(visible(f"skipped {', '.join(names)}: {reason}"), style="dim")
        for reason, names in group_by_reason(report.skipped).items()
    ]
