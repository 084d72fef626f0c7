"""Recall@K."""

from __future__ import annotations

import numpy as np

from cxc_eccv.metrics.chances import RandomOrder, expect_recall
from cxc_eccv.metrics.kinds import BestRank, JudgedMetric, RankMetric
from cxc_eccv.types import FloatArray, JudgedRanks, PositiveRanks, check_whole
from cxc_eccv.types.judgments import choose_ranks


def recall_at_k(ranks: PositiveRanks | JudgedRanks, k: int = 1, *, judged_only: bool = False) -> FloatArray:
    """Fraction of queries with a positive in the top K (Success@K or hit rate in information retrieval).

    The field calls it recall although it does not count how many of several positives are retrieved.

    Args:
        ranks: ranks of the positives of Q queries.
        k: depth, at least 1.
        judged_only: leave out items that nobody judged, negatives stay (Sakai, Alternatives to Bpref, SIGIR 2007, and
            ``judged_only`` of ir_measures); ``ranks`` are those of the judged items.

    Returns:
        (Q,) zeros and ones.

    Raises:
        InvalidOption: k is not a whole number of at least 1, or ranks and ``judged_only`` do not fit.

    References:
        Karpathy and Fei-Fei, Deep Visual-Semantic Alignments for Generating Image Descriptions, CVPR 2015.

    Example:
        >>> recall_at_k(PositiveRanks.of([[2, 9], [1]]), k=1).tolist()
        [0.0, 1.0]
        >>> recall_at_k(JudgedRanks.of([[(4, 1), (9, 0)]]), k=1, judged_only=True).tolist()
        [1.0]
    """
    check_whole("recall_at_k: k", k)
    ranks = choose_ranks(ranks, judged_only=judged_only)
    return (ranks.best <= np.minimum(k, ranks.n_gallery)).astype("float64")


def chance(order: RandomOrder, k: int = 1) -> float:
    """Recall@K of a random order: 1 - C(N - R, K) / C(N, K), averaged over queries."""
    return order.average(expect_recall(order.n_gallery, order.n_reachable, k))


SPEC = RankMetric(
    recall_at_k,
    "R@{k}",
    depends_on=BestRank(),
    parameters={"k": (1, 5, 10)},
    citation="Karpathy and Fei-Fei, CVPR 2015, arXiv:1412.2306",
    binary=True,
    chance=chance,
)

SPECS = (JudgedMetric.condense(SPEC),)
