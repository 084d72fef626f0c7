"""A report on a terminal or in a notebook: the data, the main numbers, a table per task, and what was not scored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from markupsafe import Markup
from rich.console import Console, Group, RenderableType
from rich.text import Text

from cxc_eccv.registry import tasks
from cxc_eccv.report.page import Page, caveat_of
from cxc_eccv.tables import MISSING, Cell, Table, tables_to_console, tables_to_html
from cxc_eccv.terminal import print_shown, shown_text, visible
from cxc_eccv.types import DIRECTIONS, Report
from cxc_eccv.wording import (
    BOUNDS,
    COVERAGE,
    ESTIMATE,
    EXPECTED,
    TIES,
    UNJUDGED,
    Shown,
    bounds_text,
    deviation_text,
    estimate_text,
    metric_name,
    score_cell,
    show_value,
    task_name,
    unit_of,
    unjudged_text,
)


def print_report(report: Report, console: Console | None = None) -> None:
    """Print what :func:`report_text` returns, with colours where the terminal has them."""
    print_shown(render(Page(report)), console)


def report_text(report: Report) -> str:
    """The report for a terminal, without colours."""
    return shown_text(render(Page(report)))


def report_html(report: Report) -> str:
    """The report for a notebook; what was not scored is folded away."""
    page = Page(report)
    title = Markup("<p><b>{}</b></p>").format(page.first_line) if page.first_line else ""
    cautions = Markup("").join(Markup("<p><b>{}</b></p>").format(line) for line in _caution_lines(page))
    lines = Markup("").join(Markup("<li>{}</li>").format(line) for line in _skipped_lines(page))
    skipped = Markup("<details><summary>Not scored</summary><ul>{}</ul></details>").format(lines) if lines else ""
    scores = tables_to_html(list_tables(page)) or Markup("<p>{}</p>").format(NOTHING)
    notes = Markup("").join(Markup("<p><small>{}</small></p>").format(line) for line in _notes(page))
    return "\n".join(["<div>", title, cautions, scores, notes, skipped, "</div>"])


NOTHING = "No task could be scored."
JUDGED = "judged pairs, least"
BELOW = {"bounds": bounds_text, "estimate": estimate_text, "unjudged": unjudged_text}
"""Rows below a metric."""

HEADLINE = {"coco_5k": "recall_at_1", "cxc": "recall_at_1", "eccv_caption": "map_at_r"}
"""Tasks whose numbers come first, each with its metric."""


def render(page: Page) -> RenderableType:
    """The page as a rich renderable."""
    tables = list_tables(page)
    return Group(
        *([Text(page.first_line, style="bold"), Text()] if page.first_line else []),
        tables_to_console(tables) if tables else Text(NOTHING, style="bold"),
        *(Text(line, style="dim") for line in _notes(page)),
        *(Text(visible(line), style="bold red") for line in _caution_lines(page)),
        *([Text(visible(f"Not scored. {'; '.join(lines)}."), style="dim")] if (lines := _skipped_lines(page)) else []),
    )


def _caution_lines(page: Page) -> list[str]:
    modified = [f"modified data: {name} has sha256 {actual}, expected {known}" for name, known, actual in page.modified]
    before = {"part of the split": page.restriction, "labels": page.labels}
    lines = [f"{title}: {text}" for title, text in before.items() if text]
    return [*lines, *modified, *([f"pairs judged by a classifier: {page.judge}"] if page.judge else [])]


def _notes(page: Page) -> list[str]:
    """Explanations of the rows below the metrics."""
    if not page.scores:
        return []
    covered = any(row.coverage is not None for row in page.report.results)
    bounds = f"bounds: {BOUNDS}{f'; {EXPECTED}' if page.expects else ''}; unjudged: {UNJUDGED}"
    bounds += f"; estimate: {ESTIMATE}" if page.estimates else ""
    return [f"ties: {TIES}", *([f"{JUDGED}: {COVERAGE}"] if covered else []), *([bounds] if page.bounded else [])]


def _skipped_lines(page: Page) -> list[str]:
    return [f"{', '.join(_shorten(names))}: {reason}" for reason, names in page.skipped]


def _shorten(names: Iterable[str]) -> list[str]:
    """Names of what was skipped: a task in place of all its parts."""
    parts: dict[str, list[str]] = {}
    for name in names:
        task, _, part = name.partition("/")
        parts.setdefault(task, []).append(part)
    shortened: list[str] = []
    for task, skipped in parts.items():
        known = tasks().get(task)
        is_whole = skipped == [""] or (known is not None and skipped == list(known.parts))
        shortened += [task] if is_whole else [f"{task}/{part}" if part else task for part in skipped]
    return shortened


def list_tables(page: Page) -> list[Table]:
    """The main numbers of several tasks, then the tables of each task."""
    return [*_headline_tables(page), *_score_tables(page)]


def headline(page: Page) -> dict[str, dict[str, str]]:
    """The main numbers: task and metric, as ``COCO 5K R@1``, to direction to value in percent."""
    rows: dict[str, dict[str, str]] = {}
    for row in page.report.results:
        if HEADLINE.get(row.task) == row.metric and row.direction:
            title = f"{task_name(row.task)} {metric_name(row.metric)}"
            rows.setdefault(title, {})[row.direction] = show_value(row.metric, row.value)
    return rows


def _headline_tables(page: Page) -> Iterator[Table]:
    rows = headline(page)
    directions = [direction for direction in DIRECTIONS if any(direction in values for values in rows.values())]
    if rows and len(page.scores) > 1:
        lines = [[title, *(values.get(name, MISSING) for name in directions)] for title, values in rows.items()]
        yield Table([("",), *((name,) for name in directions)], lines, "Main numbers", "percent")


def _score_tables(page: Page) -> Iterator[Table]:
    interval = f" with {100 * page.confidence:g}% interval" if page.confidence else ""
    part = f"{', on a part of the split' if page.restriction else ''}{', on other labels' if page.labels else ''}"
    for card in page.scores:
        correlations = any(unit_of(row[0].metric) == "correlation" for table in card.tables for row in table)
        title, subtitle = card.title, f"percent{' (correlations as they are)' if correlations else ''}{interval}{part}"
        for rows in [*card.tables, *([[(row,) for row in card.whole]] if card.whole else [])]:
            yield _score_table(rows, title, subtitle)
            title = subtitle = ""


def _score_table(rows: Sequence[Sequence[Shown]], title: str, subtitle: str) -> Table:
    """The metrics with their bounds; then the least share of judged pairs in percent, the queries and the ties."""
    columns = [caveat_of(column) for column in zip(*rows, strict=True)]
    lines: list[Sequence[str | Cell]] = []
    styles: list[str] = []
    for row in rows:
        added = [[f"  {name}", *map(text, row)] for name, text in BELOW.items() if any(map(text, row))]
        lines += [[metric_name(row[0].metric), *map(number_cell, row)], *added]
        styles += ["", *["dim"] * len(added)]
    if any(column.coverage for column in columns):
        least = [min((share for _, share in column.coverage), default=None) for column in columns]
        lines.append([JUDGED, *("" if share is None else f"{100 * share:.1f}" for share in least)])
    lines.append(["queries", *(f"{column.n_queries:,}" for column in columns)])
    lines.append(["ties", *(f"{column.ties:,}" for column in columns)])
    styles += ["dim"] * (len(lines) - len(styles))
    header = [("",), *((column.direction or "whole",) for column in columns)]
    return Table(header, lines, title, subtitle, styles=styles)


def number_cell(result: Shown, *, interval: bool = True) -> Cell:
    """The value, with the deviation of its samples and its interval if it has them."""
    cell = score_cell(result)
    return Cell(cell.text, deviation_text(result), cell.interval if interval else "")
