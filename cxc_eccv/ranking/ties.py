"""The tie rule: where items of equal scores stand. No other file decides it.

Items rank by score, highest first, and of items with equal scores those that help a query least come first. So an item
that ties with a positive ranks above it. What is ranked by this rule also says where it would stand in the reverse
order of equal scores, if ties helped (``if_ties_help``). The kernels count for this rule in compiled form:
``row_counts`` and ``column_counts`` count the items that reach a positive's score and those that exceed it,
``match_counts`` the items that tie at the end of a top; :func:`rank_positives` and :func:`count_pushed_out` turn these
into ranks and matches.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import DataError
from cxc_eccv.ranking.counts import Counts, Share, gallery_sizes
from cxc_eccv.ranking.cut_rankings import GivenRanks
from cxc_eccv.types import FloatArray, IntArray, Judgments, PositiveRanks, TopK, look_up_gains
from cxc_eccv.types.ids import make_indptr, number_within

Flags = NDArray[np.bool_]


def rank_positives(share: Share, counts: Counts) -> PositiveRanks:
    """Ranks of one task's positives, from the counts of the merged pairs.

    The rank of a positive is its place among its query's positives, plus the number of other gallery items that score
    at least as high. So items that tie with a positive rank above it.
    """
    judgments = share.judgments
    rows = judgments.rows[share.kept]
    order = _sort_by_score(rows, counts.scores[share.pairs])
    rows = rows[order]
    pairs = share.pairs[order]
    scores = counts.scores[pairs]
    competes = share.competes[rows]
    at_least, above = (
        np.einsum("ps,ps->p", table.take(pairs, axis=0), competes) for table in (counts.at_least, counts.above)
    )
    indptr = make_indptr(np.bincount(rows, minlength=judgments.query_ids.size))
    within = np.arange(rows.size) - indptr[rows]
    first, last = _find_runs(rows, scores)
    others = at_least - (within[last] + 1)
    leads = first == np.arange(rows.size)
    tied = at_least - above - (last - first + 1)
    ties = np.bincount(rows[leads], weights=tied[leads], minlength=judgments.query_ids.size)
    ranks = PositiveRanks(
        judgments.query_ids,
        indptr,
        within + 1 + others,
        judgments.n_positives,
        gallery_sizes(judgments),
        ties.astype(np.int64),
    )
    if not ties.any():
        return ranks
    place_in_tie = np.arange(rows.size) - first
    return replace(ranks, if_ties_help=replace(ranks, ranks=above + place_in_tie + 1))


def _sort_by_score(rows: IntArray, scores: NDArray[np.float32]) -> IntArray:
    """Order by row, then by descending score: one sort of integers whose low half is the score."""
    bits = scores.view(np.int32)
    ascending = np.where(bits < 0, bits ^ np.int32(2**31 - 1), bits).astype(np.int64)
    return np.argsort(rows * 2**32 - ascending)


def _find_runs(rows: IntArray, scores: NDArray[Any]) -> tuple[IntArray, IntArray]:
    """First and last index of the run of equal scores within one query to which each entry belongs."""
    new = np.ones(rows.size, dtype=bool)
    new[1:] = (np.diff(rows) != 0) | (np.diff(scores) != 0)
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], rows.size) - 1
    run = np.cumsum(new) - 1
    return starts[run], ends[run]


def count_reaching(rows: IntArray, scores: NDArray[Any]) -> IntArray:
    """(P,) number of the P items whose score in the same row is at least that of each."""
    order = np.lexsort((-scores, rows))
    last = _find_runs(rows[order], scores[order])[1]
    counts = np.empty_like(order)
    counts[order] = last + 1 - np.searchsorted(rows[order], rows[order])
    return counts


def rank_labelled(rows: IntArray, reached: IntArray, gains: FloatArray) -> IntArray:
    """(P,) ranks of all labelled items of some queries, from the number of items that reach the score of each.

    Of items with equal scores those without a label come first, then the others in ascending order of gain.
    """
    order = np.lexsort((gains, reached, rows))
    last = _find_runs(rows[order], reached[order])[1]
    ranks = np.empty_like(order)
    ranks[order] = reached[order] - (last - np.arange(order.size))
    return ranks


def order_ties(
    queries: IntArray, scores: FloatArray, positive: Flags, n_queries: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Two orders of ranked items: positives after the items they tie with, and before them if ties help.

    The third array is (Q,) the number of other items that tie with a positive.
    """
    new = np.append(True, (queries[1:] != queries[:-1]) | (scores[1:] != scores[:-1]))
    group = np.cumsum(new) - 1
    reached = np.logical_or.reduceat(positive, np.flatnonzero(new))
    ties = np.bincount(queries[reached[group] & ~positive], minlength=n_queries)
    return np.lexsort((positive, group)), np.lexsort((~positive, group)), ties


