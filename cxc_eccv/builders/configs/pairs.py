"""Config ``pairs``: image-caption pairs for training, with weak positives and judged negatives."""

import numpy as np
import pyarrow as pa
from datasets import Value
from numpy.typing import NDArray

from cxc_eccv.builders import lookup
from cxc_eccv.builders.config import BuildOptions, DatasetConfig, Rows, columns
from cxc_eccv.judgments.evidence import label_sources
from cxc_eccv.judgments.qrels import MergedPairs, merge
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
        **_judged_captions(library, split, options),
    }
    return Rows(pa.table(columns))


def _judged_captions(library: Library, split: str, options: BuildOptions) -> dict[str, pa.ListArray]:
    """Per caption: the captions of other images that are positives of its image, and those judged negative."""
    merged = merge(library, split, "i2t", policy=options.policy, thresholds=options.thresholds)
    of_same_image = library.karpathy(split).caption_image_ids[merged.items] == merged.query_ids[merged.queries]
    positive, negative = merged.positive & ~of_same_image, ~merged.positive & ~of_same_image
    return {
        "weak_positives": _lists(library, split, merged, positive, "sources", merged.said_positive),
        "judged_negatives": _lists(library, split, merged, negative, "judged_negative_by", merged.said_negative),
    }


def _lists(
    library: Library, split: str, merged: MergedPairs, keep: NDArray[np.bool_], column: str, said: NDArray[np.bool_]
) -> pa.ListArray:
    """Per caption: the kept captions of its image, with the sources that said so."""
    content = library.karpathy(split)
    ids = content.caption_ids[merged.items[keep]]
    columns = {
        "caption_id": ids,
        "caption": lookup.caption_texts(library, split, ids),
        column: lookup.subset_lists(said[keep], merged.sources),
    }
    of_images = lookup.struct_lists(np.bincount(merged.queries[keep], minlength=merged.query_ids.size), columns)
    return of_images.take(pa.array(positions_of(content.caption_image_ids, merged.query_ids)[0]))


CONFIG = DatasetConfig(
    name="pairs",
    title="Training pairs: image, caption, and weak positives",
    description="One row per caption with its image. `weak_positives` are captions of other images that, by some "
    "source, describe this image too. A loss should not use them as negatives and may use them as extra positives. "
    "`judged_negatives` are captions that people rejected: negatives that are sure.",
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
        judged_negatives=(
            [{"caption_id": Value("int64"), "caption": Value("string"), "judged_negative_by": [Value("string")]}],
            "captions of other images that people say do not describe this image, with the sources that say so",
        ),
    ),
    splits=("train", "restval", "validation", "test"),
    rows=rows,
    sources=tuple(dict.fromkeys(group for source in label_sources().values() for group in source.groups)),
    defects=("Only validation and test were re-annotated; training on them spoils every published comparison.",),
    example='print(dataset[0]["caption"], len(dataset[0]["weak_positives"]))',
)
