"""Kendall's tau-c of ratings and similarities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.metrics.kendall_tau_b import count_drawn, tau
from cxc_eccv.metrics.kinds import RatedMetric
from cxc_eccv.types import FloatArray, IntArray, RatedPairs


def kendall_tau_c(pairs: RatedPairs, similarities: FloatArray) -> FloatArray:
    """Kendall's tau-c of ratings and similarities over all rated pairs: CLIPScore's measure on Flickr8k-Expert.

    2 m (C - D) / ((m - 1) n^2) of n rows with C concordant and D discordant pairs, m being the smaller number of
    different values, mostly that of the ratings.

    Args:
        pairs: P rated pairs.
        similarities: (P,) the model's similarity of each pair.

    Returns:
        () one correlation in [-1, 1].

    Raises:
        DataError: ratings not finite, not one per pair, or all equal.
        MalformedRun: similarities not finite, not one per pair, or all equal.

    References:
        Hessel et al., CLIPScore, EMNLP 2021; ``scipy.stats.kendalltau(..., variant="c")``.

    Example:
        >>> pairs = RatedPairs(np.array([1, 1, 2]), np.array([7, 8, 7]), np.array([5.0, 0.5, 1.0]))
        >>> kendall_tau_c(pairs, np.array([0.9, 0.1, 0.3])).item()
        1.0
    """
    return tau(pairs, similarities, "c")


def sample_tau_c(pairs: RatedPairs, similarities: FloatArray, times: NDArray[np.integer], rows: IntArray) -> FloatArray:
    """(S,) tau-c where each pair is there as often as its cluster is drawn, as :func:`kendall_tau_b.sample_tau_b`."""
    surplus, size, groups = count_drawn(pairs, similarities, times, rows)
    fewest = np.array([_count_fewest(groups, weights) for weights in times])
    return np.asarray(2 * surplus * fewest / (size * (fewest - 1)))


def _count_fewest(groups: list[Any], weights: NDArray[np.integer]) -> int:
    """The smaller number of distinct values that are drawn, of ratings and similarities."""
    return min(int(np.count_nonzero(weights @ group)) for group in groups)


SPEC = RatedMetric(
    kendall_tau_c,
    "Kendall's tau-c",
    citation="Kendall, Biometrika 33(3), 1945; Hessel et al., EMNLP 2021, arXiv:2104.08718",
    samples=sample_tau_c,
    packages=("scipy",),
)
