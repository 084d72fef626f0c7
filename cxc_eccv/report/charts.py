"""How the best ranks of queries are distributed and labels disagree, and charts as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.registry import tasks
from cxc_eccv.report.best_ranks import COCO, BestRanks, align, directions_judged
from cxc_eccv.report.report_data import ReportData
from cxc_eccv.types import FloatArray, IntArray, Result
from cxc_eccv.wording import count, direction_name, list_names, share, task_name

UPPER = (1, 5, 10, 50, 100, 500, 1_000)
LABELS = ("1", *(f"{low + 1} to {high:,}" for low, high in pairwise(UPPER)), "over 1,000", "not found")
"""The last range holds queries whose ranking ends before their best positive."""


def rank_bins(ranks: Mapping[str, BestRanks]) -> list[tuple[str, str, tuple[int, ...]]]:
    """Task, direction and the number of queries in each range of ``LABELS``."""
    rows = []
    for key, best in ranks.items():
        task, _, direction = key.partition("/")
        inside = np.bincount(np.searchsorted(UPPER, best.finite), minlength=len(UPPER) + 1)
        rows.append((task, direction, (*inside.tolist(), best.ranks.size - best.finite.size)))
    return rows


@dataclass(frozen=True, slots=True)
class Verdicts:
    """How many queries are right in their top k; ``added`` counts those that no earlier task calls right."""

    k: int
    added: Mapping[str, int]
    wrong: int
    judged: Mapping[str, int]

    @property
    def total(self) -> int:
        """Number of queries."""
        return sum(self.added.values()) + self.wrong

    @property
    def errors(self) -> int:
        """Number of queries that are wrong under COCO."""
        return self.total - self.added[COCO]


def verdicts(ranks: Mapping[str, BestRanks]) -> dict[str, list[Verdicts]]:
    """Direction to its verdicts at ranks 1, 5 and 10, if COCO 5K and another task rank it."""
    by_direction: dict[str, list[Verdicts]] = {}
    for direction in directions_judged(ranks):
        queries, by_task = align(ranks, direction)
        sources = {task: set(tasks()[task].label_sources) for task in by_task}
        for place, name in enumerate(sources):
            if any(sources[name] < sources[earlier] for earlier in list(sources)[:place]):
                del by_task[name]  # an earlier task has all its positives
        if COCO in by_task and len(by_task) > 1:
            depth = ranks[f"{COCO}/{direction}"].depth
            rows = [_at(k, queries.size, by_task) for k in (1, 5, 10) if depth is None or k <= depth]
            by_direction |= {direction: rows} if rows else {}
    return by_direction


def _at(k: int, n_queries: int, by_task: Mapping[str, FloatArray]) -> Verdicts:
    right: NDArray[np.bool_] = np.zeros(n_queries, dtype=bool)
    added = {}
    for task, best in by_task.items():
        added[task] = int(np.count_nonzero((best <= k) & ~right))
        right |= best <= k
    judged = {task: int(np.count_nonzero(~np.isnan(best))) for task, best in by_task.items()}
    return Verdicts(k, added, int(np.count_nonzero(~right)), judged)


def finding(row: Verdicts) -> str:
    """How other labels judge the errors under COCO, as a sentence."""
    others = [task_name(task) for task in row.added if task != COCO]
    errors = row.errors
    if not errors:
        return f"COCO calls the first item right for all {count(row.total, 'query')}."
    excused = errors - row.wrong
    return (
        f"COCO calls the first item wrong for {errors:,} of {count(row.total, 'query')}; {' or '.join(others)} calls "
        f"it right for {excused:,} of these ({share(excused, errors)})."
    )


DEEPEST = 1_000
SHALLOWEST = 10
TABLE_DEPTHS = (1, 5, 10, 50, 100, 500, 1_000)


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Recalls (P,) at depths (P,); marks are the depths, values and intervals of the report's recalls."""

    direction: str
    ks: IntArray
    recalls: FloatArray
    marks: tuple[tuple[int, float, float, float], ...]

    def at(self, k: int) -> float | None:
        """The recall at a depth; None if the curve does not have this depth."""
        places = np.flatnonzero(self.ks == k)
        return float(self.recalls[places[0]]) if places.size else None


def curve_panels(report: ReportData, ranks: Mapping[str, BestRanks]) -> dict[str, list[Curve]]:
    """The curves of each task that ranks positives, all to the same depth, with the report's intervals."""
    depths = _shown_depths(ranks)
    panels: dict[str, list[Curve]] = {}
    for key, best in ranks.items():
        task, _, direction = key.partition("/")
        ks = depths if best.depth is None else depths[depths <= best.depth]
        if not ks.size:  # the ranking holds only its query
            continue
        recalls = np.searchsorted(np.sort(best.ranks), ks, side="right") / best.ranks.size
        panels.setdefault(task, []).append(Curve(direction, ks, recalls, _marks(report, task, direction, ks)))
    return panels


def table_depths(panels: Mapping[str, Sequence[Curve]]) -> list[int]:
    """Columns of the curves as a table: the depths 1, 5, 10, 50, ... that any curve reaches."""
    return [k for k in TABLE_DEPTHS if k <= _deepest(panels)]


def _deepest(panels: Mapping[str, Sequence[Curve]]) -> int:
    return max((int(curve.ks[-1]) for curves in panels.values() for curve in curves), default=0)


