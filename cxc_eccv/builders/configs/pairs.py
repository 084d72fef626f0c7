"""Config ``pairs``: image-caption pairs for training, with weak positives."""

import numpy as np
import pyarrow as pa
from datasets import Value

from cxc_eccv.builders import lookup
from cxc_eccv.builders.config import BuildOptions, DatasetConfig, Rows, columns
from cxc_eccv.judgments.evidence import label_sources
from cxc_eccv.judgments.qrels import merge
from cxc_eccv.sources.library import Library
from cxc_eccv.types import positions_of


def rows(library: Library, split: str, options: BuildOptions) -> Rows:
    """One row per caption, in Karpathy order."""
    content = library.karpathy(split)
    columns = {
        "image_id": content.caption_image_ids,
        "file_name": lookup.file_names(library, split, content.caption_image_ids),
        "caption_id": content.caption_ids,
        "caption": content.captions["text"],
        "weak_positives": _weak_positives(library, split, options),
    }
    return Rows(pa.table(columns))


def _weak_positives(library: Library, split: str, options: BuildOptions) -> pa.ListArray:
    """Per caption: the captions of other images that are positives of its image."""
    merged = merge(library, split, "i2t", policy=options.policy, thresholds=options.thresholds)
    content = library.karpathy(split)
    of_same_image = content.caption_image_ids[merged.items] == merged.query_ids[merged.queries]
    keep = merged.positive & ~of_same_image
    ids = content.caption_ids[merged.items[keep]]
    columns = {
        "caption_id": ids,
        "caption": lookup.caption_texts(library, split, ids),
        "sources": lookup.subset_lists(merged.said_positive[keep], merged.sources),
    }
    of_images = lookup.struct_lists(np.bincount(merged.queries[keep], minlength=merged.query_ids.size), columns)
    return of_images.take(pa.array(positions_of(content.caption_image_ids, merged.query_ids)[0]))


CONFIG = DatasetConfig(
    name="pairs",
    title="Training pairs: image, caption, and weak positives",
    description="One row per caption with its image. `weak_positives` are captions of other images that, by some "
    "source, describe this image too. A loss should not use them as negatives and may use them as extra positives.",
    collection="MS-COCO captions in Karpathy splits. Weak positives come from CxC, ECCV Caption and entailment labels "
    "where the split has them. The training splits have none: their lists are empty unless you mine weak positives.",
    **columns(
        image_id=(Value("int64"), "COCO image id"),
        file_name=(Value("string"), "its file name"),
        caption_id=(Value("int64"), "COCO caption id"),
        caption=(Value("string"), "its text"),
        weak_positives=(
            [{"caption_id": Value("int64"), "caption": Value("string"), "sources": [Value("string")]}],
            "captions of other images that describe this image too, with the sources that say so",
        ),
    ),
    splits=("train", "restval", "validation", "test"),
    rows=rows,
    sources=tuple(dict.fromkeys(group for source in label_sources().values() for group in source.groups)),
    defects=("Only validation and test were re-annotated; training on them spoils every published comparison.",),
    example='print(dataset[0]["caption"], len(dataset[0]["weak_positives"]))',
)
