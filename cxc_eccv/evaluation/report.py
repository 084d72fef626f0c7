"""Makes the report of what was scored, with its provenance; reads and writes its files by their schema."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import cxc_eccv
from cxc_eccv.errors import DataError, InvalidOption, MalformedSource, refuse_long_name
from cxc_eccv.evaluation.examples import SCHEMA as EXAMPLES_SCHEMA
from cxc_eccv.evaluation.needs import Scored
from cxc_eccv.evaluation.plan import Plan, PlannedPart
from cxc_eccv.evaluation.policies import Judge
from cxc_eccv.evaluation.request import Request
from cxc_eccv.evaluation.score import ScoredPart
from cxc_eccv.ranking.ranked import collect_ids
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.reading import read_table
from cxc_eccv.types import SIDES, Report, Result, find_positions
from cxc_eccv.types.json_records import from_json, shape_of, to_json
from cxc_eccv.types.provenance import DataFacts, ItemFacts, JudgeFacts, Package, Provenance, RunFacts
from cxc_eccv.types.strict_json import TEXT, Each, Shape, check_shape, decode_json

REPORT, PER_QUERY, EXAMPLES = "report.json", "per_query.parquet", "examples.parquet"
REPORT_FOLDER = "report"
"""Folder of a report within the folder of a trained model."""

SCHEMA = 1

CONTENT: Mapping[str, Shape] = {
    "results": [shape_of(Result)],
    "skipped": Each(TEXT),
    "doubts": Each(TEXT),
    "provenance": shape_of(Provenance),
}


def report_to_json(report: Report) -> str:
    """The text of ``report.json``: schema, doubts, scores by key, all results, skipped tasks, provenance."""
    content = {
        "schema": SCHEMA,
        "doubts": dict(report.doubts),
        "scores": report.scores,
        "results": [{"key": result.key, **to_json(result)} for result in report.results],
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
        results = tuple(from_json(Result, entry) for entry in content["results"])
    except ValueError as error:
        raise DataError(f"not a report.json of schema {SCHEMA} ({error})") from None
    provenance = from_json(Provenance, content["provenance"])
    return Report(results, content["skipped"], provenance, doubts=content["doubts"])


def write_report(path: Path, report: Report) -> None:
    """Write ``report.json``; equal reports give equal bytes."""
    path.write_text(report_to_json(report), encoding="utf-8", newline="\n")


RUNS = (".npz", ".safetensors", ".trec", ".run")
"""Endings of files that hold a model's results, never a report."""

NAME_FOLDER = "Name a folder that cxc-eccv evaluate --output wrote"


def read_report(path: Path) -> Report:
    """The report of a ``report.json``, without per-query values; raises DataError."""
    if path.suffix.lower() in RUNS:
        raise DataError(
            f"{path} is a file of a model's embeddings, scores or rankings, not a report. Score it first, with "
            f"cxc-eccv evaluate {path} --output DIR, then name DIR."
        )
    if path.is_file() and path.suffix.lower() != ".json":
        raise DataError(f"{path} is not a {REPORT}. {NAME_FOLDER}.")
    try:
        return report_from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"there is no {path}. {NAME_FOLDER}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error}). {NAME_FOLDER}.") from None
    except DataError as error:
        raise DataError(f"{path} is {error}. {NAME_FOLDER}.") from None


def find_report(path: Path) -> Path:
    """The ``report.json`` at a path: the file itself, or that in a folder, or in the folder of a trained model."""
    refuse_long_name(path)
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
        ("fold", pa.int64()),
    ]
)


