"""How directions, parameters and values are written for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cxc_eccv.comparison.labels import metric_name as short_metric_name
from cxc_eccv.comparison.labels import shown_value, task_name
from cxc_eccv.types import Result

__all__ = [
    "count",
    "direction_name",
    "interval_text",
    "listed",
    "metric_name",
    "rank_text",
    "share",
    "stated",
    "task_name",
    "upper_first",
    "value_text",
]

DIRECTIONS = {
    "i2t": "image to text",
    "t2i": "text to image",
    "t2t": "text to text",
    "i2i": "image to image",
    "sts": "caption pairs (STS)",
    "sis": "image pairs (SIS)",
    "sits": "image-caption pairs (SITS)",
    "": "all directions",
}


def direction_name(direction: str) -> str:
    """What is the query, and what is ranked.

    Example:
        >>> direction_name("i2t")
        'image to text'
    """
    return DIRECTIONS.get(direction, direction)


def metric_name(label: str) -> str:
    """The name papers use, in full.

    Example:
        >>> metric_name("recall_at_1"), metric_name("bootstrap_spearman_std")
        ('R@1', 'Spearman, std over samples')
    """
    return short_metric_name(label, in_full=True)


def upper_first(text: str) -> str:
    """A text that begins a line.

    Example:
        >>> upper_first("plausible match")
        'Plausible match'
    """
    return f"{text[:1].upper()}{text[1:]}"


def value_text(result: Result) -> str:
    """The value; fractions in percent.

    Example:
        >>> value_text(Result("coco_5k", "i2t", "recall_at_1", 0.4174, 5000))
        '41.7'
    """
    return shown_value(result.metric, result.value)


def interval_text(result: Result) -> str:
    """The interval in the units of the value; empty where there is none.

    Example:
        >>> interval_text(Result("coco_5k", "i2t", "recall_at_1", 0.4174, 5000, low=0.404, high=0.431))
        '40.4 to 43.1'
    """
    if result.low is None or result.high is None:
        return ""
    low, high = (shown_value(result.metric, bound) for bound in (result.low, result.high))
    return f"{low} to {high}"


def rank_text(rank: int | None) -> str:
    """A rank, or that there is none: given rankings may end before it.

    Example:
        >>> rank_text(1234), rank_text(None)
        ('1,234', 'not found')
    """
    return "not found" if rank is None else f"{rank:,}"


def share(part: int, whole: int) -> str:
    """A part in percent; what is neither nothing nor all does not look so.

    Example:
        >>> share(1, 4), share(0, 4), share(1, 25_000), share(24_999, 25_000)
        ('25.0 %', '0 %', '< 0.1 %', '> 99.9 %')
    """
    percent = 100 * part / whole
    if 0 < percent < 0.05:
        return "< 0.1 %"
    if 99.95 < percent < 100:
        return "> 99.9 %"
    return "0 %" if part == 0 else f"{percent:.1f} %"


def count(number: int, noun: str) -> str:
    """A number with its noun.

    Example:
        >>> count(1, "query"), count(25_000, "query"), count(2, "tie")
        ('1 query', '25,000 queries', '2 ties')
    """
    if number == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {plural}"


def listed(names: list[str]) -> str:
    """Names in a sentence.

    Example:
        >>> listed(["COCO", "CxC", "ECCV"])
        'COCO, CxC and ECCV'
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def stated(parameters: Mapping[str, Any]) -> str:
    """Parameters that a metric's name does not carry: numbers are part of the name, words are not.

    Example:
        >>> stated({"k": 5, "unjudged": "leave_out"})
        'unjudged: leave out'
    """
    words = {name: value for name, value in parameters.items() if isinstance(value, str)}
    return ", ".join(f"{name.replace('_', ' ')}: {value.replace('_', ' ')}" for name, value in words.items())
