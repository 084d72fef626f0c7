"""Keeps of a run what later reports need: the top of every list, and counts for known positives."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import DataError
from cxc_eccv.ranking.counts import Counts, MergedJudgments
from cxc_eccv.ranking.known import name_galleries
from cxc_eccv.ranking.rank import Requests, counts_of_run
from cxc_eccv.ranking.readers import TopRows
from cxc_eccv.runs import EmbeddingsRun, MultiVectorRun, ScoresRun
from cxc_eccv.runs.rankings import KnownPositives, RankedLists, narrow_ids
from cxc_eccv.types import CROSS_MODAL, IntArray, Judgments, TopK, positions_of

FURTHER = 4
"""Lists may be longer by one in so many items, to end with the last of those that tie."""


def keep_lists(
    run: EmbeddingsRun | MultiVectorRun | ScoresRun,
    judgments: Requests,
    depth: int,
    **options: Any,  # noqa: ANN401 - of positive_ranks_many
) -> dict[str, RankedLists]:
    """Direction to its known positives and, across modalities, the top items of every query.

    Of items that tie around the depth all are kept, or none if they are many.
    """
    named: dict[str, list[Judgments]] = {}
    for direction, judged in judgments.values():
        named.setdefault(direction, []).append(judged)
    readers = {
        direction: [TopRows(max(named[direction], key=lambda judged: judged.query_ids.size), depth + depth // FURTHER)]
        for direction in CROSS_MODAL
        if direction in named
    }
    is_double = isinstance(run, ScoresRun) and run.scores.dtype == np.float64
    lists = {}
    for direction, (merged, counts) in counts_of_run(run, judgments, readers=readers, **options).items():
        known, place = _find_known(named[direction], merged, counts), f"run, {direction}"
        indptr, items, scores = np.zeros(merged.query_ids.size + 1, np.int64), np.empty(0, np.int64), np.empty(0)
        if direction in readers:
            indptr, items, scores = _cut(readers[direction][0].result, merged.query_ids, depth)
        scores = scores.astype(np.float64 if is_double else np.float32)
        lists[direction] = RankedLists(merged.query_ids, indptr, narrow_ids(items), scores, place=place, known=known)
    return lists


def _cut(top: TopK, query_ids: IntArray, depth: int) -> tuple[IntArray, IntArray, NDArray[Any]]:
    """Boundaries, items and scores of lists that end where no tie goes on, at the depth or a little later."""
    rows, have_lists = positions_of(query_ids, top.query_ids)
    if not have_lists.all() or top.scores is None or top.cut is None:
        raise DataError(f"query {query_ids[~have_lists][0]} has no positive in any task of all queries")
    ids, scores, cut = top.ids[rows], top.scores[rows], top.cut[rows]
    ends = np.column_stack([scores[:, 1:] < scores[:, :-1], cut == 0])  # whether a list may end with this item
    lengths = np.arange(1, ids.shape[1] + 1)
    after = np.where(ends & (lengths >= min(depth, lengths[-1])), lengths, lengths[-1] + 1).min(axis=1)
    before = np.where(ends & (lengths < depth), lengths, 0).max(axis=1)
    kept = np.where(after > lengths[-1], before, after)
    within = lengths <= kept[:, None]
    return np.append(0, np.cumsum(kept)), ids[within], scores[within]


def _find_known(named: list[Judgments], merged: MergedJudgments, counts: Counts) -> KnownPositives:
    """The counts of all merged pairs in every gallery that a task ranks."""
    galleries: list[str] = []
    columns: list[IntArray] = []
    at_least: list[IntArray] = []
    above: list[IntArray] = []
    for judged, share in zip(named, merged.shares.values(), strict=True):
        names, chosen = name_galleries(judged)
        if set(names) <= set(galleries):
            continue
        if len(names) == 1:  # of queries without a positive of this task too
            gallery = np.zeros(merged.query_ids.size, dtype=np.int64)
            competes = np.broadcast_to(share.competes[0], (merged.query_ids.size, merged.n_segments))
        else:
            rows, asked = positions_of(merged.query_ids, judged.query_ids)
            gallery = np.where(asked, chosen[rows], -1)
            competes = share.competes[rows] & asked[:, None]
        columns.append(np.where(gallery < 0, -1, gallery + len(galleries)))
        galleries += names
        for table, columns_of_table in ((counts.at_least, at_least), (counts.above, above)):
            columns_of_table.append(np.einsum("ps,ps->p", table, competes[merged.queries]))
    indptr = np.append(0, np.cumsum(np.bincount(merged.queries, minlength=merged.query_ids.size)))
    items = merged.gallery_ids[merged.items]
    order = np.lexsort((items, merged.queries))
    reached, exceeded = (np.stack(table, axis=1)[order] for table in (at_least, above))
    return KnownPositives(indptr, items[order], reached, exceeded, np.stack(columns, axis=1), tuple(galleries))
