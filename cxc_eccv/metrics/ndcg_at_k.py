"""nDCG@K, normalised discounted cumulative gain."""

from __future__ import annotations

import numpy as np

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.metrics.chances import count_chances
from cxc_eccv.metrics.kinds import HIGHEST_GAIN, JudgedMetric, TopMetric
from cxc_eccv.types import FloatArray, JudgedRanks, Judgments, PositiveRanks, TopK, check_whole, look_up_gains
from cxc_eccv.types.ids import number_within
from cxc_eccv.types.judgments import choose_ranks


def ndcg_at_k(
    top: TopK | JudgedRanks, judgments: Judgments | None = None, k: int = 10, *, judged_only: bool = False
) -> FloatArray:
    """Normalised discounted cumulative gain (nDCG) of the top K items, with graded judgments.

    Per query DCG / DCG of the ideal ranking, where DCG = Σ_i gain_i / log2(i + 1) over ranks i ≤ K. The gain is the
    rating, as in trec_eval and ir-measures: mean ratings from 0 to 5 are on an interval scale, which 2^gain - 1 would
    distort. Unjudged items have gain 0. Among equal scores, the item of lower gain ranks first.

    Args:
        top: the top items of Q queries.
        judgments: judged items of the same queries with gains of 0 or more.
        k: depth, at least 1.
        judged_only: leave out items that nobody judged, negatives stay (Sakai, Alternatives to Bpref, SIGIR 2007, and
            ``judged_only`` of ir_measures); ``top`` are the ranks of the judged items, and every positive has gain 1.

    Returns:
        (Q,) values in [0, 1].

    Raises:
        RunTooShallow: fewer than K items are known.
        DataError: a gain is negative, or a query has no positive gain and so no ideal ranking.
        InvalidOption: k is not a whole number of at least 1, or ``judged_only`` and the first argument do not fit.

    References:
        Järvelin and Kekäläinen, Cumulated Gain-Based Evaluation of IR Techniques, TOIS 2002.

    Example:
        >>> qrels = Judgments(np.array([5]), np.array([7, 8, 9]), [0, 2], [0, 2], [0], gains=np.array([4.0, 2.0]))
        >>> ndcg_at_k(TopK(np.array([5]), np.array([[8, 7, 9]])), qrels, k=3).round(3).tolist()
        [0.67]
        >>> ndcg_at_k(JudgedRanks.of([[(4, 0), (9, 1)]]), k=2, judged_only=True).round(3).tolist()
        [0.631]
    """
    if isinstance(top, JudgedRanks):
        return _of_judged_items(choose_ranks(top, judged_only=judged_only), k)
    if judgments is None or judged_only:
        raise InvalidOption("ndcg_at_k needs judgments with gains, or with judged_only=True JudgedRanks")
    gains, _ = look_up_gains(top, judgments, k, "ndcg_at_k")
    ideal = _ideal_gains(judgments, k)
    discounts = 1 / np.log2(np.arange(2, k + 2))
    best = ideal @ discounts[: ideal.shape[1]]
    if not best.all():
        query = judgments.query_ids[best == 0][0]
        raise DataError(f"ndcg_at_k: query {query} has no item of positive gain; leave the query out")
    return np.asarray(gains @ discounts[: gains.shape[1]] / best)


def _of_judged_items(condensed: PositiveRanks, k: int) -> FloatArray:
    check_whole("ndcg_at_k: k", k)
    gains = np.where(condensed.ranks <= k, 1 / np.log2(condensed.ranks + 1), 0.0)
    ideal = np.cumsum(1 / np.log2(np.arange(2, k + 2)))[np.minimum(condensed.n_positives, k) - 1]
    return np.asarray(condensed.sum(gains) / ideal)


