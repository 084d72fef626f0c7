"""Ranks from a kept run: from the counts of known positives, or from lists that end where no tie goes on.

The rank of a known positive follows from its counts, at any depth. That of another positive follows from its list, if
the list has it; if not, it ranks below the list, and the query has ranks down to the end of its list.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.counts import Counts, Share, entries_in_own_fold, gallery_sizes, rank_positives
from cxc_eccv.ranking.lists import GivenRanks, rows_of
from cxc_eccv.runs import RankingsRun
from cxc_eccv.runs.rankings import RankedLists
from cxc_eccv.types import IntArray, Judgments, PositiveRanks, positions_of

ITEMS_AT_ONCE = 2**22


def name_galleries(judgments: Judgments) -> tuple[tuple[str, ...], IntArray]:
    """The hashes of the galleries of judgments, one for each fold, and (Q,) which of them each query ranks."""
    rule = b"without the query" if judgments.without_self else b""
    if judgments.query_folds is None or judgments.gallery_folds is None:
        groups, chosen = [judgments.gallery_ids], np.zeros(judgments.query_ids.size, dtype=np.int64)
    else:
        folds = np.unique(judgments.gallery_folds)
        groups = [judgments.gallery_ids[judgments.gallery_folds == fold] for fold in folds]
        places, known = positions_of(judgments.query_folds, folds)
        chosen = np.where(known, places, -1)
    return tuple(hashlib.sha256(rule + np.sort(ids).tobytes()).hexdigest() for ids in groups), chosen


def ranks_of_known(run: RankingsRun, direction: str, judgments: Judgments) -> PositiveRanks | GivenRanks:
    """Ranks of the positives from known counts, or from the lists as far as these go."""
    rows, lists = rows_of(run, direction, judgments.query_ids), run.lists[direction]
    entries = entries_in_own_fold(judgments)
    counts, settled = _look_up(lists, rows, judgments, entries)
    lacking = np.zeros(rows.size, dtype=bool)
    lacking[judgments.rows[entries[~settled]]] = True
    depths = gallery_sizes(judgments)
    if lacking.any():
        depths = np.where(lacking, _count_listed(lists, rows, judgments), depths)
        settled &= ~lacking[judgments.rows[entries]] | (counts.at_least[:, 0] <= depths[judgments.rows[entries]])
    everywhere = np.ones((rows.size, 1), dtype=bool)
    share = Share(judgments, entries[settled], np.flatnonzero(settled), everywhere)
    ranks = rank_positives(share, counts)
    return GivenRanks(ranks, depths, ~lacking, by_fold=True) if lacking.any() else ranks


def _look_up(
    lists: RankedLists, rows: IntArray, judgments: Judgments, entries: IntArray
) -> tuple[Counts, NDArray[np.bool_]]:
    """The counts of E positives, each in the gallery of its query, and whether they are there."""
    queries, items = judgments.rows[entries], judgments.gallery_ids[judgments.indices[entries]]
    at_least, above = np.zeros((2, entries.size), dtype=np.int64)
    settled = np.zeros(entries.size, dtype=bool)
    if lists.known is not None:
        known, (names, chosen) = lists.known, name_galleries(judgments)
        numbers = np.array([known.galleries.index(name) if name in known.galleries else -2 for name in names])
        is_column = known.gallery[rows] == np.where(chosen < 0, -2, numbers[chosen])[:, None]
        pairs, settled = known.places(rows[queries], items)
        settled &= is_column[queries].any(axis=1)
        column, pairs = is_column.argmax(axis=1)[queries[settled]], pairs[settled]
        at_least[settled], above[settled] = known.at_least[pairs, column], known.above[pairs, column]
    others = np.flatnonzero(~settled)
    step = max(1, ITEMS_AT_ONCE // max(1, int(lists.depths.max())))
    for start in range(0, others.size, step):
        part = others[start : start + step]
        at_least[part], above[part] = _count_in_lists(lists, rows, judgments, queries[part], items[part])
    settled |= at_least > 0
    # Of one query, a positive has the higher score exactly if fewer items are above it.
    return Counts(-above.astype(np.float32), at_least[:, None], above[:, None]), settled


def _list_items(
    lists: RankedLists, rows: IntArray, judgments: Judgments, queries: IntArray
) -> tuple[IntArray, IntArray, NDArray[np.bool_]]:
    """Of the lists of some queries: the place in ``queries``, the item, and whether it is in the query's gallery."""
    depths = lists.depths[rows[queries]]
    owners = np.repeat(np.arange(queries.size), depths)
    at = np.arange(owners.size) + np.repeat(lists.indptr[rows[queries]] - np.cumsum(depths) + depths, depths)
    places, inside = positions_of(lists.items[at], judgments.gallery_ids)
    if judgments.query_folds is not None and judgments.gallery_folds is not None:
        inside = inside & (judgments.gallery_folds[places] == judgments.query_folds[queries[owners]])
    if judgments.without_self:
        inside = inside & (lists.items[at] != judgments.query_ids[queries[owners]])
    return owners, at, inside


def _count_in_lists(
    lists: RankedLists, rows: IntArray, judgments: Judgments, queries: IntArray, items: IntArray
) -> tuple[IntArray, IntArray]:
    """How many items of its list reach and exceed the score of each pair; 0 where the list lacks the item."""
    owners, at, inside = _list_items(lists, rows, judgments, queries)
    hits = inside & (lists.items[at] == items[owners])
    scores = np.zeros(0) if lists.scores is None else lists.scores[at]
    level = np.full(queries.size, np.inf)
    level[owners[hits]] = scores[hits]
    reached = np.bincount(owners[inside & (scores >= level[owners])], minlength=queries.size)
    return reached, np.bincount(owners[inside & (scores > level[owners])], minlength=queries.size)


def _count_listed(lists: RankedLists, rows: IntArray, judgments: Judgments) -> IntArray:
    """(Q,) number of items of the gallery in the list of each query."""
    step = max(1, ITEMS_AT_ONCE // max(1, int(lists.depths.max())))
    parts = []
    for start in range(0, rows.size, step):
        queries = np.arange(start, min(start + step, rows.size))
        owners, _, inside = _list_items(lists, rows, judgments, queries)
        parts.append(np.bincount(owners[inside], minlength=queries.size))
    return np.concatenate(parts)