def load_report(path: str | Path) -> Report:
    """Load a report that ``Report.save`` or ``cxc-eccv evaluate --output`` wrote, with its tables.

    Args:
        path: the folder, that of a trained model with a report, or a report.json; without the tables beside it, the
            report has no values of single queries.

    Raises:
        DataError: there is no such report, or a table is damaged or was not written with this report.json.
        InvalidOption: the folder holds two reports.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> written = Report((), {"cxc": "no images"}, Provenance(split="test")).save(folder)
        >>> load_report(folder)
        <Report of a run: 0 results of 0 tasks, test split>
    """
    file = find_report(Path(path))
    report = read_report(file)
    if file.with_name(PER_QUERY).is_file():
        values = read_own_table(file, PER_QUERY, PER_QUERY_SCHEMA)
        report = replace(report, per_query=values if values.num_rows else None)
    if file.with_name(EXAMPLES).is_file():
        report = replace(report, examples=read_own_table(file, EXAMPLES, EXAMPLES_SCHEMA))
    return report


def per_query_table(scored: Sequence[Scored]) -> pa.Table:
    """One row per metric and query, in the order of the report.

    ``best_rank`` is the rank of the query's best positive, or null; ``cluster`` is the image of the query, which
    intervals resample; ``fold`` is the query's fold, or null in a task without folds.
    """
    batches = []
    for row in scored:
        if (queries := row.queries) is None:
            continue
        once = pa.array(np.zeros(queries.ids.size, dtype=np.int32))
        named = (row.result.task, row.result.direction, row.result.metric)
        names = [pa.DictionaryArray.from_arrays(once, [name]) for name in named]
        none = pa.nulls(queries.ids.size, pa.int64())
        best = none if queries.best_ranks is None else queries.best_ranks
        folds = none if queries.folds is None else pa.array(queries.folds)
        columns = [pa.array(queries.ids), *names, pa.array(queries.values), best, pa.array(row.images), folds]
        batches.append(pa.RecordBatch.from_arrays(columns, schema=PER_QUERY_SCHEMA))
    return pa.Table.from_batches(batches, schema=PER_QUERY_SCHEMA)


def make_report(plan: Plan, scored: Sequence[ScoredPart], facts: Provenance, doubts: Mapping[str, str]) -> Report:
    """The report of what was scored; ``facts`` are those about the run."""
    library, request = plan.library, plan.request
    shown = [row for each in scored for row in each.rows if row.variant.shown]
    reasons = plan.skipped | {key: reason for each in scored for key, reason in each.reasons.items()}
    labels: dict[str, Any] = {}
    for task in {each.part.task.name: each.part.task for each in scored}.values():
        labels |= task.facts(library.split(request.split, task.collection))
    facts = replace(request.record(facts), unjudged=_describe_judge(request, scored), **labels)
    provenance = make_provenance(library, request.split, facts)
    table = per_query_table(shown) if request.per_query else None
    return Report(tuple(row.result for row in shown), reasons, provenance, table, doubts=doubts)


def _describe_judge(request: Request, scored: Sequence[ScoredPart]) -> JudgeFacts | None:
    """Who labelled unjudged pairs, and how many of each part."""
    if not isinstance(request.unjudged, Judge):
        return None
    pairs = {each.part.key: each.n_asked for each in scored if each.n_asked}
    return replace(request.unjudged.facts, pairs=pairs)


def make_provenance(library: Library, split: str = "", facts: Provenance | None = None) -> Provenance:
    """Versions and data, added to the facts that are known already."""
    data = DataFacts(
        edition=library.edition,
        version=library.catalog.version,
        fingerprint=library.fingerprint(),
        files=library.files_used(),
        modified=library.modified_files(),
    )
    package = Package("cxc_eccv", cxc_eccv.__version__)
    return replace(facts or Provenance(), package=package, numpy=np.__version__, data=data, split=split)


def describe_run(run: Run, parts: Iterable[PlannedPart]) -> RunFacts:
    """Facts about the run: kind, file, hash, sizes, and how many of its items no task needs."""
    needs, facts = [need for part in parts for need in part.needs], run.facts()
    sides: dict[str, ItemFacts] = {}
    for side in SIDES:
        items: ItemFacts | None = getattr(facts, side)
        if items is not None:
            used = find_positions(run.ids(side), collect_ids(side, needs))[1]
            sides[side] = replace(items, outside_the_tasks=int((~used).sum()))
    return replace(facts, images=sides.get("images"), captions=sides.get("captions"))
