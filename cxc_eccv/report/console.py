"""The scores of a report as tables: one per task, a row per metric, a column per direction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup
from rich.console import Console, Group, RenderableType
from rich.text import Text

from cxc_eccv.comparison.labels import metric_name, score_cell, unit_of
from cxc_eccv.report.page import Page, caveat_of
from cxc_eccv.report.wording import (
    BOUNDS,
    COVERAGE,
    EXPECTED,
    TIES,
    UNJUDGED,
    Shown,
    bounds_text,
    deviation_text,
    unjudged_text,
)
from cxc_eccv.shown import visible
from cxc_eccv.tables import Cell, Table, tables_to_console, tables_to_html
from cxc_eccv.terminal import print_shown, shown_text
from cxc_eccv.types import Report


def print_report(report: Report, console: Console | None = None) -> None:
    """Print the tables, then what was skipped."""
    print_shown(render(Page(report)), console)


def report_text(report: Report) -> str:
    """What :func:`print_report` prints, without colours."""
    return shown_text(render(Page(report)))


def report_html(report: Report) -> str:
    """The same tables for a notebook; what was skipped is folded away."""
    page = Page(report)
    title = Markup("<p><b>{}</b> {} split, data edition {}</p>").format(page.name, page.split, page.edition)
    cautions = Markup("").join(Markup("<p><b>{}</b></p>").format(line) for line in _caution_lines(page))
    lines = Markup("").join(Markup("<li>{}</li>").format(line) for line in _skipped_lines(page))
    skipped = Markup("<details><summary>Skipped</summary><ul>{}</ul></details>").format(lines) if lines else ""
    scores = tables_to_html(_score_tables(page)) or Markup("<p>{}</p>").format(NOTHING)
    notes = Markup("").join(Markup("<p><small>{}</small></p>").format(line) for line in _notes(page))
    return "\n".join(["<div>", title, cautions, scores, notes, skipped, "</div>"])


NOTHING = "No task could be computed."
JUDGED = "judged pairs, least"
BELOW = {"bounds": bounds_text, "unjudged": unjudged_text}
"""What stands below a metric, where it is known."""


def render(page: Page) -> RenderableType:
    """The page as a rich renderable."""
    tables = list(_score_tables(page))
    return Group(
        tables_to_console(tables) if tables else Text(NOTHING, style="bold"),
        *(Text(line, style="dim") for line in _notes(page)),
        *(Text(visible(line), style="bold red") for line in _caution_lines(page)),
        *(Text(visible(line), style="dim") for line in _skipped_lines(page)),
    )


def _caution_lines(page: Page) -> list[str]:
    modified = [f"modified data: {name} has sha256 {found}, expected {wanted}" for name, wanted, found in page.modified]
    before = {"part of the split": page.restriction, "labels": page.labels}
    lines = [f"{title}: {text}" for title, text in before.items() if text]
    return [*lines, *modified, *([f"judged by a classifier: {page.judge}"] if page.judge else [])]


def _notes(page: Page) -> list[str]:
    """What the rows below the metrics count."""
    if not page.scores:
        return []
    covered = any(row.coverage is not None for row in page.report.results)
    bounds = f"bounds: {BOUNDS}{f'; {EXPECTED}' if page.expects else ''}; unjudged: {UNJUDGED}"
    return [f"ties: {TIES}", *([f"{JUDGED}: {COVERAGE}"] if covered else []), *([bounds] if page.bounded else [])]


def _skipped_lines(page: Page) -> list[str]:
    return [f"skipped {', '.join(names)}: {reason}" for reason, names in page.skipped]


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
    """The metrics, each above its bounds; then the least share of judged pairs in percent, the queries and the ties."""
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
    """The value, and beside it the deviation of its samples and its interval, where it has them."""
    cell = score_cell(result)
    return Cell(cell.text, deviation_text(result), cell.interval if interval else "")
