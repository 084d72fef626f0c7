"""Per-query values of a report, as evaluate keeps them and writes to per_query.parquet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.errors import MalformedSource
from cxc_eccv.runs.parquet import read_parquet
from cxc_eccv.types import FloatArray, IntArray

__all__ = ["QueryValues", "query_values", "read_query_values"]

COLUMNS = {
    "query_id": pa.int64(),
    "task": pa.string(),
    "direction": pa.string(),
    "metric": pa.string(),
    "value": pa.float64(),
}
CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, eq=False)
class QueryValues:
    """One metric's value for every query.

    Attributes:
        query_ids: (Q,) int64, ascending and unique.
        values: (Q,) float64, finite.
        clusters: (Q,) int64 id of the image behind each query, or None where unknown.

    Example:
        >>> QueryValues.of([8, 7], [0.0, 1.0]).query_ids.tolist()
        [7, 8]
    """

    query_ids: IntArray
    values: FloatArray
    clusters: IntArray | None = None

    def __post_init__(self) -> None:
        if not np.isfinite(self.values).all():
            raise ValueError(f"a value of query {self.query_ids[~np.isfinite(self.values)][0]} that is not finite")
        repeated = np.diff(self.query_ids) == 0
        if repeated.any():
            raise ValueError(f"query {self.query_ids[1:][repeated][0]} twice")

    @classmethod
    def of(cls, query_ids: object, values: object, clusters: object = None) -> QueryValues:
        """Values in any order of the queries.

        Raises:
            ValueError: a query twice, or a value that is not finite.
        """
        ids = np.asarray(query_ids, dtype=np.int64)
        order = np.argsort(ids, kind="stable")
        images = None if clusters is None else np.asarray(clusters, dtype=np.int64)[order]
        return cls(ids[order], np.asarray(values, dtype=np.float64)[order], images)


def query_values(table: pa.Table, source: str | Path) -> dict[str, QueryValues]:
    """``task/direction/metric`` to the values of its queries.

    Args:
        table: with the columns ``query_id`` (int64), ``task``, ``direction``, ``metric`` (string), ``value``
            (float64), and optionally ``cluster`` (int64), the image behind each query. Others are ignored.
        source: where the table is from, for messages.

    Raises:
        MalformedSource: a column is missing, of another type, or holds a null; a query has two values of one metric,
            or one that is not finite.

    Example:
        >>> rows = {"query_id": [2, 1], "task": ["cxc"] * 2, "direction": ["t2t"] * 2, "metric": ["mrr"] * 2}
        >>> query_values(pa.table(rows | {"value": [0.5, 1.0]}), "memory")["cxc/t2t/mrr"].values.tolist()
        [1.0, 0.5]
    """
    checked = _checked(table, source)
    keys = pc.binary_join_element_wise(checked["task"], checked["direction"], checked["metric"], "/")
    encoded = keys.combine_chunks().dictionary_encode()
    codes = encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(encoded.dictionary) + 1))
    names = ("query_id", "value", CLUSTER)
    columns = [checked[name].to_numpy() if name in checked.column_names else None for name in names]
    found = {}
    for key, start, stop in zip(encoded.dictionary.to_pylist(), bounds[:-1], bounds[1:], strict=True):
        rows = order[start:stop]
        try:
            found[key] = QueryValues.of(*(None if column is None else column[rows] for column in columns))
        except ValueError as error:
            raise MalformedSource(source, key, error, "one finite value per query") from None
    return found


def read_query_values(path: Path) -> pa.Table:
    """The table of a Parquet file.

    Raises:
        MalformedSource: not a readable Parquet file.
    """
    try:
        return read_parquet(path)
    except pa.ArrowInvalid as error:
        raise MalformedSource(path, "", f"no readable Parquet file ({error})", "what evaluate --output wrote") from None


def _checked(table: pa.Table, source: str | Path) -> pa.Table:
    wanted = COLUMNS | ({CLUSTER: pa.int64()} if CLUSTER in table.column_names else {})
    for name, kind in wanted.items():
        if name not in table.column_names:
            raise MalformedSource(source, "", f"the columns {', '.join(table.column_names)}", f"{name} among them")
        column = table[name]
        decoded = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if decoded != kind and not (kind == pa.string() and pa.types.is_large_string(decoded)):
            raise MalformedSource(source, f"column {name}", column.type, str(kind))
        if column.null_count:
            raise MalformedSource(source, f"column {name}", f"{column.null_count} nulls", "none")
    return table.select(list(wanted)).cast(pa.schema(wanted))
