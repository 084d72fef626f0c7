"""Columns about the single ratings behind CxC's mean ratings."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from datasets import Value

from cxc_eccv.builders.config import Rows
from cxc_eccv.sources.library import Library

RATING_COLUMNS = {
    "rating_count": (Value("int64"), "number of single ratings, null without the file of single ratings"),
    "rating_std": (
        Value("float64"),
        "their population standard deviation (0 for one rating), null without that file",
    ),
}


def with_single_ratings(columns: dict[str, object], library: Library, kind: str, split: str) -> Rows:
    """Rows of CxC with the number and standard deviation of their single ratings; null without the file of these."""
    table, single = library.cxc(kind, split), library.annotators(kind, split)
    if single is None:
        unknown = {name: pa.nulls(table.num_rows, feature.pa_type) for name, (feature, _) in RATING_COLUMNS.items()}
        return Rows(pa.table(columns | unknown))
    pairs = np.concatenate([np.stack([part["left_id"], part["right_id"]], axis=1) for part in (table, single)])
    places = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
    row_of = np.full(places.max() + 1, -1)
    row_of[places[: table.num_rows]] = np.arange(table.num_rows)
    rows = row_of[places[table.num_rows :]]
    known, ratings = rows >= 0, np.asarray(single["rating"])
    rows, ratings = rows[known], ratings[known]
    count = np.bincount(rows, minlength=table.num_rows)
    least = np.maximum(count, 1)
    mean = np.bincount(rows, ratings, table.num_rows) / least
    std = np.sqrt(np.bincount(rows, (ratings - mean[rows]) ** 2, table.num_rows) / least)
    spread = {"rating_count": pa.array(count, mask=count == 0), "rating_std": pa.array(std, mask=count == 0)}
    left_out = int((~known).sum())
    rule = "single ratings of pairs without an aggregated one"
    return Rows(pa.table(columns | spread), {rule: left_out} if left_out else {})
