"""Crisscrossed Captions: pairs that annotators rated from 0 to 5."""

from __future__ import annotations

import numpy as np

from cxc_eccv.judgments.evidence.source import KIND, Evidence, Source, Thresholds
from cxc_eccv.sources.library import Library
from cxc_eccv.types import FloatArray, IntArray, positions_of
from cxc_eccv.types.ids import distinct_of


def evidence(library: Library, split: str, direction: str, thresholds: Thresholds) -> Evidence | None:
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


SOURCE = Source(
    name="cxc",
    title="CxC",
    order=20,
    rule=lambda direction, thresholds: f"{KIND[direction]} >= {thresholds.of_direction(direction):g}",
    evidence=evidence,
    groups=("cxc",),
    yes="CxC {ratings}",
    no="CxC {ratings}",
)
