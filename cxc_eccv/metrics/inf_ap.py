"""infAP, inferred average precision."""

from __future__ import annotations

import numpy as np

from cxc_eccv.metrics.kinds import JudgedMetric
from cxc_eccv.types import FloatArray, JudgedRanks

INF_AP_EPSILON = 1e-5  # trec_eval's


def inf_ap(ranks: JudgedRanks) -> FloatArray:
    """Inferred average precision: the precision above a positive is estimated from the items there that were judged.

    (1 / R) times the sum over the positives found of 1 / k + (k - 1) / k times (p + e) / (p + n + 2 e), for a positive
    at rank k with p positives and n judged negatives above it, and e = 0.00001. It estimates average precision without
    bias where the judged items are a random sample of the gallery; where people were asked about likely matches more
    often, as mostly, it is too high.

    Args:
        ranks: ranks of the judged items of Q queries.

    Returns:
        (Q,) values in [0, 1].

    References:
        Yilmaz and Aslam, Estimating Average Precision with Incomplete and Imperfect Judgments, CIKM 2006; trec_eval's
        infAP where every item of the gallery is in the pool, those that were not judged with relevance -1.

    Example:
        >>> inf_ap(JudgedRanks.of([[(1, 0), (4, 1)]])).round(3).tolist()
        [0.25]
    """
    rows = ranks.rows
    positive = ranks.positive
    n_positives = ranks.n_positives
    total = np.append(0, np.cumsum(positive))
    positives_above = total[:-1] - total[ranks.indptr[rows]]
    judged_above = ranks.places - 1
    share_above = (ranks.ranks - 1) / ranks.ranks
    precision = (positives_above + INF_AP_EPSILON) / (judged_above + 2 * INF_AP_EPSILON)
    terms = (1 / ranks.ranks + share_above * precision) * positive
    return np.asarray(ranks.sum(terms) / n_positives)


SPEC = JudgedMetric(
    inf_ap,
    "infAP",
    citation="Yilmaz and Aslam, CIKM 2006, doi:10.1145/1183614.1183633",
)
