"""Median rank."""

from __future__ import annotations

from cxc_eccv.metrics.kinds import BestRank, RankMetric
from cxc_eccv.types import FloatArray, PositiveRanks


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


SPEC = RankMetric(
    median_rank,
    "median rank",
    unit="rank",
    depends_on=BestRank(),
    citation="Parekh et al., EACL 2021, arXiv:2004.15020",
    bounds=(1.0, None),
    higher_is_better=False,
    aggregate="median",
)
