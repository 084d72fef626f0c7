"""Recall over k: its values from ranks, and the geometry that the template draws as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cxc_eccv.report.charts.bins import BestRanks
from cxc_eccv.report.wording import direction_name, listed, task_name
from cxc_eccv.types import FloatArray, IntArray, Report

__all__ = ["Curve", "CurvePanel", "Line", "LineChart", "Mark", "curve_panels", "line_chart", "table_depths"]

WIDTH, HEIGHT = 320, 222
LEFT, RIGHT, TOP, BOTTOM = 32, 288, 12, 192
LABEL_DISTANCE = 14
X_TICKS = (1, 5, 10, 50, 100, 1_000)
Y_TICKS = (0, 25, 50, 75, 100)


@dataclass(frozen=True, slots=True)
class Line:
    """One curve.

    Attributes:
        direction: of the curve.
        points: ``x,y x,y ...``.
        label_y: where its name stands.
        whiskers: x, y, lower and upper end of each interval.
    """

    direction: str
    points: str
    label_y: float
    whiskers: tuple[tuple[float, float, float, float], ...]


@dataclass(frozen=True, slots=True)
class LineChart:
    """One panel, in the units of its view box.

    Attributes:
        task: whose curves.
        description: the chart in words.
        lines: the curves.
        x_ticks, y_ticks: place and label.
    """

    task: str
    description: str
    lines: tuple[Line, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    size: tuple[int, int] = (WIDTH, HEIGHT)
    box: tuple[int, int, int, int] = (LEFT, TOP, RIGHT, BOTTOM)


def line_chart(panel: CurvePanel, deepest: int) -> LineChart:
    """Lay out the curves of one task: k on a logarithmic axis from 1, recall from 0 to 100 %.

    Args:
        panel: the curves.
        deepest: right end of the axis, the same for all panels of a report.

    Example:
        >>> import numpy as np
        >>> curve = Curve("i2t", np.array([1, 10]), np.array([0.5, 1.0]), ())
        >>> line_chart(CurvePanel("cxc", (curve,)), 10).lines[0].points
        '32.0,102.0 288.0,12.0'
    """
    deepest = max(deepest, 2)  # an axis has two ends, also where all that is known is the first item
    ends = [_y(float(curve.recalls[-1])) for curve in panel.curves]
    labels = _apart(ends)
    lines = tuple(_line(curve, label, deepest) for curve, label in zip(panel.curves, labels, strict=True))
    x_ticks = tuple((_x(k, deepest), f"{k:,}") for k in X_TICKS if k <= deepest)
    return LineChart(panel.task, _in_words(panel), lines, x_ticks, tuple((_y(p / 100), f"{p}") for p in Y_TICKS))


def _line(curve: Curve, label_y: float, deepest: int) -> Line:
    places = zip(curve.ks.tolist(), curve.recalls.tolist(), strict=True)
    points = " ".join(f"{_x(k, deepest):.1f},{_y(recall):.1f}" for k, recall in places)
    marks = curve.marks
    if curve.ks.size == 1 and not marks:  # of a line with one point nothing would be seen
        marks = (Mark(int(curve.ks[0]), *[float(curve.recalls[0])] * 3),)
    whiskers = tuple((_x(one.k, deepest), _y(one.value), _y(one.low), _y(one.high)) for one in marks)
    return Line(curve.direction, points, label_y, whiskers)


def _x(k: int, deepest: int) -> float:
    return round(LEFT + (RIGHT - LEFT) * math.log(k) / math.log(deepest), 1)


def _y(recall: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * recall, 1)


def _apart(ends: Sequence[float]) -> list[float]:
    """Label heights in the order of the line ends, far enough apart to be read, none below the axis."""
    placed = dict.fromkeys(range(len(ends)), 0.0)
    upper = -math.inf
    for place in sorted(placed, key=lambda place: ends[place]):
        placed[place] = upper = max(ends[place], upper + LABEL_DISTANCE)
    lower = float(BOTTOM + LABEL_DISTANCE)
    for place in sorted(placed, key=lambda place: -placed[place]):
        placed[place] = lower = min(placed[place], lower - LABEL_DISTANCE)
    return list(placed.values())


def _in_words(panel: CurvePanel) -> str:
    parts = []
    for curve in panel.curves:
        values = [f"{100 * value:.1f} % at {k}" for k in (1, 10, 100) if (value := curve.at(k)) is not None]
        parts.append(f"{direction_name(curve.direction)}: {listed(values)}")
    return f"Recall over k on {task_name(panel.task)}. {'; '.join(parts)}."


DEEPEST, SHALLOWEST = 1_000, 10
POINTS = 61
TABLE_DEPTHS = (1, 5, 10, 50, 100, 500, 1_000)
MARKED_DEPTHS = (1, 5, 10)


@dataclass(frozen=True, slots=True)
class Mark:
    """A recall of the report with its interval: depth, value and bounds, as fractions."""

    k: int
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Fraction of queries with a positive in the top k.

    Attributes:
        direction: of the task.
        ks: (P,) depths, ascending.
        recalls: (P,) fractions.
        marks: recalls of the report that carry an interval.
    """

    direction: str
    ks: IntArray
    recalls: FloatArray
    marks: tuple[Mark, ...]

    def at(self, k: int) -> float | None:
        """The recall at one of the depths, None where the curve has none.

        Example:
            >>> Curve("i2t", np.array([1, 5]), np.array([0.25, 0.5]), ()).at(5)
            0.5
        """
        places = np.flatnonzero(self.ks == k)
        return float(self.recalls[places[0]]) if places.size else None


