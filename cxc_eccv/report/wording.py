"""How directions, parameters and values are written for people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from cxc_eccv.registry import metric_name, show_value
from cxc_eccv.types import Result
from cxc_eccv.types.reported import SPREAD

DIRECTION_NAMES = {
    "i2t": "image to text",
    "t2i": "text to image",
    "t2t": "text to text",
    "i2i": "image to image",
    "sts": "caption pairs (STS)",
    "sis": "image pairs (SIS)",
    "sits": "image-caption pairs (SITS)",
    "replace_obj": "object replaced",
    "replace_att": "attribute replaced",
    "replace_rel": "relation replaced",
    "swap_obj": "objects swapped",
    "swap_att": "attributes swapped",
    "add_obj": "object added",
    "add_att": "attribute added",
    "": "all parts",
}


NO_BREAK = "\N{NO-BREAK SPACE}"
"""Before a second number, so that a narrow column breaks only between intervals; Markdown shows a space."""

TIES = "queries in which an item ties with a positive; it counts as ranked above"
COVERAGE = "percent of the retrieved pairs that have a label; the others count as --unjudged says, by default as wrong"
"""Explanations of the numbers of ties and of labelled pairs."""

BOUNDS = "lowest and highest value under any labels for the pairs that nobody judged"
EXPECTED = "in parentheses, the mean over random labels drawn with the given probabilities"
ESTIMATE = "the value if people had judged all of them, from their answers about drawn pairs"
UNJUDGED = "share of the retrieved pairs that nobody judged"
"""Explanations of the bounds of a number."""


def direction_name(direction: str) -> str:
    """Modalities of the query and of the ranked items, in words."""
    return DIRECTION_NAMES.get(direction, direction)


def row_name(result: Result) -> str:
    """The metric's full name, which has the numeric parameters, and the parameters that are words."""
    words = [
        f"{name}: {value}".replace("_", " ") for name, value in result.parameters.items() if isinstance(value, str)
    ]
    name = metric_name(result.metric, in_full=True)
    return f"{name} ({', '.join(words)})" if words else name


@dataclass(frozen=True, slots=True)
class Shown(Result):
    """A result together with the standard deviation over its metric's samples, which a report keeps as a result."""

    deviation: float | None = None


def fold_deviations(results: Iterable[Result]) -> list[Shown]:
    """The results with their deviations, which are no longer results themselves."""
    by_key = {result.key: result for result in results}
    deviations = {
        key.removesuffix(SPREAD): result.value
        for key, result in by_key.items()
        if key.endswith(SPREAD) and key.removesuffix(SPREAD) in by_key
    }
    return [
        Shown(**{field.name: getattr(result, field.name) for field in fields(Result)}, deviation=deviations.get(key))
        for key, result in by_key.items()
        if key.removesuffix(SPREAD) == key or key.removesuffix(SPREAD) not in deviations
    ]


def value_text(result: Result) -> str:
    """The value: fractions in percent, correlations as they are with the deviation of their samples."""
    deviation = deviation_text(result).replace(" ", NO_BREAK)
    return f"{show_value(result.metric, result.value)} {deviation}".rstrip()


def deviation_text(result: Result) -> str:
    """The deviation in the units of the value; empty without one."""
    deviation = result.deviation if isinstance(result, Shown) else None
    return "" if deviation is None else f"± {show_value(result.metric, deviation)}"


def interval_text(result: Result) -> str:
    """The interval in the units of the value; empty without one."""
    if result.low is None or result.high is None:
        return ""
    return f"{show_value(result.metric, result.low)} to{NO_BREAK}{show_value(result.metric, result.high)}"


def bounds_text(result: Result) -> str:
    """The bounds over unjudged pairs and the expected value, in the units of the value; empty without bounds."""
    bounds = result.bounds
    if bounds is None:
        return ""
    if not bounds.unjudged:
        return f"all pairs{NO_BREAK}judged"
    expected = "" if bounds.expected is None else f" ({show_value(result.metric, bounds.expected)})"
    low, high = (show_value(result.metric, value) for value in (bounds.low, bounds.high))
    return f"{low} to{NO_BREAK}{high}{expected}"


def estimate_text(result: Result) -> str:
    """The value estimated from people's answers about drawn pairs, with its interval; empty without answers."""
    bounds = result.bounds
    if bounds is None or bounds.estimate is None:
        return ""
    value = show_value(result.metric, bounds.estimate)
    if bounds.estimate_low is None or bounds.estimate_high is None:
        return value
    low, high = (show_value(result.metric, end) for end in (bounds.estimate_low, bounds.estimate_high))
    return f"{value} [{low}, {high}]"


def unjudged_text(result: Result) -> str:
    """The share of the retrieved pairs that nobody judged; empty if it is zero or unknown."""
    bounds = result.bounds
    return "" if bounds is None or not bounds.unjudged else share(bounds.unjudged, bounds.retrieved)


def rank_text(rank: int | None) -> str:
    """A rank, or ``not found`` for a ranking that ends before it."""
    return "not found" if rank is None else f"{rank:,}"


def share(part: int, whole: int) -> str:
    """A part in percent; it rounds to 0% or 100% only if it is exactly that."""
    percent = 100 * part / whole
    if 0 < percent < 0.05:
        return "<0.1%"
    if 99.95 < percent < 100:
        return ">99.9%"
    return "0%" if part == 0 else f"{percent:.1f}%"


def count(number: int, noun: str) -> str:
    """A number with its noun."""
    if number == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {plural}"
