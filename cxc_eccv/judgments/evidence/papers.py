"""Labels of the papers: links of MS-COCO, ratings of Crisscrossed Captions, and positives of ECCV Caption.

MS-COCO links a caption to the image that it was written for. Annotators of Crisscrossed Captions rated pairs from 0 to
5. Models proposed the positives of ECCV Caption and people verified them, with separate queries per direction.
"""

from __future__ import annotations

import numpy as np

from cxc_eccv.judgments.evidence.source import KIND, Evidence, Source, Thresholds, item_ids
from cxc_eccv.sources.library import Library
from cxc_eccv.types import FloatArray, IntArray, positions_of
from cxc_eccv.types.ids import distinct_of


def _coco_evidence(library: Library, split: str, direction: str, _thresholds: Thresholds) -> Evidence | None:
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


COCO = Source(
    name="coco",
    title="COCO",
    order=10,
    rule=lambda direction, _thresholds: "captions of one image" if direction == "t2t" else "original link",
    evidence=_coco_evidence,
    groups=("karpathy",),
    lists_positives=True,
    yes="COCO link",
)


def _cxc_evidence(library: Library, split: str, direction: str, thresholds: Thresholds) -> Evidence | None:
    """All rated pairs of the direction; positive if the rating reaches the threshold."""
    if split not in ("validation", "test"):
        return None
    table = library.cxc(KIND[direction], split)
    left, right, ratings = (np.asarray(table[name]) for name in ("left_id", "right_id", "rating"))
    threshold = thresholds.of_direction(direction)
    if direction == "i2t":  # SITS rows are (caption, image)
        return Evidence.of(right, left, ratings >= threshold, ratings)
    if direction == "t2i":
        return Evidence.of(left, right, ratings >= threshold, ratings)
    return _both_orders(left, right, ratings, threshold)


def _both_orders(left: IntArray, right: IntArray, ratings: FloatArray, threshold: float) -> Evidence:
    """Both orders of every pair; positive if either rating reaches the threshold."""
    ids = distinct_of(np.concatenate([left, right]))
    first, second = positions_of(left, ids)[0], positions_of(right, ids)[0]
    both = np.concatenate([first * ids.size + second, second * ids.size + first])
    keys, occurrence = np.unique(both, return_inverse=True)
    forward, reverse = np.full(keys.size, np.nan), np.full(keys.size, np.nan)
    forward[occurrence[: left.size]] = ratings
    reverse[occurrence[left.size :]] = ratings
    positive = np.fmax(forward, reverse) >= threshold
    return Evidence.of(ids[keys // ids.size], ids[keys % ids.size], positive, forward, reverse)


CXC = Source(
    name="cxc",
    title="CxC",
    order=20,
    rule=lambda direction, thresholds: f"{KIND[direction]} >= {thresholds.of_direction(direction):g}",
    evidence=_cxc_evidence,
    groups=("cxc",),
    yes="CxC {ratings}",
    no="CxC {ratings}",
)


def _eccv_evidence(library: Library, split: str, direction: str, _thresholds: Thresholds) -> Evidence | None:
    """The verified positives of the direction whose items are in the split."""
    if split != "test" or direction not in ("i2t", "t2i"):
        return None
    table = library.eccv("eccv", direction)
    queries, items = np.asarray(table["query_id"]), np.asarray(table["item_id"])
    reachable = positions_of(items, item_ids(library, "test", direction)[1])[1]
    left_out = {}
    if not reachable.all():
        left_out["ECCV Caption positives outside the split's captions"] = int((~reachable).sum())
    return Evidence.of(queries[reachable], items[reachable], left_out=left_out)


ECCV = Source(
    name="eccv",
    title="ECCV",
    order=30,
    rule=lambda _direction, _thresholds: "verified positive",
    evidence=_eccv_evidence,
    groups=("eccv_caption",),
    lists_positives=True,
    yes="ECCV positive",
)

SOURCES = (COCO, CXC, ECCV)
