"""Median rank."""

from __future__ import annotations

from cxc_eccv.metrics.chances import RandomOrder, expect_recall
from cxc_eccv.metrics.kinds import BestRank, RankMetric
from cxc_eccv.types import FloatArray, PositiveRanks

HALF_OF_QUERIES = 0.5 - 1e-12
"""One half, less the rounding of a sum over queries."""


def median_rank(ranks: PositiveRanks) -> FloatArray:
    """Median over queries of the rank of the best positive.

    Args:
        ranks: ranks of the positives of Q queries.

    Returns:
        (Q,) ranks of the best positive, 1 or more.

    References:
        Parekh et al., Crisscrossed Captions, EACL 2021.

    Example:
        >>> median_rank(PositiveRanks.of([[2, 9], [1], [7]])).tolist()
        [2.0, 1.0, 7.0]
    """
    return ranks.best.astype("float64")


def chance(order: RandomOrder) -> float:
    """Median rank of a random order: the smallest rank that the best positive reaches with a chance of at least 1/2.

    The chance is the mean over queries of that in each one's gallery.
    """
    low = 1
    high = int(order.n_gallery.max()) + 1
    while low < high:
        middle = (low + high) // 2
        reached = order.average(expect_recall(order.n_gallery, order.n_reachable, middle))
        if reached >= HALF_OF_QUERIES:
            high = middle
        else:
            low = middle + 1
    return float(low)


SPEC = RankMetric(
    median_rank,
    "median rank",
    unit="rank",
    depends_on=BestRank(),
    citation="Parekh et al., EACL 2021, arXiv:2004.15020",
    bounds=(1.0, None),
    higher_is_better=False,
    aggregate="median",
    chance=chance,
)
