"""Report to console tables: one per task, a row per metric, a column per direction."""

from __future__ import annotations

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from cxc_eccv.types import Report, Result

__all__ = ["print_report", "render"]

PLAIN_NUMBERS = ("median_rank", "mean_rank", "rsum")
"""Metrics that are no fractions and are not shown in percent."""

NAMES = {"map_at_r": "mAP@R", "r_precision": "R-Precision", "rsum": "RSUM", "mrr": "MRR"}
PIPED_WIDTH = 100


def print_report(report: Report, console: Console | None = None) -> None:
    """Print the tables, then what was skipped and what the numbers were computed from."""
    shown = console or Console()
    if not shown.is_terminal:
        shown = Console(file=shown.file, width=PIPED_WIDTH)
    shown.print(render(report))


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
        blocks += [_title(task, report), _table([result for result in report.results if result.task == task])]
    if not blocks:
        blocks.append(Text("No task could be computed.", style="bold"))
    return Group(*blocks, *_skipped(report))


def _title(task: str, report: Report) -> Text:
    confidence = report.provenance.get("confidence", 0.95)
    interval = f" with {100 * confidence:g}% interval" if confidence else ""
    return Text.assemble((task, "bold"), (f", percent{interval}", "dim"))


def _table(results: list[Result]) -> Table:
    directions = list(dict.fromkeys(result.direction for result in results))
    cells = {(result.metric, result.direction): result for result in results}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True)
    table.add_column("", no_wrap=True)
    for direction in directions:
        table.add_column(direction or "whole", justify="right", no_wrap=True)
    for metric in dict.fromkeys(result.metric for result in results):
        found = [cells.get((metric, direction)) for direction in directions]
        table.add_row(_label(metric), *[_value(result) if result else "" for result in found])
    for label, field in (("queries", "n_queries"), ("ties", "ties")):
        largest = [max(getattr(r, field) for r in results if r.direction == direction) for direction in directions]
        table.add_row(label, *[f"{number:,}" for number in largest], style="dim")
    return table


def _label(metric: str) -> str:
    return NAMES.get(metric, metric.replace("recall_at_", "R@").replace("_at_", "@").replace("_", " "))


def _value(result: Result) -> str:
    scale = 1 if result.metric.startswith(PLAIN_NUMBERS) else 100
    text = f"{scale * result.value:.1f}"
    if result.low is None or result.high is None:
        return text
    return f"{text} [{scale * result.low:.1f}, {scale * result.high:.1f}]"


def _skipped(report: Report) -> list[Text]:
    by_reason: dict[str, list[str]] = {}
    for name, reason in report.skipped.items():
        by_reason.setdefault(reason, []).append(name)
    return [Text(f"skipped {', '.join(names)}: {reason}", style="dim") for reason, names in by_reason.items()]
