"""Ranks from a rankings run: each ranking restricted to the gallery that its query ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import MissingIds
from cxc_eccv.ranking.lists.given import GivenRanks
from cxc_eccv.ranking.readers.reader import RowReader
from cxc_eccv.ranking.scores.product import Layout
from cxc_eccv.ranking.tie_rule import positives_last
from cxc_eccv.runs.ranked_lists import RankedLists
from cxc_eccv.runs.rankings import RankingsRun
from cxc_eccv.types import IntArray, Judgments, PositiveRanks, positions_of
from cxc_eccv.types.ids import DENSE_SPAN

__all__ = ["Found", "found_in_lists", "ranks_from_rankings", "read_rankings", "rows_of"]

NAMED = 3


def ranks_from_rankings(run: RankingsRun, direction: str, judgments: Judgments) -> GivenRanks:
    """What a run's rankings say about the positives of the queries.

    Items outside the query's gallery, for example of other folds, are left out of its ranking, and so is the query
    itself where the judgments say so; the depth that remains is what is known. Where scores come with the order, items
    that tie with a positive stand above it; such ties are known only among the items of the ranking.

    Args:
        run: rankings of the direction.
        direction: ``i2t``, ``t2i``, ``t2t`` or ``i2i``.
        judgments: positives of every query.

    Raises:
        MissingIds: the run lacks the direction, or the rankings of some queries.

    Example:
        >>> run = RankingsRun.from_dicts(i2t={5: [30, 10, 20]})
        >>> given = ranks_from_rankings(run, "i2t", Judgments.from_pairs([5], [10, 20], [5], [20]))
        >>> given.ranks.ranks.tolist(), given.complete.tolist()
        ([2], [True])
    """
    rows = rows_of(run, direction, judgments.query_ids)
    found = found_in_lists(run.lists[direction], rows, judgments)
    indptr, sizes = np.append(0, np.cumsum(found.counts)), _gallery_sizes(judgments)
    known = PositiveRanks(judgments.query_ids, indptr, found.ranks, judgments.n_positives, sizes, found.ties)
    return GivenRanks(known, found.depths, found.depths == sizes)


def rows_of(run: RankingsRun, direction: str, query_ids: IntArray) -> IntArray:
    """(Q,) place of each query among the ranked lists of a direction.

    Raises:
        MissingIds: the run lacks the direction, or the rankings of some queries.

    Example:
        >>> rows_of(RankingsRun.from_dicts(i2t={5: [30, 10], 6: [20]}), "i2t", np.array([6])).tolist()
        [1]
    """
    if direction not in run.lists:
        raise MissingIds(f"{run.path or 'run'}: has no {direction} rankings, only {', '.join(run.lists)}")
    lists = run.lists[direction]
    rows, known = positions_of(query_ids, lists.query_ids)
    if known.all():
        return rows
    missing = query_ids[~known]
    first = ", ".join(map(str, missing[:NAMED]))
    remedy = "Rank the gallery for these too, or name the tasks whose queries the run has."
    for other, ranked in run.lists.items():
        if other != direction and np.isin(missing, ranked.query_ids).all():
            remedy = f"They are queries of {other}: the two directions look swapped."
    raise MissingIds(
        f"{lists.place}: lacks the rankings of {missing.size} of {query_ids.size} queries the task needs, the first: "
        f"{first}. {remedy}"
    )


def _gallery_sizes(judgments: Judgments) -> IntArray:
    """(Q,) items that each query ranks, itself left out where the judgments say so."""
    sizes = np.full(judgments.query_ids.size, judgments.gallery_ids.size)
    places, own = positions_of(judgments.query_ids, judgments.gallery_ids)
    if judgments.query_folds is not None and judgments.gallery_folds is not None:
        folds = judgments.query_folds[:, None] == np.unique(judgments.gallery_folds)
        sizes = folds @ np.unique(judgments.gallery_folds, return_counts=True)[1]
        own &= judgments.gallery_folds[places] == judgments.query_folds
    return sizes - own if judgments.without_self else sizes


SCORES_AT_ONCE = 2**22


def read_rankings(run: RankingsRun, direction: str, readers: Sequence[RowReader]) -> None:
    """Let readers read the rankings of one direction, each with its own queries and gallery.

    Items outside the gallery are left out, and so is the query where the reader says so. Scores that come with the
    rankings are read as they are; without them the order is trusted.

    Args:
        run: rankings of the direction.
        direction: ``i2t``, ``t2i``, ``t2t`` or ``i2i``.
        readers: what reads.

    Raises:
        MissingIds: the run lacks the direction, or the rankings of some queries.
        RunTooShallow: a ranking ends before a reader has what it needs.

    Example:
        >>> from cxc_eccv.ranking.readers.top_rows import TopRows
        >>> from cxc_eccv.types import Judgments
        >>> run = RankingsRun.from_dicts(i2t={5: [30, 10, 20]})
        >>> reader = TopRows(Judgments.from_pairs([5], [10, 20, 30], [5], [20]), depth=2)
        >>> read_rankings(run, "i2t", [reader])
        >>> reader.result.ids.tolist()
        [[30, 10]]
    """
    for reader in readers:
        rows = rows_of(run, direction, reader.query_ids)
        layout = Layout.of(np.zeros(reader.gallery_ids.size, dtype=np.int64))
        reader.attach(reader.query_ids, reader.gallery_ids, layout.column, layout.width)
        size = max(1, SCORES_AT_ONCE // layout.width)
        for start in range(0, rows.size, size):
            reader.read(_block(run.lists[direction], rows[start : start + size], reader, layout), start)


def _block(lists: RankedLists, rows: IntArray, reader: RowReader, layout: Layout) -> NDArray[Any]:
    block = np.full((rows.size, layout.width), -np.inf, dtype=np.float64)
    for place, (items, scores) in enumerate(_rankings(lists, rows)):
        places, known = positions_of(items, reader.gallery_ids)
        if reader.without_self:
            known &= items != lists.query_ids[rows[place]]
        block[place, layout.column[places[known]]] = scores[known]
    return block


def _rankings(lists: RankedLists, rows: IntArray) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Items and falling scores of each ranking."""
    for row in rows.tolist():
        own = slice(lists.indptr[row], lists.indptr[row + 1])
        items = lists.items[own]
        yield items, -np.arange(items.size, dtype=np.float64) if lists.scores is None else lists.scores[own]


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
    gallery = _GalleryPlaces(lists.item_ids, judgments.gallery_ids)
    parts = [_found(lists, rows[block], judgments, block, gallery) for block in _blocks(lists, rows, judgments)]
    return Found(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _blocks(lists: RankedLists, rows: IntArray, judgments: Judgments) -> Iterator[IntArray]:
    """Queries that are looked at together, so that what is computed for their items stays small."""
    items = np.cumsum(lists.depths[rows]) // ITEMS_AT_ONCE
    flags = np.arange(rows.size) * judgments.gallery_ids.size // FLAGS_AT_ONCE
    yield from np.split(np.arange(rows.size), np.flatnonzero(np.diff(items) | np.diff(flags)) + 1)


class _GalleryPlaces:
    """Place in the gallery of each ranked item, -1 outside: one table for all lists."""

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


def _found(lists: RankedLists, rows: IntArray, judgments: Judgments, block: IntArray, gallery: _GalleryPlaces) -> Found:
    owners = np.repeat(np.arange(block.size), lists.depths[rows])
    items = _joined(lists, lists.items, rows)
    places = gallery.of(items)
    kept = _competing(items, places, owners, judgments, block)
    if not kept.all():
        owners, places = owners[kept], places[kept]
    positive, ties = _are_positive(owners, places, judgments, block), np.zeros(block.size, dtype=np.int64)
    if lists.scores is not None:
        order, ties = positives_last(owners, _joined(lists, lists.scores, rows)[kept], positive, block.size)
        positive = positive[order]
    depths, at = np.bincount(owners, minlength=block.size), np.flatnonzero(positive)
    ranks = at - (np.cumsum(depths) - depths)[owners[at]] + 1
    return Found(ranks, np.bincount(owners[at], minlength=block.size), depths, ties)


def _joined(lists: RankedLists, values: NDArray[Any], rows: IntArray) -> NDArray[Any]:
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
