"""Mean reciprocal rank with a cut-off."""

from __future__ import annotations

import numpy as np

from cxc_eccv.metrics.kinds import BestRank, RankMetric
from cxc_eccv.metrics.mrr import mrr
from cxc_eccv.metrics.recall_at_k import recall_at_k
from cxc_eccv.types import FloatArray, PositiveRanks


def mrr_at_k(ranks: PositiveRanks, k: int = 10) -> FloatArray:
    """Mean reciprocal rank of the best positive, 0 where the top K have none.

    Args:
        ranks: ranks of the positives of Q queries.
        k: depth, at least 1.

    Returns:
        (Q,) values in [0, 1].

    Raises:
        InvalidOption: k is not a whole number of at least 1.

    References:
        Bajaj et al., MS MARCO: A Human Generated MAchine Reading COmprehension Dataset, 2016.

    Example:
        >>> mrr_at_k(PositiveRanks.of([[2, 9], [11]]), k=10).tolist()
        [0.5, 0.0]
    """
    return np.asarray(mrr(ranks) * recall_at_k(ranks, k))


SPEC = RankMetric(
    mrr_at_k,
    "MRR@{k}",
    depends_on=BestRank(),
    parameters={"k": (10,)},
    citation="Bajaj et al., 2016, arXiv:1611.09268",
)
