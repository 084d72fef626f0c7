"""bpref, for incomplete judgments."""

from __future__ import annotations

import numpy as np

from cxc_eccv.metrics.kinds import JudgedMetric
from cxc_eccv.types import FloatArray, JudgedRanks


def bpref(ranks: JudgedRanks) -> FloatArray:
    """Binary preference: how seldom a judged negative stands above a positive; items that nobody judged do not count.

    With R positives and N judged negatives, (1 / R) times the sum over the positives found of
    1 - min(n, R) / min(N, R), n being the judged negatives above; a positive with none above adds 1.

    Args:
        ranks: ranks of the judged items of Q queries.

    Returns:
        (Q,) values in [0, 1].

    References:
        Buckley and Voorhees, Retrieval Evaluation with Incomplete Information, SIGIR 2004; trec_eval's bpref.

    Example:
        >>> bpref(JudgedRanks.of([[(1, 0), (4, 1), (9, 2)], [(3, 1), (7, 0)]])).tolist()
        [0.0, 1.0]
    """
    rows = ranks.rows
    positive = ranks.positive
    n_positives = ranks.n_positives
    total = np.append(0, np.cumsum(positive))
    negatives_above = ranks.places - (total[1:] - total[ranks.indptr[rows]])
    most = n_positives[rows]
    lost = np.minimum(negatives_above, most) / np.maximum(np.minimum(ranks.n_negatives[rows], most), 1)
    return np.asarray(ranks.sum((1 - lost) * positive) / n_positives)


SPEC = JudgedMetric(
    bpref,
    "bpref",
    citation="Buckley and Voorhees, SIGIR 2004, doi:10.1145/1008992.1009000",
)
