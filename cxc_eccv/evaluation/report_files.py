"""Reads and writes report.json, strictly, and makes the table of per_query.parquet."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import DataError, InvalidOption, UnknownName
from cxc_eccv.evaluation.needs import Scored
from cxc_eccv.registry import metric_variants
from cxc_eccv.sources.reading import shown
from cxc_eccv.types import Bounds, Report, Result
from cxc_eccv.types.reported import SPREAD
from cxc_eccv.types.strict_json import (
    COUNT,
    MAPPING,
    NUMBER,
    SHARE,
    TEXT,
    Each,
    JsonFault,
    Kind,
    Loose,
    Shape,
    check_shape,
    decode_json,
)

REPORT, PER_QUERY = "report.json", "per_query.parquet"
REPORT_FOLDER = "report"
"""Folder of a report within the folder of a trained model."""


def report_to_json(report: Report) -> str:
    """The text of ``report.json``: schema, scores by key, all results, skipped tasks, provenance."""
    content = {
        "schema": SCHEMA,
        "scores": report.scores,
        "results": [_make_entry(result) for result in report.results],
        "skipped": dict(report.skipped),
        "provenance": dict(report.provenance),
    }
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def report_from_json(text: str) -> Report:
    """The report of a text from :func:`report_to_json`."""
    try:
        content = decode_json(text)
    except ValueError as error:
        raise DataError(f"not a report.json of schema {SCHEMA}: {error}") from None
    return report_of(content)


def _make_entry(result: Result) -> dict[str, Any]:
    """The JSON entry of a result, without ``bounds`` if it has none."""
    entry = {"key": result.key, **dataclasses.asdict(result)}
    if result.bounds is not None and result.bounds.estimate is None:
        entry["bounds"] = {name: entry["bounds"][name] for name in BOUNDS if name not in ESTIMATE}
    return entry if result.bounds is not None else {name: entry[name] for name in entry if name != "bounds"}


def write_report(path: Path, report: Report) -> None:
    """Write ``report.json``; equal reports give equal bytes."""
    path.write_text(report_to_json(report), encoding="utf-8", newline="\n")


def read_report(path: Path) -> Report:
    """The report of a ``report.json``, without per-query values; raises DataError."""
    try:
        return report_from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error}). Give a report that evaluate --output wrote.") from None
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def find_report(path: Path) -> Path:
    """The ``report.json`` at a path: the file itself, or that in a folder, or in the folder of a trained model."""
    places = [path / REPORT, path / REPORT_FOLDER / REPORT] if path.is_dir() else [path]
    files = [place for place in places if place.is_file()]
    if len(files) > 1:
        raise InvalidOption(f"{path} holds both {REPORT} and {REPORT_FOLDER}/{REPORT}; name one of the two files")
    return (files or places)[0]


NAME = pa.dictionary(pa.int32(), pa.string())
PER_QUERY_SCHEMA = pa.schema(
    [
        ("query_id", pa.int64()),
        ("task", NAME),
        ("direction", NAME),
        ("metric", NAME),
        ("value", pa.float64()),
        ("best_rank", pa.int64()),
        ("cluster", pa.int64()),
    ]
)


def per_query_table(scored: Sequence[Scored]) -> pa.Table:
    """One row per metric and query, in the order of the report.

    ``best_rank`` is the rank of the query's best positive, or null; ``cluster`` is the image of the query, which
    intervals resample.
    """
    batches = []
    for row in scored:
        if (queries := row.queries) is None:
            continue
        once = pa.array(np.zeros(queries.ids.size, dtype=np.int32))
        named = (row.result.task, row.result.direction, row.result.metric)
        names = [pa.DictionaryArray.from_arrays(once, [name]) for name in named]
        best = pa.nulls(queries.ids.size, pa.int64()) if queries.best_ranks is None else queries.best_ranks
        columns = [pa.array(queries.ids), *names, pa.array(queries.values), best, pa.array(row.images)]
        batches.append(pa.RecordBatch.from_arrays(columns, schema=PER_QUERY_SCHEMA))
    return pa.Table.from_batches(batches, schema=PER_QUERY_SCHEMA)


SCHEMA = 1
ROUNDING = 1e-9
EDITED = "; the file was edited, so evaluate again"

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

ESTIMATE = ("estimate", "estimate_low", "estimate_high")
"""Entries of bounds that are absent without answers."""

BOUNDS: Mapping[str, Kind] = {
    "low": NUMBER,
    "high": NUMBER,
    "unjudged": COUNT,
    "retrieved": COUNT,
    "expected": NUMBER,
    **dict.fromkeys(ESTIMATE, NUMBER),
}

SIDE = {"used": COUNT, "of": COUNT}
PROVENANCE = Loose(
    {
        **dict.fromkeys(("split", "model", "similarity", "command", "intervals"), TEXT),
        "confidence": SHARE,
        "trained_on": [TEXT],
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
"""Entries that the code reads; others are only shown."""

CONTENT: Mapping[str, Shape] = {
    "results": [MAPPING],
    "scores": MAPPING,
    "skipped": Each(TEXT),
    "provenance": PROVENANCE,
}


def report_of(content: object) -> Report:
    """The report in decoded JSON; raises DataError."""
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        schema = content.get("schema") if isinstance(content, dict) else content
        raise DataError(f"not a report.json of schema {SCHEMA}: schema is {shown(schema)}")
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
        _check_entries(values["bounds"], BOUNDS, f"{place}, bounds", ("expected", *ESTIMATE))
        values["bounds"] = Bounds(**values["bounds"])
    result = Result(**values)
    if entry["key"] != result.key:
        raise DataError(f"results: the row of {shown(result.key)} has the key {named}{EDITED}")
    _check_result(result)
    return result


def _check_entries(entry: Mapping[str, Any], kinds: Mapping[str, Kind], place: str, optional: tuple[str, ...]) -> None:
    unknown = [name for name in entry if name not in kinds]
    if unknown:
        raise DataError(f"{place}: {shown(unknown[0])} is not an entry of a report{EDITED}")
    for name, kind in kinds.items():
        value = entry.get(name)
        if not (kind.holds(value) or (value is None and name in optional)):
            null = ", or null" if name in optional else ""
            raise DataError(f"{place}: {name} is {shown(value)}, expected {kind.expected}{null}")


def _check_result(result: Result) -> None:
    name = shown(result.key)
    if (result.low is None) != (result.high is None) or result.ties > result.n_queries:
        raise DataError(f"results, {name}: has half an interval, or more ties than queries{EDITED}")
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
    """Lowest and highest value of a metric; infinite if this version does not know the metric."""
    try:
        spec, _ = metric_variants(metric.removesuffix(SPREAD))
    except UnknownName:
        return -math.inf, math.inf
    low, high = spec.bounds
    return low, math.inf if high is None else high


def _check_over_unjudged(result: Result, bounds: Bounds) -> None:
    """Raise DataError unless the value and the expected value lie between the bounds."""
    low, high = bounds.low - ROUNDING * abs(bounds.low), bounds.high + ROUNDING * abs(bounds.high)
    numbers = [bounds.low, result.value, bounds.high, *([] if bounds.expected is None else [bounds.expected])]
    impossible = bounds.unjudged > bounds.retrieved or not bounds.retrieved
    if impossible or not all(low <= number <= high for number in numbers):
        raise DataError(
            f"results, {shown(result.key)}: its bounds {bounds.low} and {bounds.high} over {bounds.unjudged} of "
            f"{bounds.retrieved} pairs do not fit its value{EDITED}"
        )


def _check_scores(scores: Mapping[str, Any], results: tuple[Result, ...]) -> None:
    values: dict[str, float] = {}
    for result in results:
        if result.key in values:
            raise DataError(f"results: {shown(result.key)} occurs twice{EDITED}")
        values[result.key] = result.value
    if set(scores) != set(values):
        raise DataError(f"scores and results have different metrics{EDITED}")
    for key, value in values.items():
        if type(scores[key]) is not float or scores[key] != value:
            raise DataError(f"{shown(key)} is {shown(scores[key])} in scores and {value!r} in results{EDITED}")
