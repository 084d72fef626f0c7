"""Mean rank."""

from __future__ import annotations

from cxc_eccv.metrics.chances import RandomOrder
from cxc_eccv.metrics.kinds import BestRank, RankMetric
from cxc_eccv.types import FloatArray, PositiveRanks


def mean_rank(ranks: PositiveRanks) -> FloatArray:
    """Mean over queries of the rank of the best positive.

    Args:
        ranks: ranks of the positives of Q queries.

    Returns:
        (Q,) ranks of the best positive, 1 or more.

    References:
        Hodosh, Young and Hockenmaier, Framing Image Description as a Ranking Task, JAIR 2013.

    Example:
        >>> mean_rank(PositiveRanks.of([[2, 9], [1]])).mean()
        np.float64(1.5)
    """
    return ranks.best.astype("float64")


def chance(order: RandomOrder) -> float:
    """Mean rank of a random order: the best of R positives among N items ranks (N + 1) / (R + 1) on average."""
    return order.average((order.n_gallery + 1) / (order.n_reachable + 1))


SPEC = RankMetric(
    mean_rank,
    "mean rank",
    unit="rank",
    depends_on=BestRank(),
    citation="Hodosh, Young and Hockenmaier, JAIR 47, 2013",
    bounds=(1.0, None),
    higher_is_better=False,
    chance=chance,
)