def _ideal_gains(judgments: Judgments, k: int) -> FloatArray:
    """(Q, up to K) gains of each query's judged items in descending order, padded with zeros."""
    gains = np.asarray(judgments.gains)
    rows = judgments.rows
    if gains.min() < 0:
        raise DataError(f"ndcg_at_k: a judged item has gain {gains.min()}; gains must be 0 or more")
    order = np.lexsort((-gains, rows))
    within = number_within(np.diff(judgments.indptr))
    ideal = np.zeros((judgments.query_ids.size, min(k, int(np.diff(judgments.indptr).max()))))
    kept = within < ideal.shape[1]
    ideal[rows[kept], within[kept]] = gains[order][kept]
    return ideal


def expect(top: TopK, judgments: Judgments, k: int, probabilities: FloatArray) -> FloatArray:
    """(Q,) expected values where each unjudged item has the highest rating with its probability, else 0.

    Items of the highest rating come first in the ideal ranking, so given their number the value is a sum over items.
    """
    gains, _ = look_up_gains(top, judgments, k, "ndcg_at_k")
    depth = gains.shape[1]
    highest = HIGHEST_GAIN["ratings"]
    discounts = 1 / np.log2(np.arange(2, depth + 2))
    known = np.zeros_like(gains)
    ideal = _ideal_gains(judgments, depth)
    known[:, : ideal.shape[1]] = ideal
    best = [highest * discounts[:n].sum() + known[:, : depth - n] @ discounts[n:] for n in range(depth + 1)]
    shares = 1 / np.stack(best, axis=1)
    values = gains @ discounts * (count_chances(probabilities) * shares).sum(axis=1)
    for place in range(depth):
        others = count_chances(np.delete(probabilities, place, axis=1))
        values += probabilities[:, place] * highest * discounts[place] * (others * shares[:, 1:]).sum(axis=1)
    return np.asarray(values)


def highest(top: TopK, judgments: Judgments, k: int) -> FloatArray:
    """(Q,) highest values over all ratings of the unjudged items.

    Between two ratings of judged items, DCG and ideal are linear in an unjudged item's rating, so the best rating is
    one of these, 0 or the highest. For a value t, the largest DCG - t * ideal is found along the ideal ranking, whose
    next place takes the next judged or the next unjudged item. Its ratio is the next t, until t no longer rises
    (Dinkelbach, Management Science 13(7), 1967).
    """
    gains, judged = look_up_gains(top, judgments, k, "ndcg_at_k")
    depth = gains.shape[1]
    discounts = 1 / np.log2(np.arange(2, depth + 2))
    beyond = np.append(discounts, np.zeros(depth + 1))
    order = np.argsort(judged, axis=1, kind="stable")
    weights = np.where(np.take_along_axis(judged, order, axis=1), 0.0, discounts[order]).T  # of the n-th unjudged item
    levels = np.column_stack([np.full(len(gains), HIGHEST_GAIN["ratings"]), _ideal_gains(judgments, depth)]).T
    values = ndcg_at_k(top, judgments, k)
    while True:
        dcg = np.full((depth + 1, len(gains)), -np.inf)
        ideal = np.ones((depth + 1, len(gains)))
        # By the number of unjudged items that have got a rating.
        dcg[0] = gains @ discounts
        ideal[0] = 0.0
        for place, level in enumerate(levels):
            if place:
                ideal += level * beyond[place - 1 : place + depth, None]
            for rated in range(depth):
                more = dcg[rated] + level * weights[rated]
                most = ideal[rated] + level * beyond[place + rated]
                better = more - values * most > dcg[rated + 1] - values * ideal[rated + 1]
                better &= weights[rated] > 0
                dcg[rated + 1, better] = more[better]
                ideal[rated + 1, better] = most[better]
        shares = (dcg / ideal).max(axis=0)
        if (shares <= values).all():
            return np.asarray(values)
        values = np.maximum(values, shares)


SPEC = TopMetric(
    ndcg_at_k,
    "nDCG@{k}",
    gains="ratings",
    expected=expect,
    highest=highest,
    parameters={"k": (10,)},
    citation="Järvelin and Kekäläinen, ACM TOIS 20(4), 2002",
)

SPECS = (JudgedMetric.condense(SPEC),)