def make_keys(gains: FloatArray) -> tuple[IntArray, int]:
    """Sort keys of items with equal scores: judged items without gain, then unjudged items, then others by gain.

    Returns (J,) keys for the gains of J judged items, and the key of unjudged items.
    """
    levels = np.append(np.where(gains > 0, gains, -1.0), 0.0)
    codes = np.unique(levels, return_inverse=True)[1]
    return codes[:-1], int(codes[-1])


def choose_top(
    rows: IntArray, scores: NDArray[Any], keys: IntArray, lowest: NDArray[Any], depth: int
) -> tuple[IntArray, IntArray]:
    """The top of every row, best first, from (P,) candidates that reach the score ``lowest`` at its depth.

    Of candidates with that score, those of the lowest keys are taken. Returns the indices of the candidates, row by
    row, and the number of candidates of each row that are left out.
    """
    counts = np.bincount(rows, minlength=lowest.size)
    taken = np.ones(rows.size, dtype=bool)
    for row in np.flatnonzero(counts > depth).tolist():
        candidates = np.arange(*np.searchsorted(rows, [row, row + 1]))
        tied = candidates[scores[candidates] == lowest[row]]
        room = depth - (candidates.size - tied.size)
        taken[tied[np.argpartition(keys[tied], room)[room:]]] = False
    indices = np.flatnonzero(taken)
    return indices[np.lexsort((keys[indices], -scores[indices], rows[indices]))], counts - depth


