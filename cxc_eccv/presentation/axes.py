"""Axes of charts: round ticks, and the place of a value between two ends."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

STEPS = (1, 2, 5, 10, 20, 25, 50, 100)
"""Distances of ticks."""

FINEST = 1e-6
"""Values closer to each other than this part of the largest are shown as if they were so far apart."""
LEAST_SPREAD = 1e-200
"""The distance of the farthest values that an axis tells apart."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale from ``low`` to ``high`` in the units of its values, which lies between two places of a drawing."""

    low: float
    high: float
    step: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Where a value lies in the drawing."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        """The values at the ticks, from one end to the other."""
        first = round(self.low / self.step)
        last = round(self.high / self.step)
        return [number * self.step for number in range(first, last + 1)]


def make_axis(values: Iterable[float], start: float, end: float, *, most_ticks: int) -> Axis:
    """An axis with round ticks around all values, with some room at both ends.

    Example:
        >>> make_axis([22.3, 73.1], 0, 100, most_ticks=7).ticks()
        [20, 30, 40, 50, 60, 70, 80]
    """
    present = list(values)
    least = min(present)
    greatest = max(present)
    for step in STEPS:
        low = step * math.floor(least / step)
        high = step * math.ceil(greatest / step)
        if high == low:
            high = low + step
        if (high - low) / step < most_ticks:
            break
    return Axis(low, high, step, start, end)


def make_axis_of_any_scale(values: Iterable[float], start: float, end: float, *, most_ticks: int) -> Axis:
    """The same for values in any unit: ticks may be fractions, or far apart.

    Example:
        >>> [round(tick, 2) for tick in make_axis_of_any_scale([0.21, 0.33], 0, 100, most_ticks=5).ticks()]
        [0.2, 0.25, 0.3, 0.35]
    """
    present = list(values)
    largest = max(map(abs, present))
    spread = max(max(present) - min(present), FINEST * largest) or 1.0
    unit = 10.0 ** (math.floor(math.log10(max(spread, LEAST_SPREAD))) - 1)
    axis = make_axis((value / unit for value in present), start, end, most_ticks=most_ticks)
    return replace(axis, low=axis.low * unit, high=axis.high * unit, step=axis.step * unit)
