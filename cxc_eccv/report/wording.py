"""How directions, parameters and values are written for people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from cxc_eccv.comparison.labels import metric_name, show_value
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
"""In front of a second number: a narrow column breaks between two numbers alone. Markdown takes it for a space."""

TIES = "queries with an item that ties with a positive, and counts as above it"
COVERAGE = "percent of the pairs looked at that have a label; others gain nothing, or what --unjudged says"
"""What the queries with a tie, and the pairs with a label, of a table are."""

BOUNDS = "lowest to highest value under any labels of the retrieved pairs that nobody judged"
EXPECTED = "in parentheses the mean over random labels with their probabilities"
UNJUDGED = "share of these among the retrieved pairs"
"""What the bounds of a number are, and what stands beside them."""


def direction_name(direction: str) -> str:
    """What is the query, and what is ranked."""
    return DIRECTION_NAMES.get(direction, direction)


def row_name(result: Result) -> str:
    """The metric's name in full, and the parameters that are words: numbers are part of the name."""
    words = [
        f"{name}: {value}".replace("_", " ") for name, value in result.parameters.items() if isinstance(value, str)
    ]
    name = metric_name(result.metric, in_full=True)
    return f"{name} ({', '.join(words)})" if words else name


@dataclass(frozen=True, slots=True)
class Shown(Result):
    """A result as it is shown: the standard deviation over a metric's samples, its own result, stands beside it."""

    deviation: float | None = None


def fold_deviations(results: Iterable[Result]) -> list[Shown]:
    """The results, each with its deviation, which is no result of its own any more."""
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
    """The value; fractions in percent, correlations as they are with the deviation of their samples."""
    deviation = deviation_text(result).replace(" ", NO_BREAK)
    return f"{show_value(result.metric, result.value)} {deviation}".rstrip()


def deviation_text(result: Result) -> str:
    """The deviation in the units of the value; empty where there is none."""
    deviation = result.deviation if isinstance(result, Shown) else None
    return "" if deviation is None else f"± {show_value(result.metric, deviation)}"


def interval_text(result: Result) -> str:
    """The interval in the units of the value; empty where there is none."""
    if result.low is None or result.high is None:
        return ""
    return f"{show_value(result.metric, result.low)} to{NO_BREAK}{show_value(result.metric, result.high)}"


def bounds_text(result: Result) -> str:
    """The bounds over the unjudged in the units of the value, and the expected one; empty where there are none."""
    own = result.bounds
    if own is None:
        return ""
    if not own.unjudged:
        return f"all pairs{NO_BREAK}judged"
    expected = "" if own.expected is None else f" ({show_value(result.metric, own.expected)})"
    low, high = (show_value(result.metric, value) for value in (own.low, own.high))
    return f"{low} to{NO_BREAK}{high}{expected}"


def unjudged_text(result: Result) -> str:
    """The share of the retrieved pairs that nobody judged; empty where that is not known, or none."""
    own = result.bounds
    return "" if own is None or not own.unjudged else share(own.unjudged, own.retrieved)


def rank_text(rank: int | None) -> str:
    """A rank, or that there is none: given rankings may end before it."""
    return "not found" if rank is None else f"{rank:,}"


def share(part: int, whole: int) -> str:
    """A part in percent; what is neither nothing nor all does not look so."""
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