def _shown_depths(ranks: Mapping[str, BestRanks]) -> IntArray:
    """Depths from 1 to at most 1,000, evenly spread on a logarithmic axis, and those of the tables."""
    if not ranks:
        return np.empty(0, dtype=np.int64)
    largest = max(int(best.finite.max()) if best.depth is None else best.depth for best in ranks.values())
    limit = int(np.clip(largest, SHALLOWEST, DEEPEST))
    spread = np.round(np.geomspace(1, limit, 61)).astype(np.int64)
    return np.union1d(spread, [k for k in TABLE_DEPTHS if k <= limit])


def _marks(report: ReportData, task: str, direction: str, ks: IntArray) -> tuple[tuple[int, float, float, float], ...]:
    rows = {row.metric: row for row in report.results if (row.task, row.direction) == (task, direction)}
    marks = []
    for k in (1, 5, 10):
        row = rows.get(f"recall_at_{k}")
        if row is not None and row.low is not None and row.high is not None and k <= ks[-1]:
            marks.append((k, row.value, row.low, row.high))
    return tuple(marks)


WIDTH = 320
HEIGHT = 222
LEFT = 32
RIGHT = 288
TOP = 12
BOTTOM = 192
LABEL_DISTANCE = 14


@dataclass(frozen=True, slots=True)
class Line:
    """One curve: points as ``x,y x,y ...``, the height of its name, and (x, y, low, high) of each interval."""

    direction: str
    points: str
    label_y: float
    whiskers: tuple[tuple[float, float, float, float], ...]


@dataclass(frozen=True, slots=True)
class LineChart:
    """One panel in the units of its view box; the key identifies its element on the page."""

    key: str
    heading: str
    description: str
    lines: tuple[Line, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    size: ClassVar[tuple[int, int]] = (WIDTH, HEIGHT)
    box: ClassVar[tuple[int, int, int, int]] = (LEFT, TOP, RIGHT, BOTTOM)


def line_chart(task: str, panels: Mapping[str, Sequence[Curve]]) -> LineChart:
    """Lay out recall over log k of one task; all tasks share the axis, up to the deepest curve."""
    # an axis needs two ends
    curves = panels[task]
    deepest = max(_deepest(panels), 2)
    labels = _spread_labels([_y(float(curve.recalls[-1])) for curve in curves])
    lines = tuple(_line(curve, label, deepest) for curve, label in zip(curves, labels, strict=True))
    x_ticks = tuple((_x(k, deepest), f"{k:,}") for k in (1, 5, 10, 50, 100, 1_000) if k <= deepest)
    y_ticks = tuple((_y(p / 100), f"{p}") for p in (0, 25, 50, 75, 100))
    heading = task_name(task)
    return LineChart(task, heading, _describe(heading, curves), lines, x_ticks, y_ticks)


def _line(curve: Curve, label_y: float, deepest: int) -> Line:
    places = zip(curve.ks.tolist(), curve.recalls.tolist(), strict=True)
    points = " ".join(f"{_x(k, deepest):.1f},{_y(recall):.1f}" for k, recall in places)
    marks = curve.marks
    if curve.ks.size == 1 and not marks:  # a line with one point is invisible
        recall = float(curve.recalls[0])
        marks = ((int(curve.ks[0]), recall, recall, recall),)
    whiskers = tuple((_x(k, deepest), _y(value), _y(low), _y(high)) for k, value, low, high in marks)
    return Line(curve.direction, points, label_y, whiskers)


def _x(k: int, deepest: int) -> float:
    return round(LEFT + (RIGHT - LEFT) * math.log(k) / math.log(deepest), 1)


def _y(recall: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * recall, 1)


def _spread_labels(ends: Sequence[float]) -> list[float]:
    """Heights of labels near the ends of their lines, far enough apart to be read and not below the axis."""
    placed = dict.fromkeys(range(len(ends)), 0.0)
    upper = -math.inf
    for place in sorted(placed, key=lambda place: ends[place]):
        placed[place] = upper = max(ends[place], upper + LABEL_DISTANCE)
    lower = float(BOTTOM + LABEL_DISTANCE)
    for place in sorted(placed, key=lambda place: -placed[place]):
        placed[place] = lower = min(placed[place], lower - LABEL_DISTANCE)
    return list(placed.values())


def _describe(heading: str, curves: Sequence[Curve]) -> str:
    parts = []
    for curve in curves:
        values = [f"{100 * value:.1f}% at {k}" for k in (1, 10, 100) if (value := curve.at(k)) is not None]
        parts.append(f"{direction_name(curve.direction)}: {list_names(values)}")
    return f"Recall over k on {heading}. {'; '.join(parts)}."


@dataclass(frozen=True, slots=True)
class Segment:
    """Part of a stacked bar: start and width in percent, a kind for its colour, and its share if there is room."""

    start: float
    width: float
    kind: str
    title: str
    text: str


def segments(counts: Sequence[int], kinds: Sequence[str], titles: Sequence[str]) -> list[Segment]:
    """The non-empty parts of a bar, left to right."""
    total = sum(counts)
    done = 0
    parts = []
    for number, kind, title in zip(counts, kinds, titles, strict=True):
        if number:
            width = 100 * number / total
            rounded = ">99%" if 99.5 <= width < 100 else f"{width:.0f}%"
            text = rounded if width >= 9 else ""  # narrower parts have no room
            words = f"{title}: {number:,} of {total:,}, {share(number, total)}"
            parts.append(Segment(round(100 * done / total, 3), round(width, 3), kind, words, text))
        done += number
    return parts


def span(result: Result) -> tuple[float, float, float]:
    """Value, low and high in percent of the axis; without an interval low and high are the value."""
    low, high = (result.value if bound is None else bound for bound in (result.low, result.high))
    return round(100 * result.value, 3), round(100 * low, 3), round(100 * high, 3)
