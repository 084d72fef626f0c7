"""R-Precision."""

from __future__ import annotations

import numpy as np

from cxc_eccv.metrics.chances import RandomOrder
from cxc_eccv.metrics.kinds import JudgedMetric, RankMetric, SumOver
from cxc_eccv.types import FloatArray, IntArray, JudgedRanks, PositiveRanks
from cxc_eccv.types.judgments import choose_ranks


def r_precision(ranks: PositiveRanks | JudgedRanks, *, judged_only: bool = False) -> FloatArray:
    """R-Precision: the fraction of the top R items that are positive, R being the number of positives.

    R includes positives outside the gallery, as in the eccv_caption package.

    Args:
        ranks: ranks of the positives of Q queries.
        judged_only: leave out items that nobody judged, negatives stay (Sakai, Alternatives to Bpref, SIGIR 2007, and
            ``judged_only`` of ir_measures); ``ranks`` are those of the judged items.

    Returns:
        (Q,) values in [0, 1].

    Raises:
        InvalidOption: ranks and ``judged_only`` do not fit.

    References:
        Musgrave, Belongie and Lim, A Metric Learning Reality Check, ECCV 2020; Chun et al., ECCV Caption, ECCV 2022.

    Example:
        >>> r_precision(PositiveRanks.of([[1, 3, 4]])).tolist()
        [0.6666666666666666]
        >>> r_precision(JudgedRanks.of([[(4, 1), (9, 0), (12, 2)]]), judged_only=True).tolist()
        [0.5]
    """
    ranks = choose_ranks(ranks, judged_only=judged_only)
    found = ranks.ranks <= ranks.n_positives[ranks.rows]
    hits = np.bincount(ranks.rows, weights=found, minlength=ranks.query_ids.size)
    return np.asarray(hits / ranks.n_positives)


def term(_order: IntArray, ranks: IntArray, n_positives: IntArray) -> FloatArray:
    """The contribution of one positive to R-Precision."""
    return np.asarray((ranks <= n_positives) / n_positives)


def chance(order: RandomOrder) -> float:
    """R-Precision of a random order: the share of the top R items that are positive is R / N."""
    looked_at = np.minimum(order.n_positives, order.n_gallery)
    return order.average(looked_at * order.n_reachable / order.n_gallery / order.n_positives)


SPEC = RankMetric(
    r_precision,
    "R-Precision",
    depends_on=SumOver(term),
    chance=chance,
    citation="Musgrave, Belongie and Lim, ECCV 2020, arXiv:2003.08505; Chun et al., ECCV 2022, arXiv:2204.03359",
)

SPECS = (JudgedMetric.condense(SPEC),)
