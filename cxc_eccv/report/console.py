"""A report on a console and in a notebook: the main numbers, all scores with intervals, and what they leave out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from cxc_eccv.registry import tasks
from cxc_eccv.report.page_content import Page, TaskScores
from cxc_eccv.report.score_tables import (
    BELOW,
    NOTHING,
    caution_lines,
    explain_bounds,
    headline_tables,
    interval_lines,
    shorten_parts,
)
from cxc_eccv.tables import MISSING, Cell, Table, tables_to_console
from cxc_eccv.terminal import visible
from cxc_eccv.types import CROSS_MODAL, DIRECTIONS
from cxc_eccv.types.result import WILSON
from cxc_eccv.wording import CHECK_FIRST, Shown, find_ties_page, list_names, metric_name, score_cell, unit_of

LISTED = 3
"""Most names in a line that says what was not scored."""


def render(page: Page, reasons_place: str = "report.skipped says why") -> RenderableType:
    """The page as a rich renderable; all tasks of COCO fit in 60 lines of 80 columns.

    ``reasons_place`` says where the reader finds why tasks were not scored, if these are too many.
    """
    tables = list_brief_tables(page)
    notes = [*_footnotes(page), *explain_bounds(page)]
    return Group(
        *([Text(page.first_line, style="bold"), Text()] if page.first_line else []),
        *_doubt_lines(page),
        tables_to_console(tables) if tables else Text(NOTHING, style="bold"),
        *([Text()] if tables else []),
        *(Text(line, style="dim") for line in notes),
        *(Text(visible(line), style="bold red") for line in caution_lines(page)),
        *(Text(visible(line), style="dim") for line in _skipped_lines(page, reasons_place)),
    )


def list_brief_tables(page: Page) -> list[Table]:
    """The main numbers, then those of all tasks together."""
    return [*headline_tables(page), *_score_tables(page)]


def _doubt_lines(page: Page) -> Iterator[RenderableType]:
    """What to check before the scores are believed, in a box."""
    if page.doubts:
        lines = [Text(f"- {sentence}") for sentence in page.doubts]
        yield Panel(Group(*lines), title=CHECK_FIRST, title_align="left", border_style="bold red", expand=False)
        yield Text()


def _score_tables(page: Page) -> Iterator[Table]:
    """Numbers between images and texts, then those within one modality: a row per metric, a column per direction."""
    correlations = any(unit_of(row.metric) == "correlation" for row in page.results)
    title = "Scores on a part of the split" if page.restriction else "Scores"
    subtitle = f"percent{' (correlations as they are)' if correlations else ''}"
    subtitle += f" with {100 * page.confidence:g}% interval" if page.confidence else ""
    for group in (CROSS_MODAL, tuple(name for name in DIRECTIONS if name not in CROSS_MODAL)):
        cards = {card.title: dict(_group_rows(card, group)) for card in page.scores}
        columns = [name for name in group if any(name in row for rows in cards.values() for row in rows.values())]
        width = max((len(name) for name, rows in cards.items() if rows), default=0)
        lines: list[Sequence[str | Cell]] = []
        for name, rows in cards.items():
            lines += _list_rows(name, width, rows, columns)
        if lines:
            styles = ["" if isinstance(line[1], Cell) else "dim" for line in lines]
            yield Table([("",), *((name,) for name in columns)], lines, title, subtitle, styles=styles, compact=True)
            title = subtitle = ""


def _group_rows(card: TaskScores, group: Sequence[str]) -> Iterator[tuple[str, dict[str, Shown]]]:
    """The rows of a task in some directions: name of the metric to its results by direction."""
    rows: dict[str, dict[str, Shown]] = {}
    for result in chain(*chain(*card.tables), card.whole):
        direction, part = _find_direction(result)
        if direction in group:
            rows.setdefault(f"{metric_name(result.metric)}{part}", {})[direction] = result
    yield from rows.items()


def _find_direction(result: Shown) -> tuple[str, str]:
    """The column of a result, and what the name of its row adds: the rated pairs, or that it sums both directions."""
    if result.direction in DIRECTIONS:
        return result.direction, ""
    if not result.direction:
        return CROSS_MODAL[0], " (both)"
    task = tasks().get(result.task)
    known = task is not None and result.direction in task.part_names
    return task.part(result.direction).direction if task and known else CROSS_MODAL[0], f" {result.direction}"


def _list_rows(
    task: str, width: int, rows: dict[str, dict[str, Shown]], columns: Sequence[str]
) -> Iterator[Sequence[str | Cell]]:
    """The lines of a task, whose name stands in the first, and below each metric its bounds."""
    for metric, results in rows.items():
        missing = MISSING if all(result.direction for result in results.values()) else ""  # a sum lacks no direction
        cells = [score_cell(results[name]) if name in results else Cell(missing) for name in columns]
        yield [f"{task:<{width}}  {metric}", *cells]
        task = ""
        for name, text in BELOW.items():
            texts = [text(results[column]) if column in results else "" for column in columns]
            if any(texts):
                yield [f"{task:<{width}}    {name}", *texts]


OTHERS = {"not_entailed": "the others count as wrong", "leave_out": "the others are left out"}
"""Policy for pairs without a label to what it means for them."""


def _footnotes(page: Page) -> Iterator[str]:
    """How intervals were made if not by the usual bootstrap; what ties and missing labels do to the numbers."""
    if any(row.interval_method in (*WILSON, "studentized") for row in page.results):
        yield from interval_lines(page.results)
    ties = max((row.ties for row in page.results), default=0)
    if ties:
        yield f"ties: in up to {ties:,} queries of a task; a tied item ranks above the positive ({find_ties_page()})"
    covered = [row for row in page.results if row.coverage is not None]
    if covered:
        least = min(covered, key=lambda row: row.coverage or 0.0)
        others = OTHERS.get(str(least.parameters.get("unjudged")), "the judge labels the others")
        name = metric_name(least.metric).partition("@")[0]
        yield f"{name}@K: at least {100 * (least.coverage or 0.0):.1f}% of the pairs have a label; {others}"


def _skipped_lines(page: Page, reasons_place: str) -> Iterator[str]:
    """How many tasks need which other data, and why others were not scored; report.json has every reason."""
    scored = {tasks()[card.task].collection.title for card in page.scores if card.task in tasks()}
    reasons = {reason: shorten_parts(names) for reason, names in page.skipped}
    foreign = [
        name
        for names in reasons.values()
        for name in names
        if scored and name in tasks() and tasks()[name].collection.title not in scored
    ]
    if foreign:
        needs, pronoun = ("task needs", "it") if len(foreign) == 1 else ("tasks need", "them")
        collections = _name_collections(foreign)
        yield f"{len(foreign)} further {needs} {collections}: `cxc-eccv list tasks` names {pronoun}"
    kept = {reason: [name for name in names if name not in foreign] for reason, names in reasons.items()}
    kept = {reason: names for reason, names in kept.items() if names}
    if len(kept) > LISTED:
        yield f"Not scored: {_list_few([name for names in kept.values() for name in names])}; {reasons_place}"
        return
    for reason, names in kept.items():
        yield f"Not scored: {_list_few(names)}: {reason}"


def _name_collections(names: Iterable[str]) -> str:
    """The collections of these tasks; one whose title begins with that of another is not named beside it."""
    titles = dict.fromkeys(tasks()[name].collection.title for name in names)
    shortest = [title for title in titles if not any(title.startswith(f"{other} ") for other in titles)]
    return " or ".join(shortest)


def _list_few(names: Sequence[str]) -> str:
    more = [f"{len(names) - LISTED} more"] if len(names) > LISTED + 1 else names[LISTED:]
    return list_names([*names[:LISTED], *more])
