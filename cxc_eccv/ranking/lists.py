"""Given rankings, which have no scores: what is known from positions, as far as the lists reach.

Each ranking is restricted to the gallery that its query ranks; many lists are looked at together, by one table over the
gallery. Metrics are computed where that suffices, and refused where it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import MissingIds, RunTooShallow
from cxc_eccv.ranking.counts import gallery_sizes, positives_last
from cxc_eccv.ranking.readers import RowReader
from cxc_eccv.ranking.scores import Layout
from cxc_eccv.runs.rankings import RankedLists, RankingsRun
from cxc_eccv.types import FloatArray, IntArray, Judgments, PositiveRanks, positions_of
from cxc_eccv.types.ids import measure_span

FAR = 2**40
"""A depth that no gallery reaches."""

NAMED = 3
ITEMS_AT_ONCE = 2**18
FLAGS_AT_ONCE = 2**25
SCORES_AT_ONCE = 2**22


@dataclass(frozen=True, slots=True, eq=False)
class GivenRanks:
    """What rankings say about the positives of Q queries.

    ``ranks`` are those of the positives that the rankings hold, and its ``n_gallery`` is the ranking's depth where the
    size of the gallery is unknown. ``depths`` are (Q,) items in each ranking; ``complete`` says of each whether it
    holds the whole gallery, so that a positive it lacks is outside the gallery.
    """

    ranks: PositiveRanks
    depths: IntArray
    complete: NDArray[np.bool_]

    @property
    def n_found(self) -> IntArray:
        """(Q,) positives that the rankings hold."""
        return np.diff(self.ranks.indptr)


def ranks_from_rankings(run: RankingsRun, direction: str, judgments: Judgments) -> GivenRanks:
    """What a run's rankings say about the positives of the queries."""
    rows, lists = rows_of(run, direction, judgments.query_ids), run.lists[direction]
    gallery = _GalleryPlaces(lists.item_ids, judgments.gallery_ids)
    n_flags = np.arange(rows.size) * judgments.gallery_ids.size
    blocks = _blocks(np.cumsum(lists.depths[rows]) // ITEMS_AT_ONCE, n_flags // FLAGS_AT_ONCE)
    parts = [_find_positives(lists, rows[block], judgments, block, gallery) for block in blocks]
    ranks, counts, depths, ties = (np.concatenate(column) for column in zip(*parts, strict=True))
    indptr, sizes = np.append(0, np.cumsum(counts)), gallery_sizes(judgments)
    known = PositiveRanks(judgments.query_ids, indptr, ranks, judgments.n_positives, sizes, ties)
    return GivenRanks(known, depths, depths == sizes)


def depths_alone(run: RankingsRun, direction: str, judgments: Judgments) -> GivenRanks:
    """What the lengths of a run's rankings say, before any is read: how deep they are at most; nothing is found."""
    depths, sizes = run.depths(direction)[rows_of(run, direction, judgments.query_ids)], gallery_sizes(judgments)
    nothing = np.zeros(0, dtype=np.int64)
    none_found, ties = np.zeros(depths.size + 1, dtype=np.int64), np.zeros(depths.size, dtype=np.int64)
    known = PositiveRanks(judgments.query_ids, none_found, nothing, judgments.n_positives, sizes, ties)
    return GivenRanks(known, np.minimum(depths, sizes), depths >= sizes)


def rows_of(run: RankingsRun, direction: str, query_ids: IntArray) -> IntArray:
    """(Q,) place of each query among the ranked lists of a direction."""
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


def read_rankings(run: RankingsRun, direction: str, readers: Sequence[RowReader]) -> None:
    """Let readers read the rankings of one direction, each with its own queries and gallery."""
    for reader in readers:
        rows = rows_of(run, direction, reader.query_ids)
        lists = run.lists[direction]
        gallery = _GalleryPlaces(lists.item_ids, reader.gallery_ids)
        layout = Layout.of(np.zeros(reader.gallery_ids.size, dtype=np.int64))
        reader.attach(reader.query_ids, reader.gallery_ids, layout.column, layout.width)
        totals = np.cumsum(lists.depths[rows]) // ITEMS_AT_ONCE
        if reader.deepest is None:
            totals = np.arange(rows.size) // max(1, SCORES_AT_ONCE // layout.width)
        for block in _blocks(totals):
            if reader.ended:
                break
            owners, places, scores = _rank_items(lists, rows[block], reader, gallery)
            if reader.deepest is None:
                whole = np.full((block.size, layout.width), -np.inf)
                whole[owners, layout.column[places]] = scores
                reader.read(whole, int(block[0]))
            else:
                reader.take(block, *_best(owners, places, scores, block.size, reader.deepest))


def _blocks(*totals: IntArray) -> list[IntArray]:
    """Queries that are looked at together, so that what is computed for them stays small: all totals stay the same."""
    changes = np.any([np.diff(total) for total in totals], axis=0)
    return np.split(np.arange(totals[0].size), np.flatnonzero(changes) + 1)


class _GalleryPlaces:
    """Place in the gallery of each ranked item, -1 outside: one table for all lists, of ascending ``item_ids``."""

    def __init__(self, item_ids: IntArray, gallery_ids: IntArray) -> None:
        places, known = positions_of(item_ids, gallery_ids)
        self._ids = item_ids
        self._low, span, self._dense = measure_span(item_ids)
        self._table = np.full(span if self._dense else item_ids.size, -1, dtype=np.int32)
        self._table[item_ids - self._low if self._dense else slice(None)] = np.where(known, places, -1)

    def of(self, items: NDArray[Any]) -> NDArray[np.int32]:
        """(P,) places of the items, each one of ``item_ids``."""
        return self._table[items - self._low if self._dense else np.searchsorted(self._ids, items)]


def _find_positives(
    lists: RankedLists, rows: IntArray, judgments: Judgments, block: IntArray, gallery: _GalleryPlaces
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """What the lists ``rows`` hold of the positives of a block of B queries: ranks, counts, depths, ties."""
    owners, places, kept = _find_items(lists, rows, judgments, gallery)
    if judgments.query_folds is not None and judgments.gallery_folds is not None:
        kept &= judgments.gallery_folds[places] == judgments.query_folds[block][owners]
    if not kept.all():
        owners, places = owners[kept], places[kept]
    size, (start, stop) = judgments.gallery_ids.size, judgments.indptr[[block[0], block[-1] + 1]]
    flags = np.zeros(block.size * size, dtype=bool)
    flags[(judgments.rows[start:stop] - block[0]) * size + judgments.indices[start:stop]] = True
    positive, ties = flags[owners * size + places], np.zeros(block.size, dtype=np.int64)
    if lists.scores is not None:
        order, ties = positives_last(owners, _join(lists, lists.scores, rows)[kept], positive, block.size)
        positive = positive[order]
    depths, at = np.bincount(owners, minlength=block.size), np.flatnonzero(positive)
    ranks = at - (np.cumsum(depths) - depths)[owners[at]] + 1
    return ranks, np.bincount(owners[at], minlength=block.size), depths, ties


def _join(lists: RankedLists, values: NDArray[Any], rows: IntArray) -> NDArray[Any]:
    """Values of the items of several lists, one list after the other."""
    return np.concatenate([values[lists.indptr[row] : lists.indptr[row + 1]] for row in rows])


def _find_items(
    lists: RankedLists, rows: IntArray, asking: Judgments | RowReader, gallery: _GalleryPlaces
) -> tuple[IntArray, NDArray[np.int32], NDArray[np.bool_]]:
    """Of the items in several lists the query, from 0, the place in the gallery, and whether it is ranked there."""
    owners, items = np.repeat(np.arange(rows.size), lists.depths[rows]), _join(lists, lists.items, rows)
    places = gallery.of(items)
    kept: NDArray[np.bool_] = places >= 0
    if asking.without_self:
        kept &= items != lists.query_ids[rows][owners]
    return owners, places, kept


def _rank_items(
    lists: RankedLists, rows: IntArray, reader: RowReader, gallery: _GalleryPlaces
) -> tuple[IntArray, NDArray[np.int32], FloatArray]:
    """Query, place in the gallery and score of the items in several lists; scores do not rise within one."""
    owners, places, kept = _find_items(lists, rows, reader, gallery)
    if lists.scores is None:
        depths = lists.depths[rows]
        ranks = np.arange(owners.size) - np.repeat(np.cumsum(depths) - depths, depths)
        scores = -ranks.astype(np.float64)
    else:
        scores = _join(lists, lists.scores, rows)
    return owners[kept], places[kept], scores[kept]


def _best(
    owners: IntArray, places: NDArray[np.int32], scores: FloatArray, n_queries: int, depth: int
) -> tuple[FloatArray, IntArray]:
    """(B, C) scores of the best ``depth`` of each query and of what ties with the last of these, and their places."""
    counts = np.bincount(owners, minlength=n_queries)
    starts = np.cumsum(counts) - counts
    lowest = np.full(n_queries, -np.inf)
    lowest[counts >= depth] = scores[starts[counts >= depth] + depth - 1]
    looked = np.flatnonzero(scores >= lowest[owners])
    within = looked - starts[owners[looked]]
    shape = n_queries, max(depth, within.max(initial=0) + 1)
    best, items = np.full(shape, -np.inf), np.zeros(shape, dtype=np.int64)
    best[owners[looked], within], items[owners[looked], within] = scores[looked], places[looked]
    return best, items


Score = Callable[[PositiveRanks], FloatArray]


def values_at_known_depth(
    metric: Callable[..., FloatArray],
    given: GivenRanks,
    **parameters: Any,  # noqa: ANN401 - the metric's own
) -> FloatArray:
    """A metric's value of every query, provided that no ranking ends before the value is settled.

    A ranking that holds the whole gallery always suffices. A metric that looks at the top d alone, see
    :func:`needed_depth`, needs d items whether they hold positives or not. One without such a limit (median rank, MRR)
    needs that the positives which the ranking lacks could not change its value.
    """
    score, n_positives = partial(metric, **parameters), given.ranks.n_positives
    values = score(given.ranks)
    unsettled = ~given.complete & _looks_below(score, n_positives, given.depths)
    if not unsettled.any():
        return values
    limited = ~_looks_below(score, n_positives, np.full_like(n_positives, FAR))
    found = given.n_found, given.ranks.ranks
    nowhere, next_below = _ranks(n_positives, *found), _place_below(n_positives, given.depths, *found)
    unknown = unsettled & (limited | (score(next_below) != score(nowhere)))
    if unknown.any():
        called = ", ".join(f"{name}={value}" for name, value in parameters.items())
        name = f"{metric.__name__}({called})" if called else metric.__name__
        raise _too_shallow(name, score, given, np.flatnonzero(unknown)[0])
    return values


def needed_depth(
    metric: Callable[..., FloatArray],
    n_positives: IntArray,
    **parameters: Any,  # noqa: ANN401 - the metric's own
) -> IntArray:
    """How far down a metric looks: the smallest depth below which positives no longer change its value."""
    score = partial(metric, **parameters)
    low, high = np.zeros_like(n_positives), np.full_like(n_positives, FAR)
    while np.any(low < high):
        middle = (low + high) // 2
        looks = _looks_below(score, n_positives, middle)
        low, high = np.where(looks, np.minimum(middle + 1, high), low), np.where(looks, high, middle)
    return low


def _looks_below(score: Score, n_positives: IntArray, depths: IntArray) -> NDArray[np.bool_]:
    """Whether positives right below a depth change the value of a query that has none above it."""
    nothing = np.zeros_like(n_positives), np.empty(0, dtype=np.int64)
    return np.asarray(score(_place_below(n_positives, depths, *nothing)) != score(_ranks(n_positives, *nothing)))


def _place_below(n_positives: IntArray, depths: IntArray, n_found: IntArray, found: IntArray) -> PositiveRanks:
    """The ranks as if all positives that were not found stood right below a depth."""
    order = np.arange(n_positives.sum()) - np.repeat(np.cumsum(n_positives) - n_positives, n_positives)
    n_above = np.repeat(n_found, n_positives)
    ranks = np.repeat(depths, n_positives) + 1 + order - n_above
    ranks[order < n_above] = found
    return _ranks(n_positives, n_positives, ranks)


def _ranks(n_positives: IntArray, n_ranked: IntArray, ranks: IntArray) -> PositiveRanks:
    """Ranks in a gallery that is larger than any, in which the other positives are not."""
    indptr, gallery = np.append(0, np.cumsum(n_ranked)), np.full_like(n_positives, 2 * FAR)
    return PositiveRanks(np.arange(n_ranked.size), indptr, ranks, n_positives, gallery, np.zeros_like(n_ranked))


def _too_shallow(name: str, score: Score, given: GivenRanks, row: int) -> RunTooShallow:
    sizes, places = np.unique(given.ranks.n_positives, return_inverse=True)
    needed, depth = needed_depth(score, sizes), given.depths[row]
    size = given.ranks.n_gallery[row]
    whole = f"the whole gallery of {size} items" if size > depth else "the whole gallery and state its size"
    subject = f"{name} of query {given.ranks.query_ids[row]} (R = {given.ranks.n_positives[row]})"
    if needed[places[row]] == FAR:
        return RunTooShallow(
            f"{subject} is unknown: its ranking ends at rank {depth} with {given.n_found[row]} of its positives. Rank "
            f"{whole} (the largest R is {sizes.max()})."
        )
    return RunTooShallow(
        f"{subject} looks at the top {needed[places[row]]}, but its ranking ends at rank {depth}. Rank at least "
        f"{needed.max()} items (the largest R is {sizes.max()}), or {whole}."
    )
