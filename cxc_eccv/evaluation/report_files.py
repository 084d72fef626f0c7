"""Reads and writes report.json by its schema, reads the tables beside it, and makes that of per_query.parquet."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import DataError, InvalidOption, MalformedSource
from cxc_eccv.evaluation.needs import Scored
from cxc_eccv.sources.reading import read_table
from cxc_eccv.types import Bounds, Report, Result
from cxc_eccv.types.json_records import from_json, shape_of, to_json
from cxc_eccv.types.provenance import Provenance
from cxc_eccv.types.strict_json import (
    COUNT,
    MAPPING,
    NUMBER,
    SHARE,
    TEXT,
    Each,
    Kind,
    Loose,
    Shape,
    check_shape,
    decode_json,
)

REPORT, PER_QUERY = "report.json", "per_query.parquet"
REPORT_FOLDER = "report"
"""Folder of a report within the folder of a trained model."""

SCHEMA = 1

POSITIVE = Kind(lambda value: COUNT.holds(value) and value > 0, "a whole number of at least 1")
OPTIONAL = Loose({"low": NUMBER, "high": NUMBER, "coverage": SHARE})
"""Entries of a result that are null where there is no interval, or where all pairs are judged."""

RESULT: Mapping[str, Shape] = {
    **dict.fromkeys(("task", "direction", "metric"), TEXT),
    "value": NUMBER,
    "n_queries": POSITIVE,
    "ties": COUNT,
    "parameters": MAPPING,
}

BY_ANSWERS = {name: (name, f"{name}_low", f"{name}_high") for name in ("estimate", "precision")}
"""Entries of bounds that are absent unless people's answers give the first of them."""

BOUNDS: Mapping[str, Shape] = {"low": NUMBER, "high": NUMBER, "unjudged": COUNT, "retrieved": POSITIVE}

CONTENT: Mapping[str, Shape] = {"results": [RESULT], "skipped": Each(TEXT), "provenance": shape_of(Provenance)}


def report_to_json(report: Report) -> str:
    """The text of ``report.json``: schema, scores by key, all results, skipped tasks, provenance."""
    content = {
        "schema": SCHEMA,
        "scores": report.scores,
        "results": [_make_entry(result) for result in report.results],
        "skipped": dict(report.skipped),
        "provenance": to_json(report.provenance),
    }
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def report_from_json(text: str) -> Report:
    """The report of a text from :func:`report_to_json`; raises DataError."""
    try:
        content = decode_json(text)
        if not isinstance(content, dict) or content.get("schema") != SCHEMA:
            raise DataError(f"not a report.json of schema {SCHEMA}")
        check_shape(content, CONTENT)
        results = tuple(_read_entry(entry) for entry in content["results"])
    except ValueError as error:
        raise DataError(f"not a report.json of schema {SCHEMA}: {error}") from None
    return Report(results, content["skipped"], from_json(Provenance, content["provenance"]))


def _make_entry(result: Result) -> dict[str, Any]:
    """The JSON entry of a result, without ``bounds`` if it has none."""
    entry = {"key": result.key, **dataclasses.asdict(result)}
    if result.bounds is None:
        del entry["bounds"]
    for first, names in BY_ANSWERS.items() if result.bounds is not None else ():
        if getattr(result.bounds, first) is None:
            entry["bounds"] = {name: value for name, value in entry["bounds"].items() if name not in names}
    return entry


def _read_entry(entry: Mapping[str, Any]) -> Result:
    check_shape(entry, OPTIONAL, str(entry.get("key")))
    values = {field.name: entry[field.name] for field in dataclasses.fields(Result) if field.name in entry}
    if (bounds := values.get("bounds")) is not None:
        check_shape(bounds, BOUNDS, f"{entry.get('key')}, bounds")
        check_shape(
            bounds,
            Loose(dict.fromkeys(("expected", *chain(*BY_ANSWERS.values())), NUMBER)),
            f"{entry.get('key')}, bounds",
        )
        values["bounds"] = Bounds(**bounds)
    return Result(**values)


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


DIGEST = b"report"
"""Key in the metadata of the tables: the digest of the report.json that they were written with."""


def digest_of(file: Path) -> bytes:
    """Hexadecimal sha256 of the content of a report.json, whatever its whitespace."""
    content = json.dumps(json.loads(file.read_text(encoding="utf-8")), sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest().encode()


def read_own_table(file: Path, name: str, schema: pa.Schema) -> pa.Table:
    """The table beside a report.json with at least the columns of the schema; refuse one that belongs to another."""
    path = file.with_name(name)
    table = read_table(path, "what evaluate --output wrote")
    for column in schema:
        if column.name not in table.column_names or table.schema.field(column.name).type != column.type:
            raise MalformedSource(path, f"column {column.name}", "none, or another type", f"one of {column.type}")
    if (table.schema.metadata or {}).get(DIGEST) != digest_of(file):
        raise DataError(
            f"{path} does not belong to the {file.name} beside it. Evaluate the model again into one folder."
        )
    return table


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
