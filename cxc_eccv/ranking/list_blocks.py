"""Where positives stand in ranked lists: many lists at a time, by tables over the gallery."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.tied_lists import positives_last
from cxc_eccv.runs.ranked_lists import RankedLists
from cxc_eccv.types import IntArray, Judgments, positions_of
from cxc_eccv.types.ids import DENSE_SPAN

__all__ = ["ITEMS_AT_ONCE", "Found", "GalleryPlaces", "found_in_lists", "joined"]

ITEMS_AT_ONCE = 2**18
FLAGS_AT_ONCE = 2**25


class Found(NamedTuple):
    """What lists hold of the positives of Q queries.

    Attributes:
        ranks: (F,) ranks of those that they hold, by query, ascending.
        counts: (Q,) number of those.
        depths: (Q,) items of the query's gallery in its list.
        ties: (Q,) items other than positives whose score equals that of a positive; 0 where no scores are known.
    """

    ranks: IntArray
    counts: IntArray
    depths: IntArray
    ties: IntArray


def found_in_lists(lists: RankedLists, rows: IntArray, judgments: Judgments) -> Found:
    """Find the positives; items that a query does not rank are passed over.

    Args:
        lists: checked, no item twice in a list.
        rows: (Q,) list of each query of the judgments.
        judgments: positives, gallery and folds.

    Example:
        >>> lists = RankedLists.of({5: [30, 10, 99, 20]})
        >>> found = found_in_lists(lists, np.array([0]), Judgments.from_pairs([5], [10, 20, 30], [5], [20]))
        >>> found.ranks.tolist(), found.depths.tolist()
        ([3], [3])
    """
    gallery = GalleryPlaces(lists.item_ids, judgments.gallery_ids)
    parts = [_found(lists, rows[block], judgments, block, gallery) for block in _blocks(lists, rows, judgments)]
    return Found(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _blocks(lists: RankedLists, rows: IntArray, judgments: Judgments) -> Iterator[IntArray]:
    """Queries that are looked at together, so that what is computed for their items stays small."""
    items = np.cumsum(lists.depths[rows]) // ITEMS_AT_ONCE
    flags = np.arange(rows.size) * judgments.gallery_ids.size // FLAGS_AT_ONCE
    yield from np.split(np.arange(rows.size), np.flatnonzero(np.diff(items) | np.diff(flags)) + 1)


class GalleryPlaces:
    """Place in the gallery of each ranked item, -1 outside: one table for all lists.

    Args:
        item_ids: (N,) the distinct items of the lists, ascending.
        gallery_ids: (M,) ids of the gallery.
    """

    def __init__(self, item_ids: IntArray, gallery_ids: IntArray) -> None:
        places, known = positions_of(item_ids, gallery_ids)
        self._ids, self._low = item_ids, int(item_ids[0])
        span = int(item_ids[-1]) - self._low + 1
        self._dense = span <= DENSE_SPAN * item_ids.size
        self._table = np.full(span if self._dense else item_ids.size, -1, dtype=np.int32)
        self._table[item_ids - self._low if self._dense else slice(None)] = np.where(known, places, -1)

    def of(self, items: NDArray[Any]) -> NDArray[np.int32]:
        """(P,) places of the items, each one of ``item_ids``."""
        return self._table[items - self._low if self._dense else np.searchsorted(self._ids, items)]


def _found(lists: RankedLists, rows: IntArray, judgments: Judgments, block: IntArray, gallery: GalleryPlaces) -> Found:
    owners = np.repeat(np.arange(block.size), lists.depths[rows])
    items = joined(lists, lists.items, rows)
    places = gallery.of(items)
    kept = _competing(items, places, owners, judgments, block)
    if not kept.all():
        owners, places = owners[kept], places[kept]
    positive, ties = _are_positive(owners, places, judgments, block), np.zeros(block.size, dtype=np.int64)
    if lists.scores is not None:
        order, ties = positives_last(owners, joined(lists, lists.scores, rows)[kept], positive, block.size)
        positive = positive[order]
    depths, at = np.bincount(owners, minlength=block.size), np.flatnonzero(positive)
    ranks = at - (np.cumsum(depths) - depths)[owners[at]] + 1
    return Found(ranks, np.bincount(owners[at], minlength=block.size), depths, ties)


def joined(lists: RankedLists, values: NDArray[Any], rows: IntArray) -> NDArray[Any]:
    """Values of the items of several lists, one list after the other."""
    return np.concatenate([values[lists.indptr[row] : lists.indptr[row + 1]] for row in rows])


def _competing(
    items: NDArray[Any], places: NDArray[np.int32], owners: IntArray, judgments: Judgments, block: IntArray
) -> NDArray[np.bool_]:
    """Whether an item is in the gallery that its query ranks."""
    kept: NDArray[np.bool_] = places >= 0
    if judgments.query_folds is not None and judgments.gallery_folds is not None:
        kept &= judgments.gallery_folds[places] == judgments.query_folds[block][owners]
    if judgments.without_self:
        kept &= items != judgments.query_ids[block][owners]
    return kept


def _are_positive(
    owners: IntArray, places: NDArray[np.int32], judgments: Judgments, block: IntArray
) -> NDArray[np.bool_]:
    size = judgments.gallery_ids.size
    start, stop = judgments.indptr[[block[0], block[-1] + 1]]
    flags = np.zeros(block.size * size, dtype=bool)
    flags[(judgments.rows[start:stop] - block[0]) * size + judgments.indices[start:stop]] = True
    positive: NDArray[np.bool_] = flags[owners * size + places]
    return positive
