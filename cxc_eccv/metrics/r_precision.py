"""R-Precision."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.metrics.chances import RandomOrder
from cxc_eccv.metrics.kinds import JudgedMetric, MeanOver, RankMetric
from cxc_eccv.types import FloatArray, IntArray, JudgedRanks, PositiveRanks
from cxc_eccv.types.judgments import choose_ranks


def term(_order: IntArray, ranks: IntArray, n_positives: IntArray) -> NDArray[np.bool_]:
    """Whether each positive is in the top R."""
    return ranks <= n_positives


HIT_SHARE = MeanOver(term)


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
    return HIT_SHARE.compute(choose_ranks(ranks, judged_only=judged_only))


def chance(order: RandomOrder) -> float:
    """R-Precision of a random order: the share of the top R items that are positive is R / N."""
    looked_at = np.minimum(order.n_positives, order.n_gallery)
    return order.average(looked_at * order.n_reachable / order.n_gallery / order.n_positives)


SPEC = RankMetric(
    r_precision,
    "R-Precision",
    depends_on=HIT_SHARE,
    chance=chance,
    citation="Musgrave, Belongie and Lim, ECCV 2020, arXiv:2003.08505; Chun et al., ECCV 2022, arXiv:2204.03359",
)

SPECS = (JudgedMetric.condense(SPEC),)
