"""nDCG@K, Normalised discounted cumulative gain."""

from __future__ import annotations

import numpy as np

from cxc_eccv.errors import DataError
from cxc_eccv.metrics.chances import count_chances
from cxc_eccv.metrics.spec import HIGHEST_GAIN, Spec
from cxc_eccv.types import FloatArray, Judgments, TopK, look_up_gains


def ndcg_at_k(top: TopK, judgments: Judgments, k: int = 10) -> FloatArray:
    """Normalised discounted cumulative gain of the top K, with graded judgments.

    Per query DCG over the DCG of the ideal ranking, where DCG is the sum over ranks i up to K of gain / log2(i + 1).
    The gain is the rating itself, as in TREC's evaluation (trec_eval, ir-measures): ratings of 0 to 5 are means over
    annotators on an interval scale, which 2^gain - 1, made for ordinal web grades, would stretch to 31 to 1. An item
    that was not judged has gain 0. Of items with equal scores the one of lower gain stands above.

    Args:
        top: the best items of Q queries.
        judgments: judged items of the same queries with their gains, 0 or more.
        k: depth, at least 1.

    Returns:
        (Q,) values in [0, 1].

    Raises:
        RunTooShallow: fewer than K items are known.
        DataError: a query without a positive gain, for which there is no ideal; a negative gain.
        InvalidOption: k is not a whole number of at least 1.

    References:
        Järvelin and Kekäläinen, Cumulated Gain-Based Evaluation of IR Techniques, TOIS 2002.

    Example:
        >>> qrels = Judgments(np.array([5]), np.array([7, 8, 9]), [0, 2], [0, 2], [0], gains=np.array([4.0, 2.0]))
        >>> ndcg_at_k(TopK(np.array([5]), np.array([[8, 7, 9]])), qrels, k=3).round(3).tolist()
        [0.67]
    """
    gains, _ = look_up_gains(top, judgments, k, "ndcg_at_k")
    ideal = _ideal_gains(judgments, k)
    discounts = 1 / np.log2(np.arange(2, k + 2))
    best = ideal @ discounts[: ideal.shape[1]]
    if not best.all():
        query = judgments.query_ids[best == 0][0]
        raise DataError(f"ndcg_at_k: no judged item of query {query} has a positive gain; leave the query out")
    return np.asarray(gains @ discounts[: gains.shape[1]] / best)


def _ideal_gains(judgments: Judgments, k: int) -> FloatArray:
    """(Q, up to K) gains of each query's judged items from the highest, then zeros."""
    gains, rows = np.asarray(judgments.gains), judgments.rows
    if gains.min() < 0:
        raise DataError(f"ndcg_at_k: gain {gains.min()} of a judged item is negative; gains are 0 or more")
    order = np.lexsort((-gains, rows))
    within = np.arange(rows.size) - judgments.indptr[rows]
    ideal = np.zeros((judgments.query_ids.size, min(k, int(np.diff(judgments.indptr).max()))))
    kept = within < ideal.shape[1]
    ideal[rows[kept], within[kept]] = gains[order][kept]
    return ideal


def expected(top: TopK, judgments: Judgments, k: int, probabilities: FloatArray) -> FloatArray:
    """(Q,) expected values where each item that was not judged has the highest rating with its own probability, or 0.

    However many they are, they come first in the ideal ranking: given their number the value is a sum over items.
    """
    gains, _ = look_up_gains(top, judgments, k, "ndcg_at_k")
    depth, highest = gains.shape[1], HIGHEST_GAIN["ratings"]
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
    """(Q,) highest values that ratings of the items that were not judged can give.

    Between two ratings of judged items gain and ideal are linear in another rating: it is best as one of these, as 0 or
    as the highest, and no better below than above. For a share t the most that DCG exceeds t times the ideal is found
    along the ideal ranking, whose next place takes the next judged item or the next one that was not judged. The share
    that is reached is the next t, until none is higher (Dinkelbach, Management Science 13(7), 1967).
    """
    gains, judged = look_up_gains(top, judgments, k, "ndcg_at_k")
    depth = gains.shape[1]
    discounts = 1 / np.log2(np.arange(2, depth + 2))
    beyond = np.append(discounts, np.zeros(depth + 1))
    order = np.argsort(judged, axis=1, kind="stable")
    own = np.where(np.take_along_axis(judged, order, axis=1), 0.0, discounts[order]).T  # of the n-th without a rating
    levels = np.column_stack([np.full(len(gains), HIGHEST_GAIN["ratings"]), _ideal_gains(judgments, depth)]).T
    values = ndcg_at_k(top, judgments, k)
    while True:
        found, ideal = np.full((depth + 1, len(gains)), -np.inf), np.ones((depth + 1, len(gains)))
        found[0], ideal[0] = gains @ discounts, 0.0  # where so many have got a rating
        for place, level in enumerate(levels):
            if place:
                ideal += level * beyond[place - 1 : place + depth, None]
            for rated in range(depth):
                more, most = found[rated] + level * own[rated], ideal[rated] + level * beyond[place + rated]
                better = more - values * most > found[rated + 1] - values * ideal[rated + 1]
                better &= own[rated] > 0
                found[rated + 1, better], ideal[rated + 1, better] = more[better], most[better]
        shares = (found / ideal).max(axis=0)
        if (shares <= values).all():
            return np.asarray(values)
        values = np.maximum(values, shares)


SPEC = Spec(
    function=ndcg_at_k,
    title="nDCG@{k}",
    needs="top_k",
    expected=expected,
    highest=highest,
    parameters={"k": (10,)},
    citation="Järvelin and Kekäläinen, ACM TOIS 20(4), 2002",
)
