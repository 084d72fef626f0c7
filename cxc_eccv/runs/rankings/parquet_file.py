"""Rankings in Parquet: a row per query and item, or a row per query with a list of items."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cxc_eccv.errors import InvalidOption, MalformedRun, UnknownName
from cxc_eccv.runs.checks import sha256_of
from cxc_eccv.runs.parquet import read_parquet
from cxc_eccv.runs.rankings.ranked_lists import RankedLists, narrowed
from cxc_eccv.runs.rankings.rankings import direction_of
from cxc_eccv.runs.rankings.trec_file import LongForm
from cxc_eccv.types import DIRECTIONS

__all__ = ["read_rankings_parquet"]

FORMS = "query_id, direction, rank, item_id or query_id, direction, item_ids"


def read_rankings_parquet(path: Path, direction: str | None = None) -> dict[str, RankedLists]:
    """Direction to its rankings.

    Args:
        path: a file with integer columns ``query_id``, ``rank``, ``item_id`` and at will ``score``, or ``query_id``
            and a list column ``item_ids``; and a text column ``direction`` unless its name says the direction.
        direction: of a file without that column.

    Raises:
        MalformedRun: unreadable, a column that is missing, of another type or with nulls, or rankings as
            :class:`RankedLists` refuses them.
        UnknownName: a direction other than ``i2t``, ``t2i``, ``t2t``, ``i2i``.
        InvalidOption: ``direction`` is given although the file has the column.

    Example:
        >>> import tempfile
        >>> import pyarrow.parquet as pq
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "run.parquet"
        ...     pq.write_table(pa.table({"query_id": [30], "direction": ["t2i"], "item_ids": [[5, 6]]}), path)
        ...     read_rankings_parquet(path)["t2i"].items.tolist()
        [5, 6]
    """
    table = _table(path)
    make = _listed if "item_ids" in table.column_names else _long
    origin = {"path": path, "sha256": sha256_of(path)}
    if "direction" not in table.column_names:
        only = direction_of(path, direction)
        return {only: make(table, f"{path}, {only}", origin)}
    if direction is not None:
        raise InvalidOption(f"{path}: has a column of directions; leave out direction")
    names = _column(path, table, "direction", lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind))
    found = pc.unique(names).to_pylist()
    for name in found:
        if name not in DIRECTIONS:
            raise UnknownName(f"direction in {path}, column direction:", name, DIRECTIONS)
    return {name: make(table.filter(pc.equal(names, name)), f"{path}, {name}", origin) for name in found}


def _table(path: Path) -> pa.Table:
    try:
        table = read_parquet(path)
    except pa.ArrowInvalid as error:
        raise MalformedRun(f"{path}: not readable Parquet ({error}); it may be cut short, save it again") from None
    if not table.num_rows:
        raise MalformedRun(f"{path}: has no rows; it needs the columns {FORMS}")
    return table


def _column(path: str | Path, table: pa.Table, name: str, fits: Any, wanted: str = "text") -> pa.Array:  # noqa: ANN401
    if name not in table.column_names:
        raise MalformedRun(f"{path}: has the columns {', '.join(table.column_names)}; needs {FORMS}")
    column = table[name].combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not fits(column.type):
        raise MalformedRun(f"{path}, column {name}: has type {column.type}, expected {wanted}")
    if column.null_count:
        row = column.is_null().index(True).as_py()
        raise MalformedRun(f"{path}, column {name}: has no value in row {row} and {column.null_count} in all")
    return column


def _whole(place: str, table: pa.Table, name: str) -> NDArray[Any]:
    column = _column(place, table, name, pa.types.is_integer, "whole numbers, the COCO ids")
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    if values.dtype == np.uint64 and values.max() > np.iinfo(np.int64).max:
        raise MalformedRun(
            f"{place}, column {name}: id {values.max()} does not fit 64 bits with a sign; use the COCO ids"
        )
    return values.astype(np.int64, copy=False)


def _long(table: pa.Table, place: str, origin: dict[str, Any]) -> RankedLists:
    queries, items, ranks = (_whole(place, table, name) for name in ("query_id", "item_id", "rank"))
    scores = None
    if "score" in table.column_names:
        score = _column(place, table, "score", pa.types.is_floating, "floating-point numbers")
        scores = score.to_numpy(zero_copy_only=False).astype(np.float64)
    return LongForm(queries, items, ranks, scores).lists(place, **origin)


def _listed(table: pa.Table, place: str, origin: dict[str, Any]) -> RankedLists:
    lists = _column(place, table, "item_ids", _is_list, "lists of whole numbers, the COCO ids")
    items = pa.table({"item_ids": pc.list_flatten(lists)})
    indptr = np.append(0, np.cumsum(pc.list_value_length(lists).to_numpy(zero_copy_only=False)))
    return RankedLists(
        _whole(place, table, "query_id"),
        indptr.astype(np.int64),
        narrowed(_whole(place, items, "item_ids")),
        place=place,
        **origin,
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
