"""Write tables as Parquet shards of one row group; the same table gives the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cxc_eccv.builders.summary import Shards
from cxc_eccv.errors import DataError
from cxc_eccv.runs.checks import hash_file

SHARD_BYTES = 100_000_000
"""Most bytes of a file, uncompressed: the size of the row groups that ``datasets`` writes.

A file has one row group: a process that streams a few rows and ends, while Arrow's threads read further groups, aborts
with "terminate called without an active exception" (apache/arrow#45214, huggingface/datasets#7467).
"""


def portable_schema(features: datasets.Features) -> pa.Schema:
    """The Arrow schema of ``features`` with lists as ``[feature]``, since ``datasets`` before 4.0 has no ``List``."""
    described = {"info": {"features": _plain_lists(features.to_dict())}}
    schema: pa.Schema = features.arrow_schema.with_metadata({"huggingface": json.dumps(described)})
    return schema


def conform(table: pa.Table, features: datasets.Features, name: str) -> pa.Table:
    """``table`` in one chunk, with exactly the columns and types of ``features``; errors use ``name``."""
    if table.column_names != list(features):
        raise DataError(f"{name}: the rows have the columns {table.column_names}, the features {list(features)}")
    for column, feature in features.items():
        if isinstance(feature, datasets.ClassLabel) and pa.types.is_string(table.schema.field(column).type):
            codes = _label_codes(table[column], feature.names, f"{name}, column {column!r}")
            table = table.set_column(table.column_names.index(column), column, codes)
    try:
        # One chunk per column, so that the file does not depend on how the rows were made.
        return table.cast(portable_schema(features)).combine_chunks()
    except pa.ArrowInvalid as error:
        raise DataError(f"{name}: the rows do not fit the features: {error}") from None


def _label_codes(column: pa.ChunkedArray, names: list[str], place: str) -> pa.ChunkedArray:
    codes = pc.index_in(column, value_set=pa.array(names, pa.string()))
    unknown = pc.unique(column.filter(pc.is_null(codes))).drop_null().to_pylist()
    if unknown:
        raise DataError(f"{place}: {unknown[0]!r} is not one of its labels, {', '.join(names)}")
    return codes


def row_groups(table: pa.Table) -> Iterator[pa.Table]:
    """Slices of about 100 MB at most."""
    rows = max(1, SHARD_BYTES * table.num_rows // max(1, table.nbytes))
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


def write_shards(tables: Iterable[pa.Table], folder: Path, split: str, shard_bytes: int = SHARD_BYTES) -> Shards:
    """Write files ``<split>-00000-of-0000N.parquet`` of one row group, each of at most ``shard_bytes`` uncompressed."""
    parts: list[Path] = []
    num_rows = num_bytes = 0
    for group in _join(tables, shard_bytes):
        parts.append(folder / f"{split}-{len(parts):05d}.part")
        with pq.ParquetWriter(parts[-1], group.schema, compression="zstd", write_page_checksum=True) as writer:
            writer.write_table(group, row_group_size=group.num_rows)
        num_rows, num_bytes = num_rows + group.num_rows, num_bytes + group.nbytes
    files = [part.rename(folder / f"{split}-{n:05d}-of-{len(parts):05d}.parquet") for n, part in enumerate(parts)]
    sizes, hashes = (file.stat().st_size for file in files), (hash_file(file) for file in files)
    return Shards(tuple(file.name for file in files), num_rows, num_bytes, tuple(sizes), tuple(hashes))


def _join(tables: Iterable[pa.Table], size: int) -> Iterator[pa.Table]:
    """Join consecutive tables up to ``size`` bytes."""
    pending: list[pa.Table] = []
    for table in tables:
        if pending and sum(part.nbytes for part in pending) + table.nbytes > size:
            yield pa.concat_tables(pending)
            pending = []
        pending.append(table)
    if pending:
        yield pa.concat_tables(pending)


def _plain_lists(described: Any) -> Any:  # noqa: ANN401 - a JSON tree
    if not isinstance(described, dict):
        return described
    if described.get("_type") == "List" and described.get("length", -1) == -1:
        return [_plain_lists(described["feature"])]
    return {key: _plain_lists(value) for key, value in described.items()}
