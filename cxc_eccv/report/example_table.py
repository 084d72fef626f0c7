"""The table of example queries, ``examples.parquet``."""

from __future__ import annotations

import pyarrow as pa

from cxc_eccv.judgments.evidence.source import official_sources

EXAMPLES_SCHEMA = pa.schema(
    [
        ("direction", pa.string()),
        ("group", pa.string()),  # label_dependent, worst or plain
        ("query_id", pa.int64()),
        ("query_file", pa.string()),  # of an image; null for a caption
        ("query_texts", pa.list_(pa.string())),  # the caption, or all captions of the image
        (
            "coco_rank",
            pa.int64(),
        ),  # best rank under the original links; null if they do not judge the query, or it is not found
        ("best_rank", pa.int64()),  # best rank under all labels; null if not found
        ("rank", pa.int64()),
        ("item_id", pa.int64()),
        ("item_file", pa.string()),
        ("item_texts", pa.list_(pa.string())),
        ("score", pa.float64()),  # null for rankings without scores
        ("positive", pa.bool_()),  # under any source
        # Here and below, null if a source does not judge the pair.
        *((source, pa.bool_()) for source in official_sources()),
        ("cxc_rating", pa.float64()),
        ("cxc_reverse", pa.float64()),  # image pairs: the rating given in the other order
        ("same_categories", pa.bool_()),  # plausible match at zeta 0
    ]
)
"""One row per query and retrieved item; reports on label files have a further column for each file."""

LABELS_COLUMN = "labels_"
"""Prefix of the columns of label files."""

REASON = b"reason"


def no_examples(reason: str) -> pa.Table:
    """An empty table with the reason why it is empty."""
    return EXAMPLES_SCHEMA.with_metadata({REASON: reason}).empty_table()
