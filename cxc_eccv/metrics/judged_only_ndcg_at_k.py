"""Judged-only nDCG@K, of the condensed list."""

from __future__ import annotations

import numpy as np

from cxc_eccv.metrics.spec import Spec
from cxc_eccv.types import FloatArray, JudgedRanks, check_whole


def judged_only_ndcg_at_k(ranks: JudgedRanks, k: int = 10) -> FloatArray:
    """nDCG@K of the condensed list, with gain 1 for every positive.

    Args:
        ranks: ranks of the judged items of Q queries.
        k: depth among the judged items, at least 1.

    Returns:
        (Q,) values in [0, 1].

    Raises:
        InvalidOption: k is not a whole number of at least 1.

    References:
        Sakai, Alternatives to Bpref, SIGIR 2007; ``judged_only`` of ir_measures.

    Example:
        >>> judged_only_ndcg_at_k(JudgedRanks.of([[(4, 0), (9, 1)]]), k=2).round(3).tolist()
        [0.631]
    """
    check_whole("judged_only_ndcg_at_k: k", k)
    condensed = ranks.judged_only
    rows = np.repeat(np.arange(condensed.query_ids.size), np.diff(condensed.indptr))
    gains = np.where(condensed.ranks <= k, 1 / np.log2(condensed.ranks + 1), 0.0)
    ideal = np.cumsum(1 / np.log2(np.arange(2, k + 2)))[np.minimum(condensed.n_positives, k) - 1]
    return np.asarray(np.bincount(rows, gains, condensed.query_ids.size) / ideal)


SPEC = Spec(
    function=judged_only_ndcg_at_k,
    title="nDCG@{k}, judged only",
    needs="judged_ranks",
    parameters={"k": (10,)},
    citation="Sakai, SIGIR 2007, doi:10.1145/1277741.1277756; MacAvaney et al., ECIR 2022, arXiv:2111.13466",
)
