"""Stacked bars and interval marks as percentages of their width; templates draw them as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cxc_eccv.report.wording import share
from cxc_eccv.types import Result

__all__ = ["Segment", "Span", "segments", "span"]

ROOM_FOR_TEXT = 9.0
"""Width, in percent of the bar, from which a segment has room for its share."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Part of a stacked bar.

    Attributes:
        start, width: in percent of the bar.
        kind: which of the bar's kinds it is, for its colour.
        title: what it stands for, in words.
        text: its share where there is room for it, else empty.
    """

    start: float
    width: float
    kind: str
    title: str
    text: str


def segments(counts: Sequence[int], kinds: Sequence[str], titles: Sequence[str]) -> list[Segment]:
    """The non-empty parts of a bar, left to right.

    Args:
        counts: of the parts.
        kinds: names of their colours.
        titles: what they stand for.

    Example:
        >>> [(one.start, one.width, one.text) for one in segments([3, 0, 1], ["a", "b", "c"], ["x", "y", "z"])]
        [(0.0, 75.0, '75 %'), (75.0, 25.0, '25 %')]
    """
    total, done, found = sum(counts), 0, []
    for number, kind, title in zip(counts, kinds, titles, strict=True):
        if number:
            width = 100 * number / total
            text = f"{width:.0f} %" if width >= ROOM_FOR_TEXT else ""
            words = f"{title}: {number:,} of {total:,}, {share(number, total)}"
            found.append(Segment(round(100 * done / total, 3), round(width, 3), kind, words, text))
        done += number
    return found


@dataclass(frozen=True, slots=True)
class Span:
    """A fraction and its interval, in percent of the axis."""

    value: float
    low: float
    high: float


def span(result: Result) -> Span:
    """Where a fraction and its interval stand; without an interval its ends are the value.

    Example:
        >>> span(Result("cxc", "i2t", "recall_at_1", 0.5, 2, low=0.25, high=0.75))
        Span(value=50.0, low=25.0, high=75.0)
    """
    low, high = (result.value if bound is None else bound for bound in (result.low, result.high))
    return Span(*(round(100 * one, 3) for one in (result.value, low, high)))
