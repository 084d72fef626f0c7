"""Tables to Parquet shards: bounded row groups and files, the same bytes every time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq

from cxc_eccv.builders.summary import Shards
from cxc_eccv.builders.writing.manifest import sha256_of_file
from cxc_eccv.errors import DataError

__all__ = ["ROW_GROUP_BYTES", "SHARD_BYTES", "conform", "portable_schema", "row_groups", "write_shards"]

SHARD_BYTES = 300_000_000
"""A file is closed before it would hold more than this, uncompressed."""

ROW_GROUP_BYTES = 16_000_000
"""A reader that streams holds one row group in memory."""

ROW_GROUP_ROWS = 10_000


def portable_schema(features: datasets.Features) -> pa.Schema:
    """The Arrow schema of ``features``, described so that every release of ``datasets`` can read it.

    Releases from 4.0 name a list feature ``List``, which earlier ones do not know; all of them know the form
    ``[feature]``.
    """
    described = {"info": {"features": _plain_lists(features.to_dict())}}
    schema: pa.Schema = features.arrow_schema.with_metadata({"huggingface": json.dumps(described)})
    return schema


def conform(table: pa.Table, features: datasets.Features, name: str) -> pa.Table:
    """``table`` in one piece, with exactly the columns and types of ``features``; ``name`` says whose rows they are.

    Raises:
        DataError: other columns, or values that do not fit.
    """
    if table.column_names != list(features):
        raise DataError(f"{name}: the rows have the columns {table.column_names}, the features {list(features)}")
    try:
        # One chunk per column: how the rows were put together must not show in the file.
        return table.cast(portable_schema(features)).combine_chunks()
    except pa.ArrowInvalid as error:
        raise DataError(f"{name}: the rows do not fit the features: {error}") from None


def row_groups(table: pa.Table) -> Iterator[pa.Table]:
    """Slices of at most 10,000 rows and about 16 MB.

    Example:
        >>> [group.num_rows for group in row_groups(pa.table({"n": range(25_000)}))]
        [10000, 10000, 5000]
    """
    rows = min(ROW_GROUP_ROWS, max(1, ROW_GROUP_BYTES * table.num_rows // max(1, table.nbytes)))
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


def write_shards(groups: Iterable[pa.Table], folder: Path, split: str, shard_bytes: int = SHARD_BYTES) -> Shards:
    """Write ``<split>-00000-of-0000N.parquet`` files of ``shard_bytes`` uncompressed at most.

    Each table of ``groups`` becomes one row group; there is at least one, and all have one schema.
    """
    parts: list[Path] = []
    writer, room, num_rows, num_bytes = None, 0, 0, 0
    for group in groups:
        if writer is None or group.nbytes > room:
            if writer is not None:
                writer.close()
            parts.append(folder / f"{split}-{len(parts):05d}.part")
            writer = pq.ParquetWriter(parts[-1], group.schema, compression="zstd", write_page_checksum=True)
            room = shard_bytes
        writer.write_table(group, row_group_size=group.num_rows)
        room, num_rows, num_bytes = room - group.nbytes, num_rows + group.num_rows, num_bytes + group.nbytes
    if writer is not None:
        writer.close()
    files = [part.rename(folder / f"{split}-{n:05d}-of-{len(parts):05d}.parquet") for n, part in enumerate(parts)]
    sizes, hashes = (file.stat().st_size for file in files), (sha256_of_file(file) for file in files)
    return Shards(tuple(file.name for file in files), num_rows, num_bytes, tuple(sizes), tuple(hashes))


def _plain_lists(described: Any) -> Any:  # noqa: ANN401 - a JSON tree
    if not isinstance(described, dict):
        return described
    if described.get("_type") == "List" and described.get("length", -1) == -1:
        return [_plain_lists(described["feature"])]
    return {key: _plain_lists(value) for key, value in described.items()}
