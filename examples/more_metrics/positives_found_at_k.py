"""Positives found@K, recall in the sense of information retrieval."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.metrics.kinds import MeanOver, RankMetric
from cxc_eccv.types import FloatArray, IntArray, PositiveRanks

__all__ = ["SPEC", "positives_found_at_k"]


def term(_order: IntArray, ranks: IntArray, _n_positives: IntArray, k: int) -> NDArray[np.bool_]:
    """Whether each positive is in the top K."""
    return ranks <= k


FOUND = MeanOver(term)


def positives_found_at_k(ranks: PositiveRanks, k: int = 10) -> FloatArray:
    """Fraction of a query's positives that are in its top K.

    Information retrieval calls this recall at K. The field's Recall@K asks whether there is any.

    Args:
        ranks: ranks of the positives of Q queries.
        k: depth, at least 1.

    Returns:
        (Q,) values in [0, 1].

    References:
        Manning, Raghavan and Schütze, Introduction to Information Retrieval, 2008, chapter 8.

    Example:
        >>> positives_found_at_k(PositiveRanks.of([[2, 9, 11], [1]]), k=10).round(2).tolist()
        [0.67, 1.0]
    """
    return FOUND.compute(ranks, k=k)


SPEC = RankMetric(
    positives_found_at_k,
    "positives found@{k}",
    depends_on=FOUND,
    parameters={"k": (1, 5, 10)},
    citation="Manning, Raghavan and Schütze, Introduction to Information Retrieval, 2008",
)
