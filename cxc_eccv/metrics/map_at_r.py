"""mAP@R."""

from __future__ import annotations

import numpy as np

from cxc_eccv.metrics.chances import RandomOrder
from cxc_eccv.metrics.kinds import JudgedMetric, MeanOver, RankMetric
from cxc_eccv.types import FloatArray, IntArray, JudgedRanks, PositiveRanks
from cxc_eccv.types.judgments import choose_ranks


def term(order: IntArray, ranks: IntArray, n_positives: IntArray) -> FloatArray:
    """The precision at the rank of each positive in the top R; 0 below."""
    return np.asarray(order / ranks * (ranks <= n_positives))


MEAN_PRECISION = MeanOver(term)


def map_at_r(ranks: PositiveRanks | JudgedRanks, *, judged_only: bool = False) -> FloatArray:
    """Mean average precision at R (mAP@R), the main metric of ECCV Caption.

    Per query (1 / R) Σ_i precision at i, over the ranks i ≤ R of positives. R is the number of positives of the query,
    including those outside the gallery.

    Args:
        ranks: ranks of the positives of Q queries.
        judged_only: leave out items that nobody judged, negatives stay (Sakai, Alternatives to Bpref, SIGIR 2007, and
            ``judged_only`` of ir_measures); ``ranks`` are those of the judged items.

    Returns:
        (Q,) values in [0, 1], at most the R-Precision of the same query.

    Raises:
        InvalidOption: ranks and ``judged_only`` do not fit.

    References:
        Musgrave, Belongie and Lim, A Metric Learning Reality Check, ECCV 2020; Chun et al., ECCV Caption, ECCV 2022.

    Example:
        >>> round(map_at_r(PositiveRanks.of([[2, 3, 4, 5, 6, 7, 8, 9]])).item(), 3)
        0.66
        >>> map_at_r(JudgedRanks.of([[(4, 1), (9, 0), (12, 2)]]), judged_only=True).tolist()
        [0.5]
    """
    return MEAN_PRECISION.compute(choose_ranks(ranks, judged_only=judged_only))


def chance(order: RandomOrder) -> float:
    """mAP@R of a random order: (1 / R) sum over ranks k <= R of (1 / k) [R / N + (k - 1) R (R - 1) / (N (N - 1))]."""
    values = []
    for size, total, reachable in zip(order.n_gallery, order.n_positives, order.n_reachable, strict=True):
        rank = np.arange(1, min(total, size) + 1)
        first = reachable / size
        both = first * (reachable - 1) / max(size - 1, 1)
        values.append(((first + (rank - 1) * both) / rank).sum() / total)
    return order.average(np.array(values))


SPEC = RankMetric(
    map_at_r,
    "mAP@R",
    depends_on=MEAN_PRECISION,
    chance=chance,
    citation="Musgrave, Belongie and Lim, ECCV 2020, arXiv:2003.08505; Chun et al., ECCV 2022, arXiv:2204.03359",
)

SPECS = (JudgedMetric.condense(SPEC),)
