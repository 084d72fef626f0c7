"""Kendall's tau-b of ratings and similarities, and the resampling of both variants."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.metrics.bootstrap_spearman import CodedPairs
from cxc_eccv.metrics.kinds import RatedMetric
from cxc_eccv.types import FloatArray, IntArray, RatedPairs


def kendall_tau_b(pairs: RatedPairs, similarities: FloatArray) -> FloatArray:
    """Kendall's tau-b of ratings and similarities over all rated pairs: CLIPScore's measure on Flickr8k-CF.

    (C - D) / sqrt((n0 - n1) (n0 - n2)) of C concordant and D discordant pairs of rows, n0 pairs of rows, of which n1
    tie in similarity and n2 in rating.

    Args:
        pairs: P rated pairs.
        similarities: (P,) the model's similarity of each pair.

    Returns:
        () one correlation in [-1, 1].

    Raises:
        DataError: ratings not finite, not one per pair, or all equal.
        MalformedRun: similarities not finite, not one per pair, or all equal.

    References:
        Hessel et al., CLIPScore, EMNLP 2021; ``scipy.stats.kendalltau(..., variant="b")``.

    Example:
        >>> pairs = RatedPairs(np.array([1, 1, 2]), np.array([7, 8, 7]), np.array([5.0, 0.5, 1.0]))
        >>> kendall_tau_b(pairs, np.array([0.9, 0.1, 0.3])).item()
        1.0
    """
    return tau(pairs, similarities, "b")


def tau(pairs: RatedPairs, similarities: FloatArray, variant: str) -> FloatArray:
    """() tau of one variant, ``b`` or ``c``, as SciPy computes it."""
    from scipy.stats import kendalltau

    CodedPairs.of(pairs, similarities)  # refuses what has no correlation
    return np.asarray(kendalltau(similarities, pairs.ratings, variant=variant).statistic)


def sample_tau_b(pairs: RatedPairs, similarities: FloatArray, times: NDArray[np.integer], rows: IntArray) -> FloatArray:
    """(S,) tau-b where each pair is there as often as its cluster is drawn: (S, C) times, (P,) cluster of each pair."""
    surplus, size, groups = count_drawn(pairs, similarities, times, rows)
    drawn = times.astype(np.float64)
    tied = [((drawn @ (group @ group.T)) * drawn).sum(axis=1) for group in groups]
    return np.asarray(2 * surplus / np.sqrt((size - tied[0]) * (size - tied[1])))


def count_drawn(
    pairs: RatedPairs, similarities: FloatArray, times: NDArray[np.integer], rows: IntArray
) -> tuple[FloatArray, FloatArray, list[Any]]:
    """(S,) concordant less discordant pairs of rows, (S,) square of their number, (C, L) rows by cluster and value."""
    from scipy.sparse import csc_array

    coded = CodedPairs.of(pairs, similarities)
    drawn = times.astype(np.float64)
    size = (drawn @ np.bincount(rows, minlength=times.shape[1])) ** 2
    groups = [
        csc_array((np.ones(rows.size), (rows, codes)), shape=(times.shape[1], n_codes))
        for codes, n_codes in zip(coded.codes.T, coded.n_levels, strict=True)
    ]
    return _count_surplus(coded, drawn, rows), size, groups


def _count_surplus(coded: CodedPairs, drawn: FloatArray, rows: IntArray) -> FloatArray:
    """(S,) concordant less discordant pairs of rows: a quadratic form of how often clusters are drawn."""
    levels, scores = coded.codes.T.astype(np.int64)
    n_clusters = drawn.shape[1]
    # Row y of ``below``: of each cluster, rows so far with a lower rating than y less those with a higher one.
    surplus = np.zeros((n_clusters, n_clusters))
    below = np.zeros((coded.n_levels[0], n_clusters))
    order = np.argsort(scores, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(scores[order])) + 1):
        for row in group.tolist():
            surplus[rows[row]] += below[levels[row]]
        for row in group.tolist():
            below[levels[row] + 1 :, rows[row]] += 1
            below[: levels[row], rows[row]] -= 1
    return np.asarray(((drawn @ surplus) * drawn).sum(axis=1))


SPEC = RatedMetric(
    kendall_tau_b,
    "Kendall's tau-b",
    citation="Kendall, Biometrika 33(3), 1945; Hessel et al., EMNLP 2021, arXiv:2104.08718",
    samples=sample_tau_b,
    packages=("scipy",),
)
