"""Recall over k, bias over annotators, stacked bars and interval marks: values and geometry of inline SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cxc_eccv.comparison.labels import list_names, task_name
from cxc_eccv.report.ranks import BestRanks
from cxc_eccv.report.wording import direction_name, share
from cxc_eccv.types import FloatArray, IntArray, Report, Result

__all__ = [
    "Curve",
    "CurvePanel",
    "LineChart",
    "Segment",
    "curve_panels",
    "line_chart",
    "segments",
    "span",
    "step_chart",
    "table_depths",
]

DEEPEST, SHALLOWEST = 1_000, 10
POINTS = 61
TABLE_DEPTHS = (1, 5, 10, 50, 100, 500, 1_000)
MARKED_DEPTHS = (1, 5, 10)


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Fraction of queries with a positive in the top k.

    Attributes:
        direction: of the task.
        ks: (P,) depths, ascending.
        recalls: (P,) fractions.
        marks: depth, value and bounds of the report's recalls that carry an interval.
    """

    direction: str
    ks: IntArray
    recalls: FloatArray
    marks: tuple[tuple[int, float, float, float], ...]

    def at(self, k: int) -> float | None:
        """The recall at one of the depths, None where the curve has none."""
        places = np.flatnonzero(self.ks == k)
        return float(self.recalls[places[0]]) if places.size else None


@dataclass(frozen=True, slots=True, eq=False)
class CurvePanel:
    """The curves of one task."""

    task: str
    curves: tuple[Curve, ...]


def curve_panels(report: Report, ranks: Mapping[str, BestRanks]) -> list[CurvePanel]:
    """A panel per task that ranks positives, all to the same depth; the report gives the intervals.

    Example:
        >>> ranks = {"cxc/i2t": BestRanks(np.array([1, 2]), np.array([1, 12]))}
        >>> panel = curve_panels(Report((), {}, {}), ranks)[0]
        >>> panel.curves[0].at(1), panel.curves[0].at(10), int(panel.curves[0].ks[-1])
        (0.5, 0.5, 12)
    """
    depths = _shown_depths(ranks)
    panels: dict[str, list[Curve]] = {}
    for key, best in ranks.items():
        task, _, direction = key.partition("/")
        ks = depths if best.depth is None else depths[depths <= best.depth]
        if not ks.size:  # a ranking that holds its own query alone tells nothing of any depth
            continue
        recalls = np.searchsorted(np.sort(best.ranks), ks, side="right") / best.ranks.size
        panels.setdefault(task, []).append(Curve(direction, ks, recalls, _marks(report, task, direction, ks)))
    return [CurvePanel(task, tuple(curves)) for task, curves in panels.items()]


def table_depths(panels: Iterable[CurvePanel]) -> list[int]:
    """Depths that a table of the curves shows: those of 1, 5, 10, 50, ... that any curve reaches."""
    return [k for k in TABLE_DEPTHS if k <= _deepest(panels)]


def _deepest(panels: Iterable[CurvePanel]) -> int:
    return max((int(curve.ks[-1]) for panel in panels for curve in panel.curves), default=0)


def _shown_depths(ranks: Mapping[str, BestRanks]) -> IntArray:
    """Depths from 1 to at most 1,000, evenly spread on a logarithmic axis; those of the tables are among them."""
    if not ranks:
        return np.empty(0, dtype=np.int64)
    largest = max(int(best.found.max()) if best.depth is None else best.depth for best in ranks.values())
    limit = int(np.clip(largest, SHALLOWEST, DEEPEST))
    spread = np.round(np.geomspace(1, limit, POINTS)).astype(np.int64)
    return np.union1d(spread, [k for k in TABLE_DEPTHS if k <= limit])


def _marks(report: Report, task: str, direction: str, ks: IntArray) -> tuple[tuple[int, float, float, float], ...]:
    rows = {row.metric: row for row in report.results if (row.task, row.direction) == (task, direction)}
    marks = []
    for k in MARKED_DEPTHS:
        row = rows.get(f"recall_at_{k}")
        if row is not None and row.low is not None and row.high is not None and k <= ks[-1]:
            marks.append((k, row.value, row.low, row.high))
    return tuple(marks)


