"""The run file: what a report needs of a run, as Parquet with a row for each direction and query.

``load_run`` reads it as rankings with known positives. ``above`` and ``tied`` hold a number for each positive and
gallery: positive by positive, gallery by gallery.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cxc_eccv.errors import InvalidOption, MalformedRun
from cxc_eccv.runs.rankings import KnownPositives, RankingsRun, narrow_ids
from cxc_eccv.runs.run import MODEL, shorten
from cxc_eccv.types import SIDES, IntArray
from cxc_eccv.types.strict_json import JsonFault, decode_json
from cxc_eccv.writing import check_output, replaced_file

KEPT = "cxc_eccv_run"
"""Entry of the metadata with what a run file was made from, as JSON."""

SCHEMA = 1
SUFFIX = ".run.parquet"
SHELF_INDEX = "shelf.json"
KEEP_AGAIN = "make the run file again with cxc-eccv evaluate --keep-run"

COLUMNS = ("query_id", "direction", "item_ids", "scores", "positive_ids", "above", "tied", "gallery")

ENCODING: dict[str, Any] = {
    "compression": "zstd",
    "compression_level": 9,
    "write_page_checksum": True,
    "use_dictionary": ["direction", *(f"{name}.list.element" for name in ("item_ids", "positive_ids", "gallery"))],
    "use_byte_stream_split": [f"{name}.list.element" for name in ("scores", "above", "tied")],
}


def check_run_file(path: Path) -> None:
    """Refuse, before long work, a run file of another ending or that cannot be written."""
    if not path.name.endswith(SUFFIX):
        raise InvalidOption(f"{path}: name the run file NAME{SUFFIX}")
    check_output(path, (path.suffix,))


def write_run_file(path: Path, run: RankingsRun) -> None:
    """Write a run with known positives in one step, with a group of rows for each direction."""
    tables, galleries = [], {}
    ids = np.result_type(*(narrow_ids(run.ids(side)) for side in SIDES))
    for direction, lists in run.lists.items():
        known = lists.known
        if known is None:
            raise MalformedRun(f"{lists.place}: has no known positives; keep a run of embeddings or scores")
        n_queries, n_galleries = known.gallery.shape
        galleries[direction] = known.galleries
        columns = {
            "query_id": lists.query_ids,
            "direction": [direction] * n_queries,
            "item_ids": _to_lists(lists.indptr, lists.items.astype(ids)),
            "scores": _to_lists(lists.indptr, np.empty(0, np.float32) if lists.scores is None else lists.scores),
            "positive_ids": _to_lists(known.indptr, known.items.astype(ids)),
            "above": _to_lists(known.indptr * n_galleries, known.above.astype(np.int32)),
            "tied": _to_lists(known.indptr * n_galleries, (known.at_least - known.above).astype(np.int32)),
            "gallery": _to_lists(np.arange(n_queries + 1) * n_galleries, known.gallery.astype(np.int32)),
        }
        tables.append(pa.table(columns))
    facts = {"schema": SCHEMA, **(run.kept or {}), "galleries": galleries}
    names = {KEPT: json.dumps(facts, ensure_ascii=False), **({} if run.model is None else {MODEL: run.model})}
    schema = tables[0].schema.with_metadata(names)
    with replaced_file(path) as part, pq.ParquetWriter(part, schema, **ENCODING) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=table.num_rows)


def _to_lists(bounds: IntArray, values: NDArray[Any]) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), pa.array(values.ravel()))


def read_kept_facts(path: Path) -> dict[str, Any] | None:
    """What the metadata of a Parquet file says a run file was made from; None for other files."""
    text = (pq.read_schema(path).metadata or {}).get(KEPT.encode())
    if text is None:
        return None
    try:
        facts = decode_json(text.decode())
        if not isinstance(facts, dict) or not isinstance(facts.get("galleries"), dict):
            raise JsonFault("", shorten(facts), "the facts of a run file")
    except (UnicodeDecodeError, ValueError) as error:
        raise MalformedRun(f"{path}: {KEPT} in its metadata is damaged ({error}); {KEEP_AGAIN}") from None
    if facts.get("schema") != SCHEMA:
        raise MalformedRun(
            f"{path}: is a run file of schema {shorten(facts.get('schema'))}, and this version reads {SCHEMA}; install "
            f"the version of cxc_eccv that wrote it, or {KEEP_AGAIN}"
        )
    return facts


def known_of_table(table: pa.Table, place: str, galleries: object) -> KnownPositives:
    """The known positives in the rows of one direction."""
    if lacking := [name for name in COLUMNS if name not in table.column_names]:
        raise MalformedRun(f"{place}: lacks the columns {', '.join(lacking)} of a run file; {KEEP_AGAIN}")
    if not isinstance(galleries, list) or not galleries or not all(isinstance(name, str) for name in galleries):
        raise MalformedRun(f"{place}: its galleries are {shorten(galleries)}, not a list of hashes; {KEEP_AGAIN}")
    bounds, items = list_values(table, "positive_ids", place)
    of_rows, gallery = list_values(table, "gallery", place)
    width = int(of_rows[1])
    n_counts = np.diff(bounds) * width
    counts = []
    for name in ("above", "tied"):
        starts, values = list_values(table, name, place)
        if not np.array_equal(np.diff(starts), n_counts) or values.min(initial=0) < 0:
            raise MalformedRun(
                f"{place}, column {name}: needs {width} counts of at least 0 for each positive; {KEEP_AGAIN}"
            )
        counts.append(values.reshape(items.size, width))
    fits = width > 0 and gallery.size == width * table.num_rows
    chosen = gallery.reshape(-1, width) if fits else np.empty((0, 0), dtype=np.int64)
    if not chosen.size or np.any(np.diff(of_rows) != width) or chosen.min() < -1 or chosen.max() >= len(galleries):
        raise MalformedRun(f"{place}, column gallery: does not name one of {len(galleries)} galleries; {KEEP_AGAIN}")
    rising = np.append(True, items[1:] > items[:-1])[: items.size]
    rising[bounds[:-1][np.diff(bounds) > 0]] = True
    if not rising.all():
        raise MalformedRun(f"{place}, column positive_ids: must increase within each query; {KEEP_AGAIN}")
    above, tied = counts
    return KnownPositives(bounds, items, above + tied, above, chosen, tuple(galleries))


def list_values(table: pa.Table, name: str, place: str, *, whole: bool = True) -> tuple[IntArray, NDArray[Any]]:
    """The boundaries and values of a column of lists, without nulls: whole numbers as int64, or floats."""
    column = table[name].combine_chunks()
    is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    fits = pa.types.is_integer if whole else pa.types.is_floating
    if not is_list or not fits(column.type.value_type):
        wanted = "whole numbers" if whole else "floating-point numbers"
        raise MalformedRun(f"{place}, column {name}: has type {column.type}, expected lists of {wanted}")
    values = pc.list_flatten(column)
    if column.null_count or values.null_count:
        raise MalformedRun(f"{place}, column {name}: has nulls; save the file again")
    bounds = np.append(0, np.cumsum(pc.list_value_length(column).to_numpy(zero_copy_only=False))).astype(np.int64)
    numbers: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return bounds, numbers.astype(np.int64, copy=False) if whole else numbers
