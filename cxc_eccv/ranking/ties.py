"""The tie rule: where items of equal scores stand. No other file decides it.

Items rank by score, highest first, and of items with equal scores those that help a query least come first. So an item
that ties with a positive ranks above it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.counts import Counts, Share, gallery_sizes
from cxc_eccv.types import FloatArray, IntArray, PositiveRanks
from cxc_eccv.types.ids import make_indptr


def rank_positives(share: Share, counts: Counts) -> PositiveRanks:
    """Ranks of one task's positives, from the counts of the merged pairs.

    The rank of a positive is its place among its query's positives, plus the number of other gallery items that score
    at least as high. So items that tie with a positive rank above it.
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
    indptr = make_indptr(np.bincount(rows, minlength=judgments.query_ids.size))
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
        gallery_sizes(judgments),
        ties.astype(np.int64),
    )


def _by_row_and_score(rows: IntArray, scores: NDArray[np.float32]) -> IntArray:
    """Order by row, then by descending score: one sort of integers whose low half is the score."""
    bits = scores.view(np.int32)
    ascending = np.where(bits < 0, bits ^ np.int32(2**31 - 1), bits).astype(np.int64)
    return np.argsort(rows * 2**32 - ascending)


def _runs_of_equals(rows: IntArray, scores: NDArray[np.float32]) -> tuple[IntArray, IntArray]:
    """First and last index of the run of equal scores within one query to which each entry belongs."""
    new = np.ones(rows.size, dtype=bool)
    new[1:] = (np.diff(rows) != 0) | (np.diff(scores) != 0)
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], rows.size) - 1
    run = np.cumsum(new) - 1
    return starts[run], ends[run]


def positives_last(
    queries: IntArray, scores: FloatArray, positive: NDArray[np.bool_], n_queries: int
) -> tuple[IntArray, IntArray]:
    """Order in which positives follow the items they tie with, and the number of such items of each query."""
    if not queries.size:
        return np.empty(0, dtype=np.int64), np.zeros(n_queries, dtype=np.int64)
    new = np.append(True, (queries[1:] != queries[:-1]) | (scores[1:] != scores[:-1]))
    group = np.cumsum(new) - 1
    reached = np.logical_or.reduceat(positive, np.flatnonzero(new))
    ties = np.bincount(queries[reached[group] & ~positive], minlength=n_queries)
    return np.lexsort((positive, group)), ties


def order_of_gains(gains: FloatArray) -> tuple[IntArray, int]:
    """Sort keys of items with equal scores: judged items without gain, then unjudged items, then others by gain.

    Returns (J,) keys for the gains of J judged items, and the key of unjudged items.
    """
    levels = np.append(np.where(gains > 0, gains, -1.0), 0.0)
    codes = np.unique(levels, return_inverse=True)[1]
    return codes[:-1], int(codes[-1])


def count_pushed_out(surplus: IntArray, tied: IntArray, tied_matches: IntArray) -> tuple[IntArray, IntArray]:
    """Matches that a tie at the end of the top pushes out, as other items rank above matches of the same score.

    ``tied`` items have the score of the last item, ``tied_matches`` of them are matches, and ``surplus`` items too many
    reach that score. Returns the number of matches that are out, and of other items that tie with a match if that
    decides.
    """
    decides = (surplus > 0) & (tied_matches > 0)
    return np.minimum(tied_matches, surplus), np.where(decides, tied - tied_matches, 0)