WIDTH, HEIGHT = 320, 222
LEFT, RIGHT, TOP, BOTTOM = 32, 288, 12, 192
LABEL_DISTANCE = 14
X_TICKS = (1, 5, 10, 50, 100, 1_000)
Y_TICKS = (0, 25, 50, 75, 100)


@dataclass(frozen=True, slots=True)
class Line:
    """One curve: its points as ``x,y x,y ...``, where its name stands, and x, y and both ends of each interval.

    Its kind gives it a colour.
    """

    kind: str
    name: str
    points: str
    label_y: float
    whiskers: tuple[tuple[float, float, float, float], ...]


@dataclass(frozen=True, slots=True)
class LineChart:
    """One panel, in the units of its view box: the chart in words, its lines, and place and label of each tick.

    The key tells its element from others of the page.
    """

    key: str
    heading: str
    title: str
    description: str
    lines: tuple[Line, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    x_name: str
    size: tuple[int, int] = (WIDTH, HEIGHT)
    box: tuple[int, int, int, int] = (LEFT, TOP, RIGHT, BOTTOM)


def line_chart(panel: CurvePanel, panels: Iterable[CurvePanel]) -> LineChart:
    """Lay out the curves of one task: k on a logarithmic axis from 1, recall from 0 to 100%.

    The axis ends where the deepest curve of all panels does, so that the panels of a report can be compared.

    Example:
        >>> panel = CurvePanel("cxc", (Curve("i2t", np.array([1, 10]), np.array([0.5, 1.0]), ()),))
        >>> line_chart(panel, [panel]).lines[0].points
        '32.0,102.0 288.0,12.0'
    """
    deepest = max(_deepest(panels), 2)  # an axis has two ends, also where all that is known is the first item
    labels = _spread_labels([_y(float(curve.recalls[-1])) for curve in panel.curves])
    lines = tuple(_line(curve, label, deepest) for curve, label in zip(panel.curves, labels, strict=True))
    x_ticks = tuple((_x(k, deepest), f"{k:,}") for k in X_TICKS if k <= deepest)
    y_ticks = tuple((_y(p / 100), f"{p}") for p in Y_TICKS)
    heading = task_name(panel.task)
    return LineChart(panel.task, heading, f"Recall over k, {heading}", _describe(panel), lines, x_ticks, y_ticks, "k")


def _line(curve: Curve, label_y: float, deepest: int) -> Line:
    places = zip(curve.ks.tolist(), curve.recalls.tolist(), strict=True)
    points = " ".join(f"{_x(k, deepest):.1f},{_y(recall):.1f}" for k, recall in places)
    marks = curve.marks
    if curve.ks.size == 1 and not marks:  # of a line with one point nothing would be seen
        recall = float(curve.recalls[0])
        marks = ((int(curve.ks[0]), recall, recall, recall),)
    whiskers = tuple((_x(k, deepest), _y(value), _y(low), _y(high)) for k, value, low, high in marks)
    return Line(curve.direction, curve.direction, points, label_y, whiskers)


def _x(k: int, deepest: int) -> float:
    return round(LEFT + (RIGHT - LEFT) * math.log(k) / math.log(deepest), 1)


def _y(recall: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * recall, 1)


def _spread_labels(ends: Sequence[float]) -> list[float]:
    """Label heights in the order of the line ends, far enough apart to be read, none below the axis."""
    placed = dict.fromkeys(range(len(ends)), 0.0)
    upper = -math.inf
    for place in sorted(placed, key=lambda place: ends[place]):
        placed[place] = upper = max(ends[place], upper + LABEL_DISTANCE)
    lower = float(BOTTOM + LABEL_DISTANCE)
    for place in sorted(placed, key=lambda place: -placed[place]):
        placed[place] = lower = min(placed[place], lower - LABEL_DISTANCE)
    return list(placed.values())


def _describe(panel: CurvePanel) -> str:
    parts = []
    for curve in panel.curves:
        values = [f"{100 * value:.1f}% at {k}" for k in (1, 10, 100) if (value := curve.at(k)) is not None]
        parts.append(f"{direction_name(curve.direction)}: {list_names(values)}")
    return f"Recall over k on {task_name(panel.task)}. {'; '.join(parts)}."


NAMED_WIDTH = 400
"""Of a chart whose lines have long names."""

UNITS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
MOST_TICKS = 5
ROUNDING = 1e-9

Marked = tuple[float, float, float]
"""A value with both ends of its interval."""


def step_chart(
    key: str,
    title: str,
    steps: Sequence[str],
    series: Mapping[str, tuple[str, Sequence[Marked]]],
    largest: float,
) -> LineChart:
    """Lay out values over a few steps, on an axis of percents from 0 on.

    Args:
        key: tells its element from others of the page.
        title: what is shown.
        steps: names of places on the axis, evenly spread.
        series: kind of each line to its name, and to value, low and high at every step, as fractions.
        largest: fraction that the axis reaches at the least, so that charts can be compared.

    Example:
        >>> chart = step_chart("own", "Bias", ["1", "2"], {"all": ("bias", [(0.1, 0.0, 0.1), (0.0, 0.0, 0.0)])}, 0.1)
        >>> chart.lines[0].points, [label for _, label in chart.y_ticks]
        ('96.0,12.0 224.0,192.0', ['0', '2', '4', '6', '8', '10'])
    """
    unit = next(unit for unit in UNITS if largest <= MOST_TICKS * unit)
    top = unit * max(math.ceil(largest / unit - ROUNDING), 1)
    xs = [round(LEFT + (RIGHT - LEFT) * (place + 0.5) / len(steps), 1) for place in range(len(steps))]
    labels = _spread_labels([_y(marks[-1][0] / top) for _, marks in series.values()])
    lines = []
    for (kind, (name, marks)), label in zip(series.items(), labels, strict=True):
        whiskers = [
            (x, _y(value / top), _y(low / top), _y(high / top)) for x, (value, low, high) in zip(xs, marks, strict=True)
        ]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in whiskers)
        lines.append(Line(kind, name, points, label, tuple(whiskers)))
    told = [
        f"{name}: {list_names([f'{100 * own[0]:.1f} at {step}' for step, own in zip(steps, marks, strict=True)])}"
        for name, marks in series.values()
    ]
    x_ticks = tuple(zip(xs, steps, strict=True))
    y_ticks = tuple((_y(place * unit / top), f"{100 * place * unit:g}") for place in range(round(top / unit) + 1))
    size, words = (NAMED_WIDTH, HEIGHT), f"{title}. {'; '.join(told)}."
    return LineChart(key, title, title, words, tuple(lines), x_ticks, y_ticks, "", size)


