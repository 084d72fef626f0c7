"""What a ``report.json`` may hold: every entry has its type and range, and nothing in it contradicts the rest."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from cxc_eccv.errors import DataError, UnknownName
from cxc_eccv.registry import metric_variants
from cxc_eccv.sources.reading import shown
from cxc_eccv.types import Bounds, Report, Result

__all__ = ["ROUNDING", "SCHEMA", "SPREAD", "report_of"]

SCHEMA = 1

ROUNDING = 1e-9

SPREAD = "_std"
"""End of the name of a standard deviation."""

LARGEST = 1e12
"""No count, rank or sum of a report is as large."""

EDITED = "; the file was edited. Evaluate again."


@dataclasses.dataclass(frozen=True)
class Kind:
    """A type of values: what tells them, and how messages call them."""

    holds: Callable[[Any], bool]
    expected: str


@dataclasses.dataclass(frozen=True)
class Each:
    """A mapping of any names to values of one kind."""

    of: object


def is_number(value: object) -> bool:
    """Whether a value is a finite decimal number that a report can hold."""
    return type(value) is float and math.isfinite(value) and abs(value) < LARGEST


def is_count(value: object) -> bool:
    """Whether a value is a whole number from 0 on that a report can hold."""
    return type(value) is int and 0 <= value < LARGEST


TEXT = Kind(lambda value: isinstance(value, str), "text")
COUNT = Kind(is_count, "a whole number of at least 0")
NUMBER = Kind(is_number, "a finite decimal number")
SHARE = Kind(lambda value: is_number(value) and 0 <= value <= 1, "a fraction")
MAPPING = Kind(lambda value: isinstance(value, dict), "an object")

RESULT: Mapping[str, Kind] = {
    **dict.fromkeys(("key", "task", "direction", "metric"), TEXT),
    "value": NUMBER,
    "n_queries": Kind(lambda value: is_count(value) and value > 0, "a whole number of at least 1"),
    "low": NUMBER,
    "high": NUMBER,
    "ties": COUNT,
    "coverage": SHARE,
    "parameters": MAPPING,
    "bounds": MAPPING,
}
OPTIONAL = ("low", "high", "coverage", "bounds")
"""Entries of a result that may be null; bounds may also be absent."""

BOUNDS: Mapping[str, Kind] = {"low": NUMBER, "high": NUMBER, "unjudged": COUNT, "retrieved": COUNT, "expected": NUMBER}

SIDE = {"used": COUNT, "of": COUNT}
PROVENANCE: Mapping[str, object] = {
    **dict.fromkeys(("split", "model", "similarity", "command", "intervals"), TEXT),
    "confidence": SHARE,
    "package": {"name": TEXT, "version": TEXT},
    "data": {
        **dict.fromkeys(("edition", "version", "fingerprint"), TEXT),
        "files": Each(TEXT),
        "modified": Each({"expected": TEXT, "found": TEXT}),
    },
    "run": {"file": TEXT, "directions": Each({"shallowest": COUNT})},
    "labels": {"sources": [TEXT], "files": Each({"version": TEXT, "sha256": TEXT})},
    "label_files": Each({"sha256": TEXT}),
    "restriction": {"limit": COUNT, "unreadable_images": COUNT, "images": SIDE, "captions": SIDE},
    "unjudged": {"model": TEXT, "pairs": Each(COUNT), "cautions": [TEXT]},
}
"""Entries that somebody reads, where they are there; others are only shown. A text or a number may be null."""

CONTENT = {"results": [MAPPING], "scores": MAPPING, "skipped": Each(TEXT), "provenance": PROVENANCE}

WHOLE = ({"expected", "found"}, {"used", "of"}, {"model", "pairs"})
"""Entries that stand together in one object, or not at all."""


def report_of(content: object) -> Report:
    """The report that JSON content describes.

    Raises:
        DataError: of another schema, or an entry that is absent, of another type or out of range, or that contradicts
            another one.
    """
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        found = content.get("schema") if isinstance(content, dict) else content
        raise DataError(f"not a report.json of schema {SCHEMA}: schema is {shown(found)}")
    for name, shape in CONTENT.items():
        _check(content.get(name), shape, name)
    results = tuple(_result(entry) for entry in content["results"])
    _check_scores(content["scores"], results)
    return Report(results, content["skipped"], content["provenance"])


def _result(entry: Mapping[str, Any]) -> Result:
    named = shown(entry.get("key"))
    place = f"results, {named}"
    _check_entries(entry, RESULT, place, OPTIONAL)
    values = {name: value for name, value in entry.items() if name != "key"}
    if values.get("bounds") is not None:
        _check_entries(values["bounds"], BOUNDS, f"{place}, bounds", ("expected",))
        values["bounds"] = Bounds(**values["bounds"])
    result = Result(**values)
    if entry["key"] != result.key:
        raise DataError(f"results: the row of {shown(result.key)} has the key {named}{EDITED}")
    _check_result(result)
    return result


def _check_entries(entry: Mapping[str, Any], kinds: Mapping[str, Kind], place: str, optional: tuple[str, ...]) -> None:
    unknown = [name for name in entry if name not in kinds]
    if unknown:
        raise DataError(f"{place}: {shown(unknown[0])} is no entry of a report{EDITED}")
    for name, kind in kinds.items():
        value = entry.get(name)
        if not (kind.holds(value) or (value is None and name in optional)):
            null = ", or null" if name in optional else ""
            raise DataError(f"{place}: {name} is {shown(value)}, expected {kind.expected}{null}")


def _check_result(result: Result) -> None:
    name = shown(result.key)
    if (result.low is None) != (result.high is None) or result.ties > result.n_queries:
        raise DataError(f"results, {name}: half an interval, or more ties than queries{EDITED}")
    if result.low is not None and result.high is not None and result.low > result.high:
        raise DataError(f"{name}: its interval begins at {result.low} and ends at {result.high}{EDITED}")
    low, high = _range(result.metric)
    for value in (result.value, result.low, result.high):
        if value is not None and not low <= value <= high + ROUNDING:
            limit = f"{low} or more" if high == math.inf else f"{low} to {high}"
            raise DataError(f"{name} is {value}, outside its range of {limit}{EDITED}")
    if result.bounds is not None:
        _check_over_unjudged(result, result.bounds)


def _range(metric: str) -> tuple[float, float]:
    """Lowest and highest value of a metric; those of any number where this version does not know it."""
    try:
        spec, _ = metric_variants(metric.removesuffix(SPREAD))
    except UnknownName:
        return -math.inf, math.inf
    low, high = spec.bounds
    return low, math.inf if high is None else high


def _check_over_unjudged(result: Result, own: Bounds) -> None:
    """The usual number is what the known labels make of it, and the expected one is between the bounds, too."""
    low, high = own.low - ROUNDING * abs(own.low), own.high + ROUNDING * abs(own.high)
    numbers = [own.low, result.value, own.high, *([] if own.expected is None else [own.expected])]
    if not all(low <= number <= high for number in numbers) or own.unjudged > own.retrieved or not own.retrieved:
        raise DataError(
            f"results, {shown(result.key)}: its bounds {own.low} and {own.high} over {own.unjudged} of {own.retrieved} "
            f"pairs cannot be those of its value{EDITED}"
        )


def _check_scores(scores: Mapping[str, Any], results: tuple[Result, ...]) -> None:
    values: dict[str, float] = {}
    for result in results:
        if result.key in values:
            raise DataError(f"results: {shown(result.key)} is there twice{EDITED}")
        values[result.key] = result.value
    if set(scores) != set(values):
        raise DataError(f"scores and results name different metrics{EDITED}")
    for key, value in values.items():
        if type(scores[key]) is not float or scores[key] != value:
            raise DataError(f"scores say {shown(key)} is {shown(scores[key])}, results say {value!r}{EDITED}")


def _check(value: object, shape: object, place: str) -> None:
    """Look at a value, and at what is in it, as far as a shape says: a kind, a list, or an object's entries."""
    if isinstance(shape, Kind):
        if not shape.holds(value):
            raise DataError(f"{place} is {shown(value)}, expected {shape.expected}")
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise DataError(f"{place} is {shown(value)}, expected a list")
        for number, part in enumerate(value):
            _check(part, shape[0], f"{place}[{number}]")
    else:
        if not isinstance(value, dict):
            raise DataError(f"{place} is {shown(value)}, expected an object")
        if isinstance(shape, Each):
            entries, needed = dict.fromkeys(value, shape.of), set(value)
        else:
            entries = dict(shape)  # type: ignore[call-overload]
            needed = next((names for names in WHOLE if names <= entries.keys()), set())
        for name, own in entries.items():
            if name in needed or (name in value and not (value[name] is None and isinstance(own, Kind))):
                _check(value.get(name), own, f"{place}, {name:.60}")
