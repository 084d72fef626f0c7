"""The table of shown queries and their retrieved items, ``examples.parquet``."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["SCHEMA", "no_examples", "reason_of"]

SCHEMA = pa.schema(
    [
        ("direction", pa.string()),
        ("group", pa.string()),  # label_dependent, worst or plain
        ("query_id", pa.int64()),
        ("query_file", pa.string()),  # of an image; null for a caption
        ("query_texts", pa.list_(pa.string())),  # the caption, or all captions of the image
        ("coco_rank", pa.int64()),  # best rank under the original links; null where they do not judge it, or not found
        ("best_rank", pa.int64()),  # best rank under all labels; null where not found
        ("rank", pa.int64()),
        ("item_id", pa.int64()),
        ("item_file", pa.string()),
        ("item_texts", pa.list_(pa.string())),
        ("score", pa.float64()),  # null where a ranking came without scores
        ("positive", pa.bool_()),  # any source says so
        ("coco", pa.bool_()),  # null where a source says nothing of the pair, here and below
        ("cxc", pa.bool_()),
        ("eccv", pa.bool_()),
        ("entailment", pa.bool_()),
        ("cxc_rating", pa.float64()),
        ("cxc_reverse", pa.float64()),  # image pairs: the rating given in the other order
        ("same_categories", pa.bool_()),  # plausible match at zeta 0
    ]
)
"""One row per shown query and retrieved item."""

REASON = b"reason"


def no_examples(reason: str) -> pa.Table:
    """An empty table that says why it is empty.

    Example:
        >>> no_examples("the report was made from ranks alone").schema.metadata
        {b'reason': b'the report was made from ranks alone'}
    """
    return SCHEMA.with_metadata({REASON: reason}).empty_table()


def reason_of(table: pa.Table) -> str:
    """Why a table of examples is empty; an empty text where it is not.

    Example:
        >>> reason_of(no_examples("rankings of one item"))
        'rankings of one item'
    """
    if table.num_rows:
        return ""
    return ((table.schema.metadata or {}).get(REASON) or b"none were kept").decode()