ROOM_FOR_TEXT = 9.0
"""Width, in percent of the bar, from which a segment has room for its share."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Part of a stacked bar: start and width in percent of the bar, its kind for its colour, what it stands for.

    The text is its share where there is room for it, else empty.
    """

    start: float
    width: float
    kind: str
    title: str
    text: str


def segments(counts: Sequence[int], kinds: Sequence[str], titles: Sequence[str]) -> list[Segment]:
    """The non-empty parts of a bar, left to right.

    Example:
        >>> [(one.start, one.width, one.text) for one in segments([3, 0, 1], ["a", "b", "c"], ["x", "y", "z"])]
        [(0.0, 75.0, '75%'), (75.0, 25.0, '25%')]
    """
    total, done, found = sum(counts), 0, []
    for number, kind, title in zip(counts, kinds, titles, strict=True):
        if number:
            width = 100 * number / total
            rounded = ">99%" if 99.5 <= width < 100 else f"{width:.0f}%"
            text = rounded if width >= ROOM_FOR_TEXT else ""
            words = f"{title}: {number:,} of {total:,}, {share(number, total)}"
            found.append(Segment(round(100 * done / total, 3), round(width, 3), kind, words, text))
        done += number
    return found


def span(result: Result) -> tuple[float, float, float]:
    """A fraction and its interval, in percent of the axis; without an interval its ends are the value."""
    low, high = (result.value if bound is None else bound for bound in (result.low, result.high))
    return round(100 * result.value, 3), round(100 * low, 3), round(100 * high, 3)
