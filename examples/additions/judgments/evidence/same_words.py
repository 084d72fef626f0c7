"""Same words: a caption fits every image that has a caption of the same words."""

import numpy as np

from cxc_eccv.judgments.evidence.source import Evidence, Source, Thresholds, co_captions
from cxc_eccv.sources.library import Split


def evidence(split: Split, direction: str, thresholds: Thresholds) -> Evidence | None:
    """Images with captions that have the words of one of their own, whatever their order."""
    if direction not in ("i2t", "t2i"):
        return None
    words = [" ".join(sorted(text.lower().split())) for text in split.captions["text"].to_pylist()]
    left, right = co_captions(np.unique(words, return_inverse=True)[1])
    images, captions = split.caption_image_ids[left], split.caption_ids[right]
    queries, items = (images, captions) if direction == "i2t" else (captions, images)
    return Evidence.of(queries, items)


SOURCE = Source(
    name="same_words",
    title="same words",
    description="Captions of the same words as an image's own, for the queries of these pairs.",
    order=15,
    rule=lambda direction, thresholds: "a caption of the same words",
    evidence=evidence,
    groups=("karpathy",),
    lists_positives=True,
    yes="same words",
)
