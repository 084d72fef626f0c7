"""What a run's rankings say: ranks of positives, and rows for readers, as far as the lists reach.

Each ranking is restricted to the gallery that its query ranks; many lists are looked at together, by one table over the
gallery.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import MissingIds
from cxc_eccv.ranking.lists.depth import GivenRanks
from cxc_eccv.ranking.readers import RowReader
from cxc_eccv.ranking.scores import Layout
from cxc_eccv.ranking.tie_rule import positives_last
from cxc_eccv.runs.rankings import RankedLists, RankingsRun
from cxc_eccv.types import FloatArray, IntArray, Judgments, PositiveRanks, positions_of
from cxc_eccv.types.ids import measure_span

__all__ = ["depths_alone", "ranks_from_rankings", "read_rankings", "rows_of"]

NAMED = 3
ITEMS_AT_ONCE = 2**18
FLAGS_AT_ONCE = 2**25
SCORES_AT_ONCE = 2**22


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
    found = _find_positives(run.lists[direction], rows, judgments)
    indptr, sizes = np.append(0, np.cumsum(found.counts)), _gallery_sizes(judgments)
    known = PositiveRanks(judgments.query_ids, indptr, found.ranks, judgments.n_positives, sizes, found.ties)
    return GivenRanks(known, found.depths, found.depths == sizes)


def depths_alone(run: RankingsRun, direction: str, judgments: Judgments) -> GivenRanks:
    """What the lengths of a run's rankings say, before any is read: how deep they are at most; nothing is found.

    Args:
        run: rankings of the direction.
        direction: ``i2t``, ``t2i``, ``t2t`` or ``i2i``.
        judgments: positives of every query.

    Raises:
        MissingIds: the run lacks the direction, or the rankings of some queries.

    Example:
        >>> run = RankingsRun.from_dicts(i2t={5: [30, 10]})
        >>> given = depths_alone(run, "i2t", Judgments.from_pairs([5], [10, 20, 30], [5], [20]))
        >>> given.depths.tolist(), given.complete.tolist(), given.n_found.tolist()
        ([2], [False], [0])
    """
    depths, sizes = run.depths(direction)[rows_of(run, direction, judgments.query_ids)], _gallery_sizes(judgments)
    nothing = np.zeros(0, dtype=np.int64)
    none_found, ties = np.zeros(depths.size + 1, dtype=np.int64), np.zeros(depths.size, dtype=np.int64)
    known = PositiveRanks(judgments.query_ids, none_found, nothing, judgments.n_positives, sizes, ties)
    return GivenRanks(known, np.minimum(depths, sizes), depths >= sizes)


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
        lists = run.lists[direction]
        gallery = _GalleryPlaces(lists.item_ids, reader.gallery_ids)
        layout = Layout.of(np.zeros(reader.gallery_ids.size, dtype=np.int64))
        reader.attach(reader.query_ids, reader.gallery_ids, layout.column, layout.width)
        for block in _blocks(lists, rows, reader, layout.width):
            if reader.ended:
                break
            ranked = _ranked(lists, rows[block], reader, gallery)
            if reader.deepest is None:
                reader.read(_whole(ranked, block.size, layout), int(block[0]))
            else:
                reader.take(block, *_best(ranked, block.size, reader.deepest))


class _Found(NamedTuple):
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


def _find_positives(lists: RankedLists, rows: IntArray, judgments: Judgments) -> _Found:
    """Find the positives; items that a query does not rank are passed over.

    Args:
        lists: checked, no item twice in a list.
        rows: (Q,) list of each query of the judgments.
        judgments: positives, gallery and folds.
    """
    gallery = _GalleryPlaces(lists.item_ids, judgments.gallery_ids)
    parts = [
        _find_in_block(lists, rows[block], judgments, block, gallery)
        for block in _blocks_of_positives(lists, rows, judgments)
    ]
    return _Found(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _blocks_of_positives(lists: RankedLists, rows: IntArray, judgments: Judgments) -> Iterator[IntArray]:
    """Queries that are looked at together, so that what is computed for their items stays small."""
    items = np.cumsum(lists.depths[rows]) // ITEMS_AT_ONCE
    flags = np.arange(rows.size) * judgments.gallery_ids.size // FLAGS_AT_ONCE
    yield from np.split(np.arange(rows.size), np.flatnonzero(np.diff(items) | np.diff(flags)) + 1)


class _GalleryPlaces:
    """Place in the gallery of each ranked item, -1 outside: one table for all lists.

    Args:
        item_ids: (N,) the distinct items of the lists, ascending.
        gallery_ids: (M,) ids of the gallery.
    """

    def __init__(self, item_ids: IntArray, gallery_ids: IntArray) -> None:
        places, known = positions_of(item_ids, gallery_ids)
        self._ids = item_ids
        self._low, span, self._dense = measure_span(item_ids)
        self._table = np.full(span if self._dense else item_ids.size, -1, dtype=np.int32)
        self._table[item_ids - self._low if self._dense else slice(None)] = np.where(known, places, -1)

    def of(self, items: NDArray[Any]) -> NDArray[np.int32]:
        """(P,) places of the items, each one of ``item_ids``."""
        return self._table[items - self._low if self._dense else np.searchsorted(self._ids, items)]


def _find_in_block(
    lists: RankedLists, rows: IntArray, judgments: Judgments, block: IntArray, gallery: _GalleryPlaces
) -> _Found:
    owners = np.repeat(np.arange(block.size), lists.depths[rows])
    items = _join(lists, lists.items, rows)
    places = gallery.of(items)
    kept = _competing(items, places, owners, judgments, block)
    if not kept.all():
        owners, places = owners[kept], places[kept]
    positive, ties = _are_positive(owners, places, judgments, block), np.zeros(block.size, dtype=np.int64)
    if lists.scores is not None:
        order, ties = positives_last(owners, _join(lists, lists.scores, rows)[kept], positive, block.size)
        positive = positive[order]
    depths, at = np.bincount(owners, minlength=block.size), np.flatnonzero(positive)
    ranks = at - (np.cumsum(depths) - depths)[owners[at]] + 1
    return _Found(ranks, np.bincount(owners[at], minlength=block.size), depths, ties)


def _join(lists: RankedLists, values: NDArray[Any], rows: IntArray) -> NDArray[Any]:
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


def _blocks(lists: RankedLists, rows: IntArray, reader: RowReader, width: int) -> list[IntArray]:
    """Queries that are read together, so that their items, or whole rows, stay small."""
    filled = np.cumsum(lists.depths[rows]) // ITEMS_AT_ONCE
    if reader.deepest is None:
        filled = np.arange(rows.size) // max(1, SCORES_AT_ONCE // width)
    return np.split(np.arange(rows.size), np.flatnonzero(np.diff(filled)) + 1)


class _Ranked(NamedTuple):
    """The gallery items in the lists of B queries, list after list, best first.

    Attributes:
        owners: (P,) query of each, 0 to B - 1.
        places: (P,) position in the gallery.
        scores: (P,) not rising within a list.
    """

    owners: IntArray
    places: NDArray[np.int32]
    scores: FloatArray


def _ranked(lists: RankedLists, rows: IntArray, reader: RowReader, gallery: _GalleryPlaces) -> _Ranked:
    depths = lists.depths[rows]
    owners, items = np.repeat(np.arange(rows.size), depths), _join(lists, lists.items, rows)
    places = gallery.of(items)
    kept = places >= 0
    if reader.without_self:
        kept &= items != lists.query_ids[rows][owners]
    if lists.scores is None:
        ranks = np.arange(items.size) - np.repeat(np.cumsum(depths) - depths, depths)
        scores = -ranks.astype(np.float64)
    else:
        scores = _join(lists, lists.scores, rows)
    return _Ranked(owners[kept], places[kept], scores[kept])


def _whole(ranked: _Ranked, n_queries: int, layout: Layout) -> NDArray[Any]:
    """(B, width) scores."""
    block = np.full((n_queries, layout.width), -np.inf, dtype=np.float64)
    block[ranked.owners, layout.column[ranked.places]] = ranked.scores
    return block


def _best(ranked: _Ranked, n_queries: int, depth: int) -> tuple[FloatArray, IntArray]:
    """(B, C) scores of the best ``depth`` of each query and of what ties with the last of these, and their places."""
    counts = np.bincount(ranked.owners, minlength=n_queries)
    starts = np.cumsum(counts) - counts
    lowest = np.full(n_queries, -np.inf)
    lowest[counts >= depth] = ranked.scores[starts[counts >= depth] + depth - 1]
    looked = np.flatnonzero(ranked.scores >= lowest[ranked.owners])
    owners, within = ranked.owners[looked], looked - starts[ranked.owners[looked]]
    shape = n_queries, max(depth, within.max(initial=0) + 1)
    scores, places = np.full(shape, -np.inf), np.zeros(shape, dtype=np.int64)
    scores[owners, within], places[owners, within] = ranked.scores[looked], ranked.places[looked]
    return scores, places
