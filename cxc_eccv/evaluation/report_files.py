"""report.json and per_query.parquet: a report as text, file and back, the value of every query as a table."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.evaluation.needs import QueryValues, Scored
from cxc_eccv.evaluation.report_schema import SCHEMA, report_of
from cxc_eccv.types import Report, Result
from cxc_eccv.types.strict_json import decode_json

REPORT, PER_QUERY = "report.json", "per_query.parquet"
REPORT_FOLDER = "report"
"""Folder of a trained model's report, within the model's."""


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
    """The report that :func:`report_to_json` wrote."""
    try:
        content = decode_json(text)
    except ValueError as error:
        raise DataError(f"not a report.json of schema {SCHEMA}: {error}") from None
    return report_of(content)


def _make_entry(result: Result) -> dict[str, Any]:
    """Bounds stand there only where they were asked for."""
    entry = {"key": result.key, **dataclasses.asdict(result)}
    return entry if result.bounds is not None else {name: entry[name] for name in entry if name != "bounds"}


def write_report(path: Path, report: Report) -> None:
    """Write ``report.json``; equal reports give equal bytes."""
    path.write_text(report_to_json(report), encoding="utf-8", newline="\n")


def read_report(path: Path) -> Report:
    """The report of a ``report.json``, without per-query values; a DataError names the file."""
    try:
        return report_from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error}). Give what evaluate --output wrote.") from None
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def find_report(path: Path) -> Path:
    """The ``report.json`` that a path means: the file itself, or that of a folder, or of a trained model's folder."""
    places = [path / REPORT, path / REPORT_FOLDER / REPORT] if path.is_dir() else [path]
    found = [place for place in places if place.is_file()]
    if len(found) > 1:
        raise InvalidOption(f"{path} holds {REPORT} and {REPORT_FOLDER}/{REPORT}. Name the one that you mean.")
    return (found or places)[0]


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

    ``best_rank`` is that of the query's best positive, null where none was found or no positives are ranked;
    ``cluster`` the image behind the query, by which intervals resample.
    """
    batches = [_make_rows(row, row.queries) for row in scored if row.queries is not None]
    return pa.Table.from_batches(batches, schema=PER_QUERY_SCHEMA)


def _make_rows(scored: Scored, queries: QueryValues) -> pa.RecordBatch:
    result, size = scored.result, queries.ids.size
    best = pa.nulls(size, pa.int64()) if queries.best_ranks is None else queries.best_ranks
    names = [_repeat(name, size) for name in (result.task, result.direction, result.metric)]
    columns = [pa.array(queries.ids), *names, pa.array(queries.values), best, pa.array(scored.images)]
    return pa.RecordBatch.from_arrays(columns, schema=PER_QUERY_SCHEMA)


def _repeat(name: str, size: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(size, dtype=np.int32)), [name])