def count_pushed_out(surplus: IntArray, tied: IntArray, tied_matches: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Matches that a tie at the end of the top pushes out, as other items rank above matches of the same score.

    ``tied`` items have the score of the last item, ``tied_matches`` of them are matches, and ``surplus`` items too many
    reach that score. Returns the number of matches that are out, the number that would be out if ties helped, and the
    number of other items that tie with a match if that decides.
    """
    others = tied - tied_matches
    decides = (surplus > 0) & (tied_matches > 0)
    return np.minimum(tied_matches, surplus), np.maximum(surplus - others, 0), np.where(decides, others, 0)


def rank_judged(row: NDArray[Any], judged: NDArray[Any], positive: Flags) -> tuple[IntArray, IntArray, int]:
    """(J,) ranks of judged items by their scores among those of a whole row, and (J,) ranks if ties helped.

    Of equal scores judged negatives stand first, then items that nobody judged, then positives; if ties helped, the
    other way round. The third value is the number of other items that tie with a positive.
    """
    ascending = np.sort(row)
    above = row.size - np.searchsorted(ascending, judged, side="right")
    level = row.size - np.searchsorted(ascending, judged) - above  # items of this score
    group, sizes = np.unique(-judged, return_inverse=True, return_counts=True)[1:]
    unjudged = level - sizes[group]
    strict = above + _place_in_groups(group, sizes, positive) + np.where(positive, unjudged, 0)
    helped = above + _place_in_groups(group, sizes, ~positive) + np.where(positive, 0, unjudged)
    positives = np.bincount(group, positive, sizes.size).astype(np.int64)
    levels = np.zeros_like(sizes)
    levels[group] = level
    return strict, helped, int((levels - positives)[positives > 0].sum())


def _place_in_groups(group: IntArray, sizes: IntArray, is_last: Flags) -> IntArray:
    """(J,) place of each item in its group, from 1; those that are last follow the others."""
    places = np.empty_like(group)
    order = np.lexsort((is_last, group))
    places[order] = number_within(sizes) + 1
    return places


def find_tied_last(owners: IntArray, scores: NDArray[Any], last: NDArray[Any]) -> Flags:
    """(P,) whether each ranked item ties with another one, and with the last item of its ranking."""
    tied: Flags = scores == last[owners]
    return tied & (np.bincount(owners[tied], minlength=last.size) > 1)[owners]


def drop_cut(ranks: GivenRanks) -> GivenRanks:
    """The ranks without the positives that tie with the last item of a ranking that leaves items out."""
    certain = np.arange(ranks.ranks.size) < np.repeat(ranks.indptr[1:] - ranks.cut, ranks.n_found)
    return replace(ranks, ranks=ranks.ranks[certain], indptr=make_indptr(ranks.n_found - ranks.cut))


def count_tied_tops(top: TopK, gains: FloatArray, looked_at: Flags) -> int:
    """Number of queries in which items of different gain tie in the top, or a tie continues below it."""
    if top.scores is None or top.cut is None:
        return 0
    equal = top.scores[:, 1:] == top.scores[:, :-1]
    within = (equal[:, : gains.shape[1] - 1] & (gains[:, 1:] != gains[:, :-1]) & looked_at[:, 1:]).any(axis=1)
    goes_on = np.column_stack([equal, top.cut > 0])
    last = looked_at.sum(axis=1) - 1
    return int(np.count_nonzero(within | goes_on[np.arange(last.size), last]))


def find_tied_across(top: TopK, judgments: Judgments, depth: int) -> Flags:
    """(Q, K) whether each of the first ``depth`` items ties with an unjudged item below them.

    In a tie that goes on below the whole top the items there may be unjudged.
    """
    if top.scores is None or top.cut is None:
        return np.zeros((len(top.ids), depth), dtype=bool)
    last = top.scores[:, depth - 1 : depth]
    if depth == top.depth:
        goes_on = top.cut > 0
    else:
        is_judged = look_up_gains(top, judgments, depth + 1, "bounds")[1][:, depth]
        goes_on = (top.scores[:, depth] == last[:, 0]) & ~is_judged
    tied: Flags = goes_on[:, None] & (top.scores[:, :depth] == last)
    return tied


def shorten_top(top: TopK, depth: int) -> TopK:
    """The top cut to a depth, and how many items below it tie with the last one."""
    if top.depth == depth or top.scores is None or top.cut is None:
        return top
    tied = (top.scores[:, depth:] == top.scores[:, depth - 1 : depth]).sum(axis=1)
    beyond = np.where(top.scores[:, -1] == top.scores[:, depth - 1], top.cut, 0)
    return TopK(top.query_ids, top.ids[:, :depth], top.scores[:, :depth], tied + beyond)


def span_ties(top: TopK, positive: Flags, ranks: tuple[IntArray, IntArray]) -> tuple[IntArray, IntArray]:
    """Where each tie in the top ends: (Q, D) indices of its last item in the top, and ranks of its last non-positive.

    ``positive`` is (Q, D) bool; ``ranks`` are the (P,) rows and ranks of all positives.
    """
    if top.scores is None or top.cut is None:
        raise DataError("bounds need the scores of the top items, to find ties")
    n_queries, depth = top.ids.shape
    changes = top.scores[:, 1:] != top.scores[:, :-1]
    every = np.arange(depth)
    starts = np.maximum.accumulate(np.where(np.insert(changes, 0, True, axis=1), every, 0), axis=1)
    lasts = np.where(np.insert(changes, depth - 1, True, axis=1), every, depth)
    ends = np.minimum.accumulate(lasts[:, ::-1], axis=1)[:, ::-1]
    in_sight = np.cumsum(positive, axis=1)
    counts: IntArray = np.take_along_axis(in_sight, ends, axis=1) - np.take_along_axis(
        in_sight - positive, starts, axis=1
    )
    # Positives come last in a tie, so those of a tie that continues below the top may all be below it.
    owners, known_ranks = ranks
    below = (known_ranks > depth) & (known_ranks <= depth + top.cut[owners])
    others_below = top.cut - np.bincount(owners[below], minlength=n_queries)
    lowest = ends + 1 - counts + np.where(ends == depth - 1, others_below[:, None], 0)
    return ends, lowest


def rank_in_ties(labels: Flags, ends: IntArray, lowest: IntArray) -> IntArray:
    """(Q, D) rank of each item of the top that is positive under the labels; other entries have no meaning."""
    counts = np.cumsum(labels, axis=1)
    return np.asarray(lowest - np.take_along_axis(counts, ends, axis=1) + counts)


def extend_ties(ends: IntArray, lowest: IntArray, every: IntArray) -> tuple[IntArray, IntArray]:
    """The ends of ties of (Q, D) items in the indices ``every`` of (Q, W) items, of which the further ones do not tie.

    The last tie of the D items counts as none, as labels of its items below the top lift those in the top.
    """
    depth = ends.shape[1]
    inside = ends < ends[:, -1:]
    further = every.copy()
    below = every + 1
    further[:, :depth] = np.where(inside, ends, further[:, :depth])
    below[:, :depth] = np.where(inside, lowest, below[:, :depth])
    return further, below
