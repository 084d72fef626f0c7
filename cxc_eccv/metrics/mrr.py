"""Mean reciprocal rank."""

from __future__ import annotations

import numpy as np

from cxc_eccv.metrics.kinds import BestRank, RankMetric
from cxc_eccv.types import FloatArray, PositiveRanks


def mrr(ranks: PositiveRanks) -> FloatArray:
    """Mean reciprocal rank (MRR): the mean over queries of 1 / rank of the best positive.

    Queries whose positives are all outside the gallery score 0.

    Args:
        ranks: ranks of the positives of Q queries.

    Returns:
        (Q,) values in [0, 1].

    References:
        Voorhees, The TREC-8 Question Answering Track Report, TREC 1999.

    Example:
        >>> mrr(PositiveRanks.of([[2, 9], [1], []], n_positives=[2, 1, 1])).tolist()
        [0.5, 1.0, 0.0]
    """
    return np.where(np.diff(ranks.indptr) > 0, 1 / ranks.best, 0.0)


SPEC = RankMetric(mrr, "MRR", depends_on=BestRank(), citation="Voorhees, TREC-8, 1999")
