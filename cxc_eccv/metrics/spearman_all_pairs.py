"""Spearman over all rated pairs at once."""

from __future__ import annotations

import numpy as np

from cxc_eccv.metrics.bootstrap_spearman import CodedPairs
from cxc_eccv.metrics.kinds import RatedMetric
from cxc_eccv.types import FloatArray, RatedPairs


def spearman_all_pairs(pairs: RatedPairs, similarities: FloatArray) -> FloatArray:
    """Spearman correlation of ratings and similarities over all rated pairs.

    Ties get average ranks. The CxC paper reports ``bootstrap_spearman`` instead; here a query with many rated items
    weighs more.

    Args:
        pairs: P rated pairs.
        similarities: (P,) the model's similarity of each pair.

    Returns:
        () one correlation in [-1, 1].

    Raises:
        DataError: ratings are not finite, not one per pair, or all equal.
        MalformedRun: similarities are not finite, not one per pair, or all equal.

    References:
        Spearman, The Proof and Measurement of Association between Two Things, 1904.

    Example:
        >>> pairs = RatedPairs(np.array([1, 1, 2]), np.array([7, 8, 7]), np.array([5.0, 0.5, 1.0]))
        >>> spearman_all_pairs(pairs, np.array([0.9, 0.1, 0.3])).item()
        1.0
    """
    everything = np.arange(pairs.ratings.size)[None]
    return np.asarray(CodedPairs.of(pairs, similarities).spearman([everything])[0])


SPEC = RatedMetric(
    spearman_all_pairs,
    "spearman all pairs",
    citation="Spearman, American Journal of Psychology 15, 1904",
)
