"""Ranks and metrics from ranked lists, which may lack scores and end early.

Each list is restricted to the gallery of its query. A metric is computed if the list is deep enough for it, and refused
if not.
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
from cxc_eccv.types import FloatArray, IntArray, Judgments, PositiveRanks, find_positions
from cxc_eccv.types.ids import make_indptr, measure_span, number_within

FAR = 2**40
"""A depth beyond every gallery."""

NAMED = 3
ITEMS_AT_ONCE = 2**18
FLAGS_AT_ONCE = 2**25
SCORES_AT_ONCE = 2**22


@dataclass(frozen=True, slots=True, eq=False)
class GivenRanks(PositiveRanks):
    """Ranks of the positives that occur in the rankings of Q queries, which may end early.

    ``n_gallery`` is the depth of a ranking if the size of the gallery is unknown. ``depths`` are the (Q,) lengths of
    the rankings; ``complete`` is (Q,) bool, whether a ranking holds the whole gallery. ``cut`` is the (Q,) number of
    positives that tie with the last item of a ranking that leaves items out, which may tie too.
    """

    depths: IntArray
    complete: NDArray[np.bool_]
    cut: IntArray

    @property
    def n_found(self) -> IntArray:
        """(Q,) number of positives in each ranking."""
        return np.diff(self.indptr)


def ranks_from_rankings(run: RankingsRun, direction: str, judgments: Judgments) -> GivenRanks:
    """Ranks of the positives of all queries, as far as the rankings hold them."""
    rows, lists = rows_of(run, direction, judgments.query_ids), run.lists[direction]
    gallery = _GalleryPlaces(lists.item_ids, judgments.gallery_ids)
    n_flags = np.arange(rows.size) * judgments.gallery_ids.size
    blocks = _blocks(np.cumsum(lists.depths[rows]) // ITEMS_AT_ONCE, n_flags // FLAGS_AT_ONCE)
    parts = [_rank_positives(lists, rows[block], judgments, block, gallery) for block in blocks]
    ranks, counts, depths, ties, last = (np.concatenate(column) for column in zip(*parts, strict=True))
    indptr, sizes = make_indptr(counts), gallery_sizes(judgments)
    complete = depths == sizes
    cut = np.where(complete, 0, last)
    return GivenRanks(judgments.query_ids, indptr, ranks, judgments.n_positives, sizes, ties, depths, complete, cut)


def rows_of(run: RankingsRun, direction: str, query_ids: IntArray) -> IntArray:
    """(Q,) position of each query among the ranked lists of a direction."""
    if direction not in run.lists:
        raise MissingIds(f"{run.path or 'run'}: has no {direction} rankings, only {', '.join(run.lists)}")
    lists = run.lists[direction]
    rows, known = find_positions(query_ids, lists.query_ids)
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
    """Let each reader read the rankings of its queries in one direction."""
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
            if reader.error is not None:
                break
            owners, places, scores = _rank_items(lists, rows[block], reader, gallery)
            reader.n_cut += _count_cut(lists, rows[block], reader, block, owners, scores)
            if reader.deepest is None:
                whole = np.full((block.size, layout.width), -np.inf)
                whole[owners, layout.column[places]] = scores
                reader.read(whole, int(block[0]))
            else:
                reader.take(block, *_best(owners, places, scores, block.size, reader.deepest))


def _blocks(*totals: IntArray) -> list[IntArray]:
    """Blocks of queries within which all totals stay the same, which limits the memory of a block."""
    changes = np.any([np.diff(total) for total in totals], axis=0)
    return np.split(np.arange(totals[0].size), np.flatnonzero(changes) + 1)


class _GalleryPlaces:
    """Table of the position in the gallery of each of the ascending ``item_ids``, -1 for items outside."""

    def __init__(self, item_ids: IntArray, gallery_ids: IntArray) -> None:
        places, known = find_positions(item_ids, gallery_ids)
        self._ids = item_ids
        self._low, span, self._dense = measure_span(item_ids) if item_ids.size else (0, 0, False)
        self._table = np.full(span if self._dense else item_ids.size, -1, dtype=np.int32)
        self._table[item_ids - self._low if self._dense else slice(None)] = np.where(known, places, -1)

    def of(self, items: NDArray[Any]) -> NDArray[np.int32]:
        """(P,) positions of items, which must be among ``item_ids``."""
        return self._table[items - self._low if self._dense else np.searchsorted(self._ids, items)]


def _rank_positives(
    lists: RankedLists, rows: IntArray, judgments: Judgments, block: IntArray, gallery: _GalleryPlaces
) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
    """Ranks of the positives of a block of B queries, and (B,) numbers of them, depths, ties, and those tied last."""
    owners, places, kept = _find_items(lists, rows, judgments, gallery)
    of_queries, of_items = judgments.folds
    kept &= of_items[places] == of_queries[block][owners]
    if not kept.all():
        owners, places = owners[kept], places[kept]
    size, (start, stop) = judgments.gallery_ids.size, judgments.indptr[[block[0], block[-1] + 1]]
    flags = np.zeros(block.size * size, dtype=bool)
    flags[(judgments.rows[start:stop] - block[0]) * size + judgments.indices[start:stop]] = True
    positive, (ties, last) = flags[owners * size + places], np.zeros((2, block.size), dtype=np.int64)
    if lists.scores is not None and owners.size:
        scores = _join(lists, lists.scores, rows)[kept]
        order, ties = positives_last(owners, scores, positive, block.size)
        positive = positive[order]
        last = np.bincount(owners[_tied_last(lists, rows, owners, scores) & positive], minlength=block.size)
    depths, at = np.bincount(owners, minlength=block.size), np.flatnonzero(positive)
    ranks = at - (np.cumsum(depths) - depths)[owners[at]] + 1
    return ranks, np.bincount(owners[at], minlength=block.size), depths, ties, last


def _join(lists: RankedLists, values: NDArray[Any], rows: IntArray) -> NDArray[Any]:
    """Values of the items of several lists, concatenated."""
    return np.concatenate([values[lists.indptr[row] : lists.indptr[row + 1]] for row in rows])


def _tied_last(lists: RankedLists, rows: IntArray, owners: IntArray, scores: NDArray[Any]) -> NDArray[np.bool_]:
    """(P,) whether each item ties with another one and with the last item of its ranking."""
    if lists.scores is None or not owners.size:
        return np.zeros(owners.size, dtype=bool)
    tied: NDArray[np.bool_] = scores == lists.scores[lists.indptr[rows + 1] - 1][owners]
    return tied & (np.bincount(owners[tied], minlength=rows.size) > 1)[owners]


def _count_cut(
    lists: RankedLists, rows: IntArray, reader: RowReader, block: IntArray, owners: IntArray, scores: FloatArray
) -> int:
    """Number of rankings that leave items out and end within a tie with items that the reader needs."""
    depths = np.bincount(owners, minlength=rows.size)
    places = number_within(depths)
    ranked = reader.gallery_ids.size - (reader.without_self & np.isin(reader.query_ids[block], reader.gallery_ids))
    rests = _tied_last(lists, rows, owners, scores) & (places < reader.needs[block][owners])
    return np.unique(owners[rests & (depths < ranked)[owners]]).size


def _find_items(
    lists: RankedLists, rows: IntArray, asking: Judgments | RowReader, gallery: _GalleryPlaces
) -> tuple[IntArray, NDArray[np.int32], NDArray[np.bool_]]:
    """For the items of several lists: query from 0, position in the gallery, and whether the query ranks the item."""
    owners, items = np.repeat(np.arange(rows.size), lists.depths[rows]), _join(lists, lists.items, rows)
    places = gallery.of(items)
    kept: NDArray[np.bool_] = places >= 0
    if asking.without_self:
        kept &= items != lists.query_ids[rows][owners]
    return owners, places, kept


def _rank_items(
    lists: RankedLists, rows: IntArray, reader: RowReader, gallery: _GalleryPlaces
) -> tuple[IntArray, NDArray[np.int32], FloatArray]:
    """Query, position in the gallery and score of the items in several lists; scores do not rise within a list."""
    owners, places, kept = _find_items(lists, rows, reader, gallery)
    if lists.scores is None:
        scores = -number_within(lists.depths[rows]).astype(np.float64)
    else:
        scores = _join(lists, lists.scores, rows)
    return owners[kept], places[kept], scores[kept]


def _best(
    owners: IntArray, places: NDArray[np.int32], scores: FloatArray, n_queries: int, depth: int
) -> tuple[FloatArray, IntArray]:
    """(B, C) scores and (B, C) positions of the best ``depth`` items of each query and of ties with the last one."""
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
    """A metric's value of every query; raises RunTooShallow if a ranking ends before its value is settled.

    A ranking of the whole gallery always suffices. A metric that looks only at the top d, see :func:`needed_depth`,
    needs d items. For a metric without such a limit (median rank, MRR) the positives that a ranking lacks must not be
    able to change the value.
    """
    score, n_positives = partial(metric, **parameters), given.n_positives
    values = score(given)
    unsettled = ~given.complete & _looks_below(score, n_positives, given.depths)
    if not unsettled.any():
        return values
    limited = ~_looks_below(score, n_positives, np.full_like(n_positives, FAR))
    ranked = given.n_found, given.ranks
    absent, next_below = _ranks(n_positives, *ranked), _place_below(n_positives, given.depths, *ranked)
    unknown = unsettled & (limited | (score(next_below) != score(absent)))
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
    """The smallest depth below which positives no longer change a metric's value, for each R."""
    score = partial(metric, **parameters)
    low, high = np.zeros_like(n_positives), np.full_like(n_positives, FAR)
    while np.any(low < high):
        middle = (low + high) // 2
        looks = _looks_below(score, n_positives, middle)
        low, high = np.where(looks, np.minimum(middle + 1, high), low), np.where(looks, high, middle)
    return low


