"""A report as tables and lines, for its pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from cxc_eccv.registry import tasks
from cxc_eccv.report.charts import Verdicts, table_depths
from cxc_eccv.report.page_content import Page, caveat_of
from cxc_eccv.report.report_data import ReportData
from cxc_eccv.tables import MISSING, Cell, Table
from cxc_eccv.terminal import code_span, is_code, upper_first
from cxc_eccv.types import DIRECTIONS, Result
from cxc_eccv.wording import (
    BOUNDS,
    COVERAGE,
    ESTIMATE,
    EXPECTED,
    IF_TIES_HELP,
    TIES,
    UNJUDGED,
    Shown,
    bounds_text,
    deviation_text,
    direction_name,
    estimate_text,
    explain_intervals,
    find_ties_page,
    if_ties_help_text,
    judge_text,
    metric_name,
    rank_text,
    score_cell,
    show_value,
    task_name,
    unit_of,
    unjudged_text,
)

NOTHING = "No task could be scored."
JUDGED = "labelled pairs, at least"
BELOW = {
    "if ties help": if_ties_help_text,
    "bounds": bounds_text,
    "estimate": estimate_text,
    "unjudged": unjudged_text,
    "judge": judge_text,
}
"""Rows below a metric."""

HEADLINE = {"coco_5k": "recall_at_1", "cxc": "recall_at_1", "eccv_caption": "map_at_r"}
"""Tasks whose numbers come first, each with its metric."""


def caution_lines(page: Page) -> list[str]:
    """What makes the numbers different from others: a part of the split, other labels, queries without results, ..."""
    modified = [f"modified data: {name} has sha256 {actual}, expected {known}" for name, known, actual in page.modified]
    before = {
        "part of the split": page.restriction,
        "labels": page.labels,
        "queries without results": page.missing,
    }
    lines = [f"{title}: {text}" for title, text in before.items() if text]
    return [*lines, *modified, *([f"pairs judged by a classifier: {page.judge}"] if page.judge else [])]


def explain_rows(page: Page) -> list[str]:
    """Explanations of the rows below the metrics."""
    if not page.scores:
        return []
    rows = [*interval_lines(page.results), f"ties: {TIES} (see {find_ties_page()})"]
    if any(if_ties_help_text(row) for row in page.results):
        rows.append(f"if ties help: {IF_TIES_HELP}")
    if any(row.coverage is not None for row in page.report.results):
        rows.append(f"{JUDGED}: {COVERAGE}")
    return [*rows, *explain_bounds(page)]


def interval_lines(results: Iterable[Result]) -> list[str]:
    """How the intervals were made; empty without intervals."""
    text = explain_intervals(results)
    return [f"intervals: {text}"] if text else []


def explain_bounds(page: Page) -> list[str]:
    """The explanation of the rows of bounds; empty if there are none."""
    bounds = f"bounds: {BOUNDS}{f'; {EXPECTED}' if page.expects else ''}; unjudged: {UNJUDGED}"
    return [f"{bounds}; estimate: {ESTIMATE}" if page.estimates else bounds] if page.bounded else []


def skipped_lines(page: Page) -> list[str]:
    """What was not scored, and why."""
    return [f"{', '.join(shorten_parts(names))}: {reason}" for reason, names in page.skipped]


def shorten_parts(names: Iterable[str]) -> list[str]:
    """Names of what was skipped: a task in place of all its parts."""
    parts: dict[str, list[str]] = {}
    for name in names:
        task, _, part = name.partition("/")
        parts.setdefault(task, []).append(part)
    shortened: list[str] = []
    for task, skipped in parts.items():
        known = tasks().get(task)
        is_whole = skipped == [""] or (known is not None and skipped == list(known.part_names))
        shortened += [task] if is_whole else [f"{task}/{part}" if part else task for part in skipped]
    return shortened


def list_tables(page: Page, name_row: Callable[[Shown], str] = lambda row: metric_name(row.metric)) -> list[Table]:
    """The main numbers of several tasks, then the tables of each task."""
    return [*headline_tables(page), *_score_tables(page, name_row)]


def headline_tables(page: Page) -> Iterator[Table]:
    """The main numbers, if several tasks were scored."""
    rows: dict[str, dict[str, str]] = {}
    for row in page.results:
        if HEADLINE.get(row.task) == row.metric and row.direction:
            title = f"{task_name(row.task)} {metric_name(row.metric)}"
            rows.setdefault(title, {})[row.direction] = show_value(row.metric, row.value)
    directions = [direction for direction in DIRECTIONS if any(direction in values for values in rows.values())]
    if rows and len(page.scores) > 1:
        lines = [[title, *(values.get(name, MISSING) for name in directions)] for title, values in rows.items()]
        yield Table([("",), *((name,) for name in directions)], lines, "Main numbers", "percent", compact=True)


def table_of_change(before: ReportData, after: ReportData) -> Table:
    """The main numbers of a model before and after its training."""
    main = [
        row
        for row in after.results
        if row.metric in {HEADLINE.get(row.task), "bootstrap_spearman"} and row.key in before.scores
    ]
    rows = [
        [
            f"{task_name(row.task)} {row.direction} {metric_name(row.metric)}",
            *(show_value(row.metric, report.scores[row.key]) for report in (before, after)),
        ]
        for row in main
    ]
    return Table([("",), ("before",), ("after",)], rows, "Before and after training", compact=True)


def _score_tables(page: Page, name_row: Callable[[Shown], str]) -> Iterator[Table]:
    interval = f" with {100 * page.confidence:g}% interval" if page.confidence else ""
    part = f"{', on a part of the split' if page.restriction else ''}{', on other labels' if page.labels else ''}"
    for card in page.scores:
        correlations = any(unit_of(row[0].metric) == "correlation" for table in card.tables for row in table)
        titles = card.title, f"percent{' (correlations as they are)' if correlations else ''}{interval}{part}"
        for rows in [*card.tables, *([[(row,) for row in card.whole]] if card.whole else [])]:
            yield _score_table(rows, titles, name_row, card.over)
            titles = "", ""


def _score_table(
    rows: Sequence[Sequence[Shown]], titles: tuple[str, str], name_row: Callable[[Shown], str], over: str
) -> Table:
    """The metrics with their bounds; then the least share of labelled pairs in percent, the queries and the ties."""
    columns = [caveat_of(column) for column in zip(*rows, strict=True)]
    lines: list[Sequence[str | Cell]] = []
    styles: list[str] = []
    for row in rows:
        added = [[f"  {name}", *map(text, row)] for name, text in BELOW.items() if any(map(text, row))]
        lines += [[name_row(row[0]), *map(number_cell, row)], *added]
        styles += ["", *["dim"] * len(added)]
    if any(column.coverage for column in columns):
        least = [min((share for _, share in column.coverage), default=None) for column in columns]
        lines.append([JUDGED, *("" if share is None else f"{100 * share:.1f}" for share in least)])
    lines.append(["queries", *(f"{column.n_queries:,}" for column in columns)])
    lines.append(["ties", *(f"{column.ties:,}" for column in columns)])
    styles += ["dim"] * (len(lines) - len(styles))
    header = [("",), *((column.direction or over,) for column in columns)]
    return Table(header, lines, *titles, styles=styles)


def number_cell(result: Shown, *, interval: bool = True) -> Cell:
    """The value, with the deviation of its samples and its interval if it has them."""
    cell = score_cell(result)
    return Cell(cell.text, deviation_text(result), cell.interval if interval else "")


def curve_table(page: Page) -> Table:
    """Recall at a few depths."""
    depths = table_depths(page.panels)
    rows = [
        [f"{task_name(task)}, {direction_name(curve.direction)}", *(_show_recall(curve.at(k)) for k in depths)]
        for task, curves in page.panels.items()
        for curve in curves
    ]
    header = [("Task and direction",), *((f"k = {k:,}",) for k in depths)]
    return Table(header, rows, "Recall at k", "percent")


def _show_recall(recall: float | None) -> str:
    return "not known" if recall is None else f"{100 * recall:.1f}"


def rank_table(page: Page) -> Table:
    """Queries by the rank of their best positive."""
    rows = [
        [f"{task_name(task)}, {direction_name(direction)}", *map("{:,}".format, counts[: len(page.bin_labels)])]
        for task, direction, counts in page.bins
    ]
    header = [("Task and direction",), *((label,) for label in page.bin_labels)]
    return Table(header, rows, "Number of queries by the rank of their best positive")


def verdict_table(direction: str, rows: Sequence[Verdicts]) -> Table:
    """Queries that are right in their top k, and the labels that say so."""
    header = [("k",), *((task_name(task),) for task in rows[0].added), ("right under no label",)]
    cells = [[str(row.k), *map("{:,}".format, row.added.values()), f"{row.wrong:,}"] for row in rows]
    notes = [
        f"{task_name(task)} judges {number:,} of the {rows[0].total:,} queries."
        for task, number in rows[0].judged.items()
        if number < rows[0].total
    ]
    title = f"Queries with a right item in the top k, {direction_name(direction)}"
    return Table(header, cells, title, "each counted under the first labels that call one right", notes)


def example_tables(page: Page) -> Iterator[Table]:
    """Each group of example queries, and below it the items that its queries retrieve."""
    for direction, groups in page.examples.items():
        for title, reason, cards in groups:
            yield Table((), (), f"{upper_first(direction_name(direction))}: {title}", notes=[reason])
            for card in cards:
                under_coco = f"under COCO: {rank_text(card.coco_rank)}, " if direction in page.by_coco else ""
                query = f"{card.file} ({card.texts[0]})" if card.file else card.texts[0]
                best = f"best rank {under_coco}under all labels: {rank_text(card.best_rank)}"
                rows = [
                    [
                        str(item.rank),
                        f"{item.texts[0]}{f' ({item.file})' if item.file else ''}",
                        item.verdict,
                        ", ".join(badge.text for badge in item.badges),
                    ]
                    for item in card.items
                ]
                header = [("rank",), ("item",), ("verdict",), ("labels",)]
                yield Table(header, rows, subtitle=f"Query: {query}, {best}", prose=frozenset({1, 2, 3}))


def origin_tables(page: Page) -> list[Table]:
    """What the numbers were computed from, with hashes and the command as code of Markdown."""
    facts = [[title, code_span(text) if is_code(title) else text] for title, text in page.facts]
    files = [[name, code_span(digest)] for name, digest in page.files]
    return [
        Table([("",), ("",)], facts, prose=frozenset({1})),
        Table([("raw file",), ("sha256",)], files, prose=frozenset({1})),
    ]
