"""MS-COCO: a caption belongs to the image that it was written for."""

from __future__ import annotations

import numpy as np

from cxc_eccv.judgments.evidence.source import Evidence, Source, Thresholds
from cxc_eccv.sources.library import Library
from cxc_eccv.types import IntArray


def evidence(library: Library, split: str, direction: str, _thresholds: Thresholds) -> Evidence | None:
    """The original links; for t2t, captions of the same image."""
    content = library.karpathy(split)
    captions, images = content.caption_ids, content.caption_image_ids
    if direction == "i2t":
        return Evidence.of(images, captions)
    if direction == "t2i":
        return Evidence.of(captions, images)
    if direction == "t2t":
        left, right = co_captions(images)
        return Evidence.of(captions[left], captions[right])
    return None


def co_captions(groups: IntArray) -> tuple[IntArray, IntArray]:
    """Positions of all ordered pairs of different members of the same group."""
    order = np.argsort(groups, kind="stable")
    _, starts, sizes = np.unique(groups[order], return_index=True, return_counts=True)
    per_member = np.repeat(sizes, sizes)
    left = np.repeat(np.arange(groups.size), per_member)
    within = np.arange(left.size) - np.repeat(np.cumsum(per_member) - per_member, per_member)
    right = np.repeat(np.repeat(starts, sizes), per_member) + within
    keep = left != right
    return order[left[keep]], order[right[keep]]


SOURCE = Source(
    name="coco",
    title="COCO",
    order=10,
    rule=lambda direction, _thresholds: "captions of one image" if direction == "t2t" else "original link",
    evidence=evidence,
    groups=("karpathy",),
    lists_positives=True,
    yes="COCO link",
)