def _looks_below(score: Score, n_positives: IntArray, depths: IntArray) -> NDArray[np.bool_]:
    """Whether positives just below a depth change the value of a query without positives above it."""
    nothing = np.zeros_like(n_positives), np.empty(0, dtype=np.int64)
    return np.asarray(score(_place_below(n_positives, depths, *nothing)) != score(_ranks(n_positives, *nothing)))


def _place_below(n_positives: IntArray, depths: IntArray, n_ranked: IntArray, known_ranks: IntArray) -> PositiveRanks:
    """The ranks if all missing positives stood just below a depth."""
    order = number_within(n_positives)
    n_above = np.repeat(n_ranked, n_positives)
    ranks = np.repeat(depths, n_positives) + 1 + order - n_above
    ranks[order < n_above] = known_ranks
    return _ranks(n_positives, n_positives, ranks)


def _ranks(n_positives: IntArray, n_ranked: IntArray, ranks: IntArray) -> PositiveRanks:
    """Ranks in a very large gallery that does not hold the other positives."""
    queries, gallery = np.arange(n_ranked.size), np.full_like(n_positives, 2 * FAR)
    return PositiveRanks(queries, make_indptr(n_ranked), ranks, n_positives, gallery, np.zeros_like(n_ranked))


def _too_shallow(name: str, score: Score, given: GivenRanks, row: int) -> RunTooShallow:
    sizes, places = np.unique(given.n_positives, return_inverse=True)
    needed, depth = needed_depth(score, sizes), given.depths[row]
    size = given.n_gallery[row]
    whole = f"the whole gallery of {size} items" if size > depth else "the whole gallery and state its size"
    subject = f"{name} of query {given.query_ids[row]} (R = {given.n_positives[row]})"
    if needed[places[row]] == FAR:
        return RunTooShallow(
            f"{subject} is unknown: its ranking ends at rank {depth} with {given.n_found[row]} of its positives. Rank "
            f"{whole} (the largest R is {sizes.max()})."
        )
    return RunTooShallow(
        f"{subject} looks at the top {needed[places[row]]}, but its ranking ends at rank {depth}. Rank at least "
        f"{needed.max()} items (the largest R is {sizes.max()}), or {whole}."
    )
