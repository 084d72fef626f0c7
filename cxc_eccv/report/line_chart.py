"""Geometry of a chart of recall over k; the template draws it as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cxc_eccv.report.recall_curves import Curve, CurvePanel, Mark
from cxc_eccv.report.wording import direction_name, listed, task_name

__all__ = ["Line", "LineChart", "line_chart"]

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
