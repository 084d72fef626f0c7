"""Judged-only Recall@K, of the condensed list."""

from __future__ import annotations

from cxc_eccv.metrics.recall_at_k import recall_at_k
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.types import FloatArray, JudgedRanks


def judged_only_recall_at_k(ranks: JudgedRanks, k: int = 1) -> FloatArray:
    """Recall@K of the condensed list: 1 where one of the K best judged items is a positive, else 0.

    Args:
        ranks: ranks of the judged items of Q queries.
        k: depth among the judged items, at least 1.

    Returns:
        (Q,) zeros and ones.

    Raises:
        InvalidOption: k is not a whole number of at least 1.

    References:
        Sakai, Alternatives to Bpref, SIGIR 2007; ``judged_only`` of ir_measures.

    Example:
        >>> judged_only_recall_at_k(JudgedRanks.of([[(4, 1), (9, 0)]]), k=1).tolist()
        [1.0]
    """
    return recall_at_k(ranks.judged_only, k)


SPEC = Spec(
    function=judged_only_recall_at_k,
    title="R@{k}, judged only",
    needs="judged_ranks",
    parameters={"k": (1, 5, 10)},
    citation="Sakai, SIGIR 2007, doi:10.1145/1277741.1277756; MacAvaney et al., ECIR 2022, arXiv:2111.13466",
    binary=True,
)
