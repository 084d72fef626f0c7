"""Ranks from ranked lists, which may lack scores and end early; each is restricted to the gallery of its query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import InvalidOption, MissingIds
from cxc_eccv.ranking.counts import gallery_sizes
from cxc_eccv.ranking.cut_rankings import GivenRanks
from cxc_eccv.ranking.ranked import (
    NO_READERS,
    Items,
    Ranked,
    Readers,
    Requests,
    collect_missing,
    find_lists,
    refuse_vector_options,
)
from cxc_eccv.ranking.readers import RowReader
from cxc_eccv.ranking.scores import Layout, Options
from cxc_eccv.ranking.ties import find_tied_last, order_ties
from cxc_eccv.runs.rankings import RankedLists, RankingsRun
from cxc_eccv.types import FloatArray, IntArray, Judgments, RatedPairs, TopK, find_positions
from cxc_eccv.types.ids import find_distinct, make_indptr, measure_span, number_within

LIST_ITEMS_AT_ONCE = 2**18
LIST_FLAGS_AT_ONCE = 2**25
LIST_SCORES_AT_ONCE = 2**22


class ByLists(Ranked):
    """Ranks of ranked lists; they are GivenRanks, which may be incomplete."""

    run: RankingsRun

    def __init__(self, run: RankingsRun, options: Options = Options()) -> None:  # noqa: B008 - frozen
        refuse_vector_options(run, options)
        self.run = run

    def rank_all(self, judgments: Requests, readers: Readers = NO_READERS) -> Mapping[str, GivenRanks]:
        """Ranks by name, as far as the rankings hold them."""
        for direction, readers_of_direction in readers.items():
            for reader in readers_of_direction:
                self._read(reader, direction)
        return {name: self.rank(judged, direction) for name, (direction, judged) in judgments.items()}

    def rank(self, judgments: Judgments, direction: str) -> GivenRanks:
        """Ranks of the positives of all queries, as far as the rankings hold them."""
        rows = find_lists(judgments.query_ids, self.run, direction)
        lists = self.run.lists[direction]
        gallery = _GalleryIndex(lists.item_ids, judgments.gallery_ids)
        n_flags = np.arange(rows.size) * judgments.gallery_ids.size
        blocks = _blocks(np.cumsum(lists.depths[rows]) // LIST_ITEMS_AT_ONCE, n_flags // LIST_FLAGS_AT_ONCE)
        parts = [_rank_positives(lists, rows[block], judgments, block, gallery) for block in blocks]
        ranks, helped, counts, depths, ties, last = (np.concatenate(column) for column in zip(*parts, strict=True))
        indptr = make_indptr(counts)
        sizes = gallery_sizes(judgments)
        complete = depths == sizes
        cut = np.where(complete, 0, last)
        given = GivenRanks(
            judgments.query_ids, indptr, ranks, judgments.n_positives, sizes, ties, depths, complete, cut
        )
        return replace(given, if_ties_help=replace(given, ranks=helped)) if ties.any() else given

    def find_top(self, judgments: Judgments, direction: str, k: int) -> TopK:
        """The top k items of every query; without scores if the lists have none."""
        top = super().find_top(judgments, direction, k)
        return top if self.run.lists[direction].scores is not None else TopK(top.query_ids, top.ids)

    def knows_ties(self, direction: str) -> bool:
        """Whether the lists of a direction have scores."""
        return self.run.lists[direction].scores is not None

    def compare(self, pairs: RatedPairs, direction: str) -> FloatArray:
        """Raise InvalidOption."""
        raise InvalidOption(f"rankings have no similarities of rated pairs in the direction {direction}")

    def find_missing(self, needs: Iterable[Items]) -> list[MissingIds]:
        """An error for each direction that lacks rankings of queries."""
        queries: dict[str, list[IntArray]] = {}
        ranks_gallery: dict[str, bool] = {}
        for need in needs:
            direction = need.direction
            queries.setdefault(direction, []).append(need.query_ids)
            if direction in self.run.lists and not ranks_gallery.get(direction):
                items = self.run.lists[direction].item_ids
                ranks_gallery[direction] = bool(find_positions(need.gallery_ids, items)[1].any())
        return collect_missing(
            partial(
                find_lists,
                find_distinct(np.concatenate(ids)),
                self.run,
                direction,
                is_of_other_data=not ranks_gallery.get(direction),
            )
            for direction, ids in queries.items()
        )

    def limit_depth(self, depth: int, judgments: Judgments, direction: str) -> int:
        """The depth, or that of the shallowest ranking of these queries."""
        lists = find_lists(judgments.query_ids, self.run, direction)
        return min(depth, int(self.run.depths(direction)[lists].min()))

    def _read(self, reader: RowReader, direction: str) -> None:
        """Let a reader read the rankings of its queries."""
        rows = find_lists(reader.query_ids, self.run, direction)
        lists = self.run.lists[direction]
        gallery = _GalleryIndex(lists.item_ids, reader.gallery_ids)
        layout = Layout.of(np.zeros(reader.gallery_ids.size, dtype=np.int64))
        reader.attach(reader.query_ids, reader.gallery_ids, layout.column, layout.width)
        totals = np.cumsum(lists.depths[rows]) // LIST_ITEMS_AT_ONCE
        if reader.deepest is None:
            totals = np.arange(rows.size) // max(1, LIST_SCORES_AT_ONCE // layout.width)
        for block in _blocks(totals):
            if reader.error is not None:
                break
            owners, items, scores = _rank_items(lists, rows[block], reader, gallery)
            reader.n_cut += _count_cut(lists, rows[block], reader, block, owners, scores)
            if reader.deepest is None:
                whole = np.full((block.size, layout.width), -np.inf)
                whole[owners, layout.column[items]] = scores
                reader.read(whole, int(block[0]))
            else:
                reader.take(block, *_best(owners, items, scores, block.size, reader.deepest))


def _blocks(*totals: IntArray) -> list[IntArray]:
    """Blocks of queries within which all totals stay the same, which limits the memory of a block."""
    changes = np.any([np.diff(total) for total in totals], axis=0)
    return np.split(np.arange(totals[0].size), np.flatnonzero(changes) + 1)


class _GalleryIndex:
    """Table of the index in the gallery of each of the ascending ``item_ids``, -1 for items outside."""

    def __init__(self, item_ids: IntArray, gallery_ids: IntArray) -> None:
        indices, present = find_positions(item_ids, gallery_ids)
        self._ids = item_ids
        self._low, span, self._dense = measure_span(item_ids) if item_ids.size else (0, 0, False)
        self._table = np.full(span if self._dense else item_ids.size, -1, dtype=np.int32)
        self._table[item_ids - self._low if self._dense else slice(None)] = np.where(present, indices, -1)

    def find(self, items: NDArray[Any]) -> NDArray[np.int32]:
        """(P,) indices of items, which must be among ``item_ids``."""
        return self._table[items - self._low if self._dense else np.searchsorted(self._ids, items)]


def _rank_positives(
    lists: RankedLists, rows: IntArray, judgments: Judgments, block: IntArray, gallery: _GalleryIndex
) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray, IntArray]:
    """Ranks of the positives of a block of B queries, also if ties helped, and four numbers of each query.

    The (B,) numbers are the positives, the depths, the ties, and the positives that tie with the last item.
    """
    owners, indices, kept = _find_items(lists, rows, judgments, gallery)
    of_queries, of_items = judgments.folds
    kept &= of_items[indices] == of_queries[block][owners]
    if not kept.all():
        owners = owners[kept]
        indices = indices[kept]
    size, (start, stop) = judgments.gallery_ids.size, judgments.indptr[[block[0], block[-1] + 1]]
    flags = np.zeros(block.size * size, dtype=bool)
    flags[(judgments.rows[start:stop] - block[0]) * size + judgments.indices[start:stop]] = True
    positive = flags[owners * size + indices]
    helped = positive
    ties, last = np.zeros((2, block.size), dtype=np.int64)
    if lists.scores is not None and owners.size:
        scores = _join(lists, lists.scores, rows)[kept]
        order, helping_order, ties = order_ties(owners, scores, positive, block.size)
        helped = positive[helping_order]
        positive = positive[order]
        last = np.bincount(owners[_find_last(lists, rows, owners, scores) & positive], minlength=block.size)
    depths = np.bincount(owners, minlength=block.size)
    starts = np.cumsum(depths) - depths
    at = np.flatnonzero(positive)
    at_if_helped = np.flatnonzero(helped)
    counts = np.bincount(owners[at], minlength=block.size)
    ranks = at - starts[owners[at]] + 1
    return ranks, at_if_helped - starts[owners[at_if_helped]] + 1, counts, depths, ties, last


def _join(lists: RankedLists, values: NDArray[Any], rows: IntArray) -> NDArray[Any]:
    """Values of the items of several lists, concatenated."""
    return np.concatenate([values[lists.indptr[row] : lists.indptr[row + 1]] for row in rows])


def _find_last(lists: RankedLists, rows: IntArray, owners: IntArray, scores: NDArray[Any]) -> NDArray[np.bool_]:
    """(P,) whether each item ties with another one and with the last item of its ranking."""
    if lists.scores is None:
        return np.zeros(owners.size, dtype=bool)
    return find_tied_last(owners, scores, lists.scores[lists.indptr[rows + 1] - 1])


def _count_cut(
    lists: RankedLists, rows: IntArray, reader: RowReader, block: IntArray, owners: IntArray, scores: FloatArray
) -> int:
    """Number of rankings that leave items out and end within a tie with items that the reader needs."""
    depths = np.bincount(owners, minlength=rows.size)
    indices = number_within(depths)
    ranked = reader.gallery_ids.size - (reader.without_self & np.isin(reader.query_ids[block], reader.gallery_ids))
    rests = _find_last(lists, rows, owners, scores) & (indices < reader.needs[block][owners])
    return np.unique(owners[rests & (depths < ranked)[owners]]).size


def _find_items(
    lists: RankedLists, rows: IntArray, asking: Judgments | RowReader, gallery: _GalleryIndex
) -> tuple[IntArray, NDArray[np.int32], NDArray[np.bool_]]:
    """For the items of several lists: query from 0, position in the gallery, and whether the query ranks the item."""
    owners = np.repeat(np.arange(rows.size), lists.depths[rows])
    items = _join(lists, lists.items, rows)
    indices = gallery.find(items)
    kept: NDArray[np.bool_] = indices >= 0
    if asking.without_self:
        kept &= items != lists.query_ids[rows][owners]
    return owners, indices, kept


def _rank_items(
    lists: RankedLists, rows: IntArray, reader: RowReader, gallery: _GalleryIndex
) -> tuple[IntArray, NDArray[np.int32], FloatArray]:
    """Query, position in the gallery and score of the items in several lists; scores do not rise within a list."""
    owners, indices, kept = _find_items(lists, rows, reader, gallery)
    if lists.scores is None:
        scores = -number_within(lists.depths[rows]).astype(np.float64)
    else:
        scores = _join(lists, lists.scores, rows)
    return owners[kept], indices[kept], scores[kept]


def _best(
    owners: IntArray, indices: NDArray[np.int32], scores: FloatArray, n_queries: int, depth: int
) -> tuple[FloatArray, IntArray]:
    """(B, C) scores and (B, C) positions of the best ``depth`` items of each query and of ties with the last one."""
    counts = np.bincount(owners, minlength=n_queries)
    starts = np.cumsum(counts) - counts
    lowest = np.full(n_queries, -np.inf)
    lowest[counts >= depth] = scores[starts[counts >= depth] + depth - 1]
    looked = np.flatnonzero(scores >= lowest[owners])
    within = looked - starts[owners[looked]]
    shape = n_queries, max(depth, within.max(initial=0) + 1)
    best = np.full(shape, -np.inf)
    items = np.zeros(shape, dtype=np.int64)
    best[owners[looked], within], items[owners[looked], within] = scores[looked], indices[looked]
    return best, items
