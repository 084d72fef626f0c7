"""The value of every query as a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from cxc_eccv.evaluation.scoring import Scored

__all__ = ["SCHEMA", "per_query_table"]

NAME = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
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

    Args:
        scored: metrics of directions.

    Returns:
        ``query_id``, ``task``, ``direction``, ``metric``, ``value``, ``best_rank`` (of the query's best positive; null
        where none was found or no positives are ranked), ``cluster`` (the image behind the query, by which intervals
        resample).
    """
    return pa.Table.from_batches([_rows(one) for one in scored], schema=SCHEMA)


def _rows(scored: Scored) -> pa.RecordBatch:
    values, result = scored.values, scored.result
    size = values.query_ids.size
    best = np.zeros(size, dtype=np.int64) if values.best_ranks is None else values.best_ranks
    names = [_repeated(name, size) for name in (result.task, result.direction, result.metric)]
    columns = [
        pa.array(values.query_ids),
        *names,
        pa.array(values.values),
        pa.array(best, mask=best == 0),
        pa.array(scored.clusters),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _repeated(name: str, size: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(size, dtype=np.int32)), [name])
