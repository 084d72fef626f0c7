"""Lengths: how many words each caption has."""

import pyarrow as pa
from datasets import Value

from cxc_eccv.builders.dataset_config import BuildOptions, DatasetConfig, Rows
from cxc_eccv.sources.library import Split


def rows(split: Split, options: BuildOptions) -> Rows:
    """One row per caption, with the number of its words."""
    table = split.captions
    lengths = [len(text.split()) for text in table["text"].to_pylist()]
    return Rows(pa.table({"caption_id": table["caption_id"], "words": pa.array(lengths, pa.int64())}))


CONFIG = DatasetConfig(
    name="lengths",
    title="Lengths of captions",
    description="One row per caption.",
    collection="Counted from MS-COCO's captions.",
    columns={
        "caption_id": (Value("int64"), "COCO caption id"),
        "words": (Value("int64"), "words between blanks"),
    },
    splits=("validation", "test"),
    rows=rows,
    sources=("karpathy",),
)
