"""Judged-only metrics, of the condensed list: what nobody judged is taken out of every ranking first."""

from __future__ import annotations

import numpy as np

from cxc_eccv.metrics.map_at_r import map_at_r
from cxc_eccv.metrics.r_precision import r_precision
from cxc_eccv.metrics.recall_at_k import recall_at_k
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.types import FloatArray, JudgedRanks, check_whole

CITATION = "Sakai, SIGIR 2007, doi:10.1145/1277741.1277756; MacAvaney, Macdonald and Ounis, ECIR 2022, arXiv:2111.13466"


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


def judged_only_map_at_r(ranks: JudgedRanks) -> FloatArray:
    """mAP@R of the condensed list.

    Args:
        ranks: ranks of the judged items of Q queries.

    Returns:
        (Q,) values in [0, 1].

    References:
        Sakai, Alternatives to Bpref, SIGIR 2007; ``judged_only`` of ir_measures.

    Example:
        >>> judged_only_map_at_r(JudgedRanks.of([[(4, 1), (9, 0), (12, 2)]])).tolist()
        [0.5]
    """
    return map_at_r(ranks.judged_only)


def judged_only_r_precision(ranks: JudgedRanks) -> FloatArray:
    """R-Precision of the condensed list.

    Args:
        ranks: ranks of the judged items of Q queries.

    Returns:
        (Q,) values in [0, 1].

    References:
        Sakai, Alternatives to Bpref, SIGIR 2007; ``judged_only`` of ir_measures.

    Example:
        >>> judged_only_r_precision(JudgedRanks.of([[(4, 1), (9, 0), (12, 2)]])).tolist()
        [0.5]
    """
    return r_precision(ranks.judged_only)


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


SPECS = (
    Spec(
        function=judged_only_recall_at_k,
        title="R@{k}, judged only",
        needs="judged_ranks",
        parameters={"k": (1, 5, 10)},
        citation=CITATION,
        binary=True,
    ),
    Spec(function=judged_only_map_at_r, title="mAP@R, judged only", needs="judged_ranks", citation=CITATION),
    Spec(function=judged_only_r_precision, title="R-Precision, judged only", needs="judged_ranks", citation=CITATION),
    Spec(
        function=judged_only_ndcg_at_k,
        title="nDCG@{k}, judged only",
        needs="judged_ranks",
        parameters={"k": (10,)},
        citation=CITATION,
    ),
)
