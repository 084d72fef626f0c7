"""The tie rule, in its one place: an item that ties with a positive counts as ranked above it.

Counts become ranks by it, ranked lists that come with scores are put in its order, and so are items of equal scores at
the top of a ranking.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.counts import Counts
from cxc_eccv.ranking.merged_judgments import MergedJudgments, Share
from cxc_eccv.types import FloatArray, IntArray, PositiveRanks, positions_of

__all__ = ["count_pushed_out", "order_of_gains", "positives_last", "rank_positives"]


def rank_positives(merged: MergedJudgments, share: Share, counts: Counts) -> PositiveRanks:
    """Ranks of one task's positives.

    The rank of a positive is its order among its query's positives, plus the number of other gallery items that score
    as high or higher. Items tied with a positive therefore stand above it; a constant scorer ranks every positive
    last.

    Args:
        merged: the judgments of all tasks.
        share: one task's.
        counts: what was counted for the merged pairs.
    """
    judgments = share.judgments
    rows = judgments.rows[share.kept]
    order = _by_row_and_score(rows, counts.scores[share.pairs])
    rows, pairs = rows[order], share.pairs[order]
    scores = counts.scores[pairs]
    competes = share.competes[rows]
    at_least, above = (
        np.einsum("ps,ps->p", table.take(pairs, axis=0), competes) for table in (counts.at_least, counts.above)
    )
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=judgments.query_ids.size))])
    within = np.arange(rows.size) - indptr[rows]
    first, last = _runs_of_equals(rows, scores)
    others = at_least - (within[last] + 1)
    leads = first == np.arange(rows.size)
    tied = at_least - above - (last - first + 1)
    ties = np.bincount(rows[leads], weights=tied[leads], minlength=judgments.query_ids.size)
    return PositiveRanks(
        judgments.query_ids,
        indptr,
        within + 1 + others,
        judgments.n_positives,
        _gallery_sizes(merged, share),
        ties.astype(np.int64),
    )


def _by_row_and_score(rows: IntArray, scores: NDArray[np.float32]) -> IntArray:
    """Order by row, then by score from the highest: one sort of whole numbers whose low half is the score.

    The bits of floats are ordered as the floats are, once those of negative ones are flipped.
    """
    bits = scores.view(np.int32)
    ascending = np.where(bits < 0, bits ^ np.int32(2**31 - 1), bits).astype(np.int64)
    return np.argsort(rows * 2**32 - ascending)


def _runs_of_equals(rows: IntArray, scores: NDArray[np.float32]) -> tuple[IntArray, IntArray]:
    """First and last index of the run of equal scores, within one query, that each entry belongs to."""
    new = np.ones(rows.size, dtype=bool)
    new[1:] = (np.diff(rows) != 0) | (np.diff(scores) != 0)
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], rows.size) - 1
    run = np.cumsum(new) - 1
    return starts[run], ends[run]


def _gallery_sizes(merged: MergedJudgments, share: Share) -> IntArray:
    """(Q,) items that each query ranks, itself left out where the judgments say so."""
    sizes = share.competes @ np.bincount(merged.segments, minlength=merged.n_segments)
    if merged.without_self:
        places, known = positions_of(share.judgments.query_ids, merged.gallery_ids)
        sizes = sizes - (known & share.competes[np.arange(known.size), merged.segments[places]])
    return np.asarray(sizes, dtype=np.int64)


def positives_last(
    queries: IntArray, scores: FloatArray, positive: NDArray[np.bool_], n_queries: int
) -> tuple[IntArray, IntArray]:
    """Order that puts positives behind the items they tie with, and the number of such items.

    Args:
        queries: (P,) query of each item, 0 to ``n_queries - 1``, ascending.
        scores: (P,) not rising within a query.
        positive: (P,) whether the item is a positive of its query.
        n_queries: Q.

    Returns:
        (P,) positions in the new order, and (Q,) items other than positives whose score equals that of a positive.

    Example:
        >>> scores, positive = np.array([0.9, 0.5, 0.5, 0.1]), np.array([False, True, False, True])
        >>> order, ties = positives_last(np.zeros(4, dtype=int), scores, positive, 1)
        >>> order.tolist(), ties.tolist()
        ([0, 2, 1, 3], [1])
    """
    if not queries.size:
        return np.empty(0, dtype=np.int64), np.zeros(n_queries, dtype=np.int64)
    new = np.append(True, (queries[1:] != queries[:-1]) | (scores[1:] != scores[:-1]))
    group = np.cumsum(new) - 1
    reached = np.logical_or.reduceat(positive, np.flatnonzero(new))
    ties = np.bincount(queries[reached[group] & ~positive], minlength=n_queries)
    return np.lexsort((positive, group)), ties


def order_of_gains(gains: FloatArray) -> tuple[IntArray, int]:
    """Where items of equal scores stand: judged ones without gain, those that were not judged, the others by gain.

    Args:
        gains: (J,) of judged items.

    Returns:
        (J,) ascending places, equal for equal gains, and the place of items that were not judged.

    Example:
        >>> places, unjudged = order_of_gains(np.array([2.0, 0.0, 1.0]))
        >>> places.tolist(), unjudged
        ([3, 0, 2], 1)
    """
    levels = np.append(np.where(gains > 0, gains, -1.0), 0.0)
    codes = np.unique(levels, return_inverse=True)[1]
    return codes[:-1], int(codes[-1])


def count_pushed_out(surplus: IntArray, tied: IntArray, tied_matches: IntArray) -> tuple[IntArray, IntArray]:
    """Matches that a tie at the end of the top pushes out: items that are no matches stand first.

    Args:
        surplus: items too many that reach the score of the last one.
        tied: items with that score.
        tied_matches: matches among these.

    Returns:
        Matches that are out, and items other than matches that tie with one where that decides.

    Example:
        >>> out, others = count_pushed_out(np.array([1, 0]), np.array([3, 3]), np.array([2, 2]))
        >>> out.tolist(), others.tolist()
        ([1, 0], [1, 0])
    """
    decides = (surplus > 0) & (tied_matches > 0)
    return np.minimum(tied_matches, surplus), np.where(decides, tied - tied_matches, 0)
