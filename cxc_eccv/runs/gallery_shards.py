"""Shards of a gallery in Parquet: a column ``id``, and a column ``embedding`` of lists of equal length."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cxc_eccv.damage import refuse_damaged_run
from cxc_eccv.errors import DataError, MalformedRun, MissingIds
from cxc_eccv.parquet import read_parquet
from cxc_eccv.types import Embeddings, IntArray, Judgments
from cxc_eccv.types.ids import check_ids, check_vector_type

SHARD_COLUMNS = ("id", "embedding")


def make_shard(ids: IntArray, vectors: NDArray[Any]) -> pa.Table:
    """The table of a shard, from (C,) ids and (C, D) float16, float32 or float64 vectors.

    Example:
        >>> table = make_shard(np.array([7, 8]), np.eye(2, dtype=np.float16))
        >>> table.schema.names, str(table.schema.types[1])
        (['id', 'embedding'], 'fixed_size_list<item: halffloat>[2]')
    """
    check_vector_type("a shard's vectors", vectors.dtype)
    if vectors.ndim != 2 or len(vectors) != ids.size:
        raise MalformedRun(f"a shard of {ids.size} ids has vectors of shape {vectors.shape}; need one row per id")
    flat = pa.array(np.ascontiguousarray(vectors).ravel())
    lists = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
    return pa.table([pa.array(ids), lists], names=[*SHARD_COLUMNS])


def read_shard(path: str | Path) -> tuple[IntArray, NDArray[Any]]:
    """Read (C,) ids and (C, D) vectors of a Parquet file, for :meth:`~cxc_eccv.ranking.LargeGallery.count`.

    Vectors keep the type of the file: float16, float32 or float64.

    Raises:
        MalformedRun: the file is damaged, lacks a column, or has an empty entry, a repeated id or vectors of different
            lengths.
    """
    path = Path(path)
    with refuse_damaged_run(path):
        table = read_parquet(path)
    missing = [name for name in SHARD_COLUMNS if name not in table.column_names]
    if missing:
        raise MalformedRun(f"{path}: has the columns {table.column_names}; needs {' and '.join(SHARD_COLUMNS)}")
    for name in SHARD_COLUMNS:
        if table[name].null_count:
            raise MalformedRun(f"{path}, {name}: {table[name].null_count} rows are empty; leave these items out")
    ids = check_ids(path, "id", table["id"].to_numpy())
    return ids, _read_vectors(path, table["embedding"])


def find_positives(paths: Iterable[str | Path], judgments: Judgments) -> Embeddings:
    """The vectors of all positives, from the shards of the gallery, which are read one by one.

    Raises:
        MalformedRun: a shard cannot be read, see :func:`read_shard`.
        MissingIds: a positive is in no shard.
        DataError: a positive is in two shards.
    """
    wanted = judgments.gallery_ids[np.unique(judgments.indices)]
    ids_of_shards: list[IntArray] = []
    vectors_of_shards: list[NDArray[Any]] = []
    for path in paths:
        ids, vectors = read_shard(path)
        rows = np.flatnonzero(np.isin(ids, wanted))
        ids_of_shards.append(ids[rows])
        vectors_of_shards.append(vectors[rows])
    ids = np.concatenate([wanted[:0], *ids_of_shards])
    missing = np.setdiff1d(wanted, ids)
    if missing.size:
        raise MissingIds(f"{missing.size} of {wanted.size} positives are in no shard, the first: {missing[0]}")
    if ids.size > wanted.size:
        raise DataError("two shards have positives in common; every item must be in one shard")
    return Embeddings(ids, np.concatenate(vectors_of_shards))


def _read_vectors(path: Path, lists: pa.ChunkedArray) -> NDArray[Any]:
    kind = lists.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        raise MalformedRun(f"{path}, embedding: has type {kind}, expected lists of float16, float32 or float64")
    check_vector_type(f"{path}, embedding", np.dtype(kind.value_type.to_pandas_dtype()))
    widths = pc.unique(pc.list_value_length(lists)).to_pylist()
    if len(widths) != 1 or not widths[0]:
        raise MalformedRun(f"{path}, embedding: has vectors of {sorted(widths)} numbers; all need the same")
    parts = [chunk.flatten() for chunk in lists.chunks]
    empty = sum(part.null_count for part in parts)
    if empty:
        raise MalformedRun(f"{path}, embedding: {empty} numbers are empty; encode these items again")
    # One chunk is not copied; a list array of all chunks may exceed what its offsets can count.
    arrays = [part.to_numpy() for part in parts]
    numbers = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    return numbers.reshape(len(lists), widths[0])