@dataclass(frozen=True, slots=True, eq=False)
class CurvePanel:
    """The curves of one task."""

    task: str
    curves: tuple[Curve, ...]


def curve_panels(report: Report, ranks: Mapping[str, BestRanks]) -> list[CurvePanel]:
    """A panel per task that ranks positives, all to the same depth.

    Args:
        report: gives the intervals.
        ranks: ``task/direction`` to best ranks.

    Example:
        >>> ranks = {"cxc/i2t": BestRanks(np.array([1, 2]), np.array([1, 12]))}
        >>> panel = curve_panels(Report((), {}, {}), ranks)[0]
        >>> panel.curves[0].at(1), panel.curves[0].at(10), int(panel.curves[0].ks[-1])
        (0.5, 0.5, 12)
    """
    depths = _shown_depths(ranks)
    panels: dict[str, list[Curve]] = {}
    for key, one in ranks.items():
        task, _, direction = key.partition("/")
        ks = depths if one.depth is None else depths[depths <= one.depth]
        if not ks.size:  # a ranking that holds its own query alone tells nothing of any depth
            continue
        recalls = np.searchsorted(np.sort(one.ranks), ks, side="right") / one.ranks.size
        panels.setdefault(task, []).append(Curve(direction, ks, recalls, _marks(report, task, direction, ks)))
    return [CurvePanel(task, tuple(curves)) for task, curves in panels.items()]


def table_depths(panels: Iterable[CurvePanel]) -> list[int]:
    """Depths that a table of the curves shows: those of 1, 5, 10, 50, ... that any curve reaches.

    Example:
        >>> table_depths([CurvePanel("cxc", (Curve("i2t", np.array([1, 5, 7]), np.ones(3), ()),))])
        [1, 5]
    """
    deepest = max((int(curve.ks[-1]) for panel in panels for curve in panel.curves), default=0)
    return [k for k in TABLE_DEPTHS if k <= deepest]


def _shown_depths(ranks: Mapping[str, BestRanks]) -> IntArray:
    """Depths from 1 to at most 1,000, evenly spread on a logarithmic axis; those of the tables are among them."""
    if not ranks:
        return np.empty(0, dtype=np.int64)
    largest = max(int(one.found.max()) if one.depth is None else one.depth for one in ranks.values())
    limit = int(np.clip(largest, SHALLOWEST, DEEPEST))
    spread = np.round(np.geomspace(1, limit, POINTS)).astype(np.int64)
    return np.union1d(spread, [k for k in TABLE_DEPTHS if k <= limit])


def _marks(report: Report, task: str, direction: str, ks: IntArray) -> tuple[Mark, ...]:
    rows = {row.metric: row for row in report.results if (row.task, row.direction) == (task, direction)}
    marks = []
    for k in MARKED_DEPTHS:
        row = rows.get(f"recall_at_{k}")
        if row is not None and row.low is not None and row.high is not None and k <= ks[-1]:
            marks.append(Mark(k, row.value, row.low, row.high))
    return tuple(marks)
