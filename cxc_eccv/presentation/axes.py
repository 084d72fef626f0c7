"""Axes of charts: round ticks, and the place of a value between two ends."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

STEPS = (1, 2, 5, 10, 20, 25, 50, 100)
"""Distances of ticks."""


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
        count = round((self.high - self.low) / self.step)
        return [self.low + number * self.step for number in range(count + 1)]


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
