"""What a ``report.json`` may hold: every entry has its type and range, and nothing in it contradicts the rest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from cxc_eccv.errors import DataError, UnknownName
from cxc_eccv.registry import metric_variants
from cxc_eccv.sources.reading import shown
from cxc_eccv.types import Bounds, Report, Result
from cxc_eccv.types.reported import SPREAD
from cxc_eccv.types.shapes import COUNT, MAPPING, NUMBER, SHARE, TEXT, Each, Kind, Loose, Shape, check_shape
from cxc_eccv.types.strict_json import JsonFault

SCHEMA = 1

ROUNDING = 1e-9

EDITED = "; the file was edited. Evaluate again."


RESULT: Mapping[str, Kind] = {
    **dict.fromkeys(("key", "task", "direction", "metric"), TEXT),
    "value": NUMBER,
    "n_queries": Kind(lambda value: COUNT.holds(value) and value > 0, "a whole number of at least 1"),
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
PROVENANCE = Loose(
    {
        **dict.fromkeys(("split", "model", "similarity", "command", "intervals"), TEXT),
        "confidence": SHARE,
        "package": Loose({"name": TEXT, "version": TEXT}),
        "data": Loose(
            {
                **dict.fromkeys(("edition", "version", "fingerprint"), TEXT),
                "files": Each(TEXT),
                "modified": Each({"expected": TEXT, "found": TEXT}),
            }
        ),
        "run": Loose({"file": TEXT, "directions": Each(Loose({"shallowest": COUNT}))}),
        "labels": Loose({"sources": [TEXT], "files": Each(Loose({"version": TEXT, "sha256": TEXT}))}),
        "label_files": Each(Loose({"sha256": TEXT})),
        "restriction": Loose({"limit": COUNT, "unreadable_images": COUNT, "images": SIDE, "captions": SIDE}),
        "unjudged": {"model": TEXT, "pairs": Each(COUNT), "cautions": [TEXT]},
    }
)
"""Entries that somebody reads; others are only shown."""

CONTENT: Mapping[str, Shape] = {
    "results": [MAPPING],
    "scores": MAPPING,
    "skipped": Each(TEXT),
    "provenance": PROVENANCE,
}


def report_of(content: object) -> Report:
    """The report that JSON content describes."""
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        found = content.get("schema") if isinstance(content, dict) else content
        raise DataError(f"not a report.json of schema {SCHEMA}: schema is {shown(found)}")
    try:
        check_shape(content, CONTENT)
    except JsonFault as fault:
        raise DataError(f"not a report.json of schema {SCHEMA}: {fault}") from None
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
        if value is not None and not low - ROUNDING <= value <= high + ROUNDING:
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
