"""The tie rule, in its one place: from counts to the ranks of all positives."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.counting import Counts
from cxc_eccv.ranking.demand import Demand, Part
from cxc_eccv.types import IntArray, PositiveRanks, positions_of

__all__ = ["ranks_of_part"]


def ranks_of_part(demand: Demand, part: Part, counts: Counts) -> PositiveRanks:
    """Ranks of one task's positives.

    The rank of a positive is its order among its query's positives, plus the number of other gallery items that score
    as high or higher. Items tied with a positive therefore stand above it; a constant scorer ranks every positive
    last.

    Args:
        demand: the merged judgments.
        part: the task's share.
        counts: what was counted for the demand's pairs.
    """
    judgments = part.judgments
    rows = judgments.rows[part.kept]
    order = _by_row_and_score(rows, counts.scores[part.pairs])
    rows, pairs = rows[order], part.pairs[order]
    scores = counts.scores[pairs]
    competes = part.competes[rows]
    at_least = np.where(competes, counts.at_least[pairs], 0).sum(axis=1)
    above = np.where(competes, counts.above[pairs], 0).sum(axis=1)
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
        _gallery_sizes(demand, part),
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


def _gallery_sizes(demand: Demand, part: Part) -> IntArray:
    """(Q,) items that each query ranks, itself left out where the judgments say so."""
    sizes = part.competes @ np.bincount(demand.segments, minlength=demand.n_segments)
    if demand.without_self:
        places, known = positions_of(part.judgments.query_ids, demand.gallery_ids)
        sizes = sizes - (known & part.competes[np.arange(known.size), demand.segments[places]])
    return np.asarray(sizes, dtype=np.int64)
