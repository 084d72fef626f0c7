"""The page as console tables: one per task, a row per metric, a column per direction."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from cxc_eccv.comparison.labels import metric_name, show_value
from cxc_eccv.report.page import Page, caveat_of
from cxc_eccv.shown import visible
from cxc_eccv.terminal import Sheet, print_shown
from cxc_eccv.types import Report, Result

__all__ = ["print_report", "render"]


def print_report(report: Report, console: Console | None = None) -> None:
    """Print the tables, then what was skipped."""
    print_shown(render(Page(report)), console)


def render(page: Page) -> RenderableType:
    """The page as a rich renderable."""
    interval = f" with {100 * page.confidence:g}% interval" if page.confidence else ""
    part = ", on a part of the split" if page.restriction else ""
    blocks: list[RenderableType] = []
    for card in page.scores:
        tables = [*card.tables, *([[(row,) for row in card.whole]] if card.whole else [])]
        blocks.append(Text.assemble((visible(card.task), "bold"), (f"{part}, percent{interval}", "dim")))
        blocks += [_table(rows) for rows in tables]
    if not blocks:
        blocks.append(Text("No task could be computed.", style="bold"))
    if page.restriction:
        blocks.append(Text(f"part of the split: {page.restriction}", style="bold red"))
    blocks += [
        Text(visible(f"modified data: {name} has sha256 {found}, expected {expected}"), style="bold red")
        for name, expected, found in page.modified
    ]
    blocks += [Text(visible(f"skipped {', '.join(names)}: {reason}"), style="dim") for reason, names in page.skipped]
    return Group(*blocks)


def _table(rows: Sequence[Sequence[Result]]) -> Sheet:
    """The metrics, and below them the least share of judged pairs in percent, the queries and the ties."""
    columns = [caveat_of(column) for column in zip(*rows, strict=True)]
    lines = [[metric_name(row[0].metric), *map(_cell, row)] for row in rows]
    if any(column.coverage for column in columns):
        least = [min((share for _, share in column.coverage), default=None) for column in columns]
        lines.append(["judged pairs, least", *("" if share is None else f"{100 * share:.1f}" for share in least)])
    lines.append(["queries", *(f"{column.n_queries:,}" for column in columns)])
    lines.append(["ties", *(f"{column.ties:,}" for column in columns)])
    styles = [""] * len(rows) + ["dim"] * (len(lines) - len(rows))
    return Sheet(("", *(column.direction or "whole" for column in columns)), lines, styles=styles)


def _cell(result: Result) -> str:
    value = show_value(result.metric, result.value)
    if result.low is None or result.high is None:
        return value
    return f"{value} [{show_value(result.metric, result.low)}, {show_value(result.metric, result.high)}]"
