"""The table of shown queries and their retrieved items, ``examples.parquet``."""

from __future__ import annotations

import pyarrow as pa

from cxc_eccv.judgments.evidence import label_sources

__all__ = ["LEAST_SCHEMA", "SCHEMA", "no_examples", "reason_of", "with_every_source"]

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
        *(
            (source, pa.bool_()) for source in label_sources()
        ),  # null where one says nothing of the pair, here and below
        ("cxc_rating", pa.float64()),
        ("cxc_reverse", pa.float64()),  # image pairs: the rating given in the other order
        ("same_categories", pa.bool_()),  # plausible match at zeta 0
    ]
)
"""One row per shown query and retrieved item."""

LEAST_SCHEMA = pa.schema([field for field in SCHEMA if field.name not in label_sources()])
"""What a table has that was written before the latest source of labels was declared."""

REASON = b"reason"


def no_examples(reason: str) -> pa.Table:
    """An empty table that says why it is empty.

    Example:
        >>> no_examples("the report was made from ranks alone").schema.metadata
        {b'reason': b'the report was made from ranks alone'}
    """
    return SCHEMA.with_metadata({REASON: reason}).empty_table()


def with_every_source(table: pa.Table) -> pa.Table:
    """A table that is written with fewer sources of labels: the others say nothing of its pairs.

    Example:
        >>> older = no_examples("none").drop_columns("entailment")
        >>> with_every_source(older).column_names == SCHEMA.names
        True
    """
    absent = [name for name in SCHEMA.names if name not in table.column_names]
    for name in absent:
        table = table.append_column(name, pa.nulls(table.num_rows, SCHEMA.field(name).type))
    return table.select(SCHEMA.names)


def reason_of(table: pa.Table) -> str:
    """Why a table of examples is empty; an empty text where it is not.

    Example:
        >>> reason_of(no_examples("rankings of one item"))
        'rankings of one item'
    """
    if table.num_rows:
        return ""
    return ((table.schema.metadata or {}).get(REASON) or b"none were kept").decode()
