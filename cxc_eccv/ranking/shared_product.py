"""One product that serves twice: both cross-modal directions, or both orders within one modality.

Where too many scores are alike for the brackets of pairs to settle anything, a direction is left out of what is counted
here, and the caller counts it row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Event

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.kernels import row_counts
from cxc_eccv.ranking.counts import Counts, MergedJudgments, RowPairs, ScoresTooAlike
from cxc_eccv.ranking.readers import ColumnPairs, ColumnReaders, RowReader, brackets
from cxc_eccv.ranking.scores import (
    ALIGNMENT,
    BLOCK_BYTES,
    Layout,
    Options,
    Product,
    first_twins,
    prepare_side,
    refuse_extremes,
    scan,
)
from cxc_eccv.runs.embeddings import EmbeddingsRun
from cxc_eccv.types import IntArray, positions_of, sides_of
from cxc_eccv.types.ids import distinct_of

WORTHWHILE = 0.6


def count_both(
    run: EmbeddingsRun,
    merged: Mapping[str, MergedJudgments],
    options: Options,
    readers: Mapping[str, Sequence[RowReader]],
) -> dict[str, Counts]:
    """Count both cross-modal directions with one product, or the first alone where scores are too much alike."""
    (direction, by_row), (other, by_column) = merged.items()
    row_ids, row_segments, column_ids, layout = _lay_out(by_row, by_column)
    row_side, column_side = sides_of(direction)
    rows = prepare_side(run, row_side, row_ids, options.similarity)
    columns = prepare_side(run, column_side, column_ids, options.similarity, layout)
    if options.similarity == "dot":
        refuse_extremes(rows, columns, row_ids, layout.spread(column_ids))
    queries, items = _find_pairs(by_row, row_ids, column_ids)
    row_pairs = RowPairs(queries, layout.column[items], layout.bounds)
    along = readers.get(direction, ())
    for reader in along:
        reader.attach(row_ids, column_ids, layout.column, layout.width)
    queries, items = _find_pairs(by_column, column_ids, row_ids)
    queries = layout.column[queries]
    column_pairs = ColumnPairs(items, queries, *brackets(rows, columns, items, queries), by_column.n_segments)
    of_columns = readers.get(other, ()), row_ids, column_ids, layout.column, layout.width
    readers_of_columns = partial(ColumnReaders, *of_columns, lambda chosen: rows[chosen] @ columns.T)
    across = _Across(column_pairs, row_segments, readers_of_columns)

    def read(block: NDArray[np.float32], start: int) -> None:
        row_pairs.read(block, start)
        for reader in along:
            reader.read(block, start)
        across.read(block, start)

    scan(Product(rows, columns, layout.padding, tie_rows=True), read, options, f"{direction} and {other}")
    counts, kept = row_pairs.result, by_row.n_segments
    own = Counts(counts.scores, counts.at_least[:, :kept], counts.above[:, :kept])
    others = across.resolve()
    return {direction: own} if others is None else {direction: own, other: others}


class _Across:
    """The queries that are columns, counted and read block by block, until too many scores are alike."""

    def __init__(self, pairs: ColumnPairs, row_segments: IntArray, make_readers: Callable[[], ColumnReaders]) -> None:
        self._pairs, self._row_segments = pairs, row_segments
        self._too_alike = Event()
        try:
            self._readers = make_readers()
        except ScoresTooAlike:
            self._too_alike.set()

    def read(self, block: NDArray[np.float32], start: int) -> None:
        """Read a block of rows, of which ``start`` is the first; blocks may come in any order."""
        if self._too_alike.is_set():
            return
        try:
            self._pairs.read(block, start, self._row_segments[start : start + len(block)])
            self._readers.read(block, start)
        except ScoresTooAlike:
            self._too_alike.set()

    def resolve(self) -> Counts | None:
        """Exact counts, after the last block, and what readers learnt handed out; None where scores were too alike."""
        if self._too_alike.is_set():
            return None
        try:
            self._readers.finish()
            return self._pairs.resolve()
        except ScoresTooAlike:
            return None


def _lay_out(by_row: MergedJudgments, by_column: MergedJudgments) -> tuple[IntArray, IntArray, IntArray, Layout]:
    """Ids and ascending segments of the rows, -1 where one is in no gallery; ids of the columns, and their layout."""
    row_ids, row_segments = _with_segments(by_row.query_ids, by_column)
    order = np.argsort(row_segments, kind="stable")
    column_ids, column_segments = _with_segments(by_column.query_ids, by_row)
    # Columns of as many pairs stand side by side, where these are counted together.
    n_pairs = np.bincount(by_column.queries, minlength=by_column.query_ids.size)
    alike = np.argsort(-n_pairs[positions_of(column_ids, by_column.query_ids)[0]], kind="stable")
    column_ids, column_segments = column_ids[alike], column_segments[alike]
    # Those in no gallery stand in a further segment at the end.
    layout = Layout.of(np.where(column_segments < 0, by_row.n_segments, column_segments))
    return row_ids[order], row_segments[order], column_ids, layout


def _with_segments(query_ids: IntArray, opposite: MergedJudgments) -> tuple[IntArray, IntArray]:
    """All ids of a modality, its queries and the gallery of ``opposite``, with their segments in that gallery or -1."""
    ids = opposite.gallery_ids
    if not np.array_equal(query_ids, ids):
        ids = distinct_of(np.concatenate([query_ids, ids]))
    places, known = positions_of(ids, opposite.gallery_ids)
    return ids, np.where(known, opposite.segments[places], -1)


def _find_pairs(merged: MergedJudgments, query_ids: IntArray, gallery_ids: IntArray) -> tuple[IntArray, IntArray]:
    """(P,) positions of the query and of the item of each pair among other ids."""
    queries, items = positions_of(merged.query_ids, query_ids)[0], positions_of(merged.gallery_ids, gallery_ids)[0]
    return queries[merged.queries], items[merged.items]


def count_within(run: EmbeddingsRun, direction: str, merged: MergedJudgments, options: Options) -> dict[str, Counts]:
    """Count text-text or image-image with half a product.

    Empty where a whole one is better, for few queries on a large gallery, or where scores are too much alike.
    """
    ids, segments = _with_segments(merged.query_ids, merged)
    if WORTHWHILE * ids.size**2 > merged.query_ids.size * merged.gallery_ids.size:
        return {}
    order = _positives_together(merged, ids)
    ids, segments = ids[order], segments[order]
    layout = Layout.of(np.where(segments < 0, merged.n_segments, segments))
    vectors = prepare_side(run, sides_of(direction)[0], ids, options.similarity, layout)
    if options.similarity == "dot":
        refuse_extremes(vectors, vectors, layout.spread(ids), layout.spread(ids))
    try:
        half = HalfProduct(vectors, layout.padding, without_self=merged.without_self, shared_bytes=BLOCK_BYTES)
        pairs = MutualPairs(merged, ids, segments, layout, vectors)
        scan(half, pairs.read, options, direction, backwards=True)
        return {direction: pairs.resolve()}
    except ScoresTooAlike:
        return {}


def _positives_together(merged: MergedJudgments, ids: IntArray) -> IntArray:
    """(N,) order in which positives mostly stand in one block of rows: their score is known when they are counted."""
    queries, items = _find_pairs(merged, ids, ids)
    first = np.arange(ids.size)
    np.minimum.at(first, queries, items)
    return np.argsort(first, kind="stable")


class MutualPairs:
    """Positive pairs whose query and item both stand in one layout.

    A query meets the items above it as a column of their rows, and all others in its own row; so does its positive.
    Where the positive's score is not among those at hand, its bracket stands for it, see :class:`ColumnPairs`.
    """

    def __init__(
        self, merged: MergedJudgments, ids: IntArray, segments: IntArray, layout: Layout, vectors: NDArray[np.float32]
    ) -> None:
        queries, items = (layout.column[places] for places in _find_pairs(merged, ids, ids))
        self._order = np.argsort(queries, kind="stable")
        self._queries, self._items = queries[self._order], items[self._order]
        # Most pairs are positive in both orders, and one bracket holds for both.
        first, second = np.minimum(self._queries, self._items), np.maximum(self._queries, self._items)
        pairs, occurrence = np.unique(first * layout.width + second, return_inverse=True)
        low, high = brackets(vectors, vectors, *np.divmod(pairs, layout.width))
        self._low, self._high = low[occurrence], high[occurrence]
        self._bounds, self._segments = layout.bounds, layout.spread(segments)
        self._columns = ColumnPairs(self._items, self._queries, self._low, self._high, merged.n_segments)
        self._rows = Counts.zeros(queries.size, layout.bounds.size - 1)

    def read(self, block: NDArray[np.float32], start: int) -> None:
        """Count a block of :class:`HalfProduct`, of which ``start`` is the first row; blocks may come in any order."""
        stop, left = start + len(block), left_edge(start)
        self._columns.read(block[:, stop - left :], start, self._segments[start:stop], left=stop)
        self._count(block, start, slice(*np.searchsorted(self._queries, [start, stop]).tolist()))

    def resolve(self) -> Counts:
        """Exact counts, in the order in which the pairs were given, after the last block."""
        back = np.empty_like(self._order)
        back[self._order] = np.arange(back.size)
        above = self._columns.resolve()
        n_segments = above.above.shape[1]
        return Counts(
            above.scores[back],
            (above.at_least + self._rows.at_least[:, :n_segments])[back],
            (above.above + self._rows.above[:, :n_segments])[back],
        )

    def _count(self, block: NDArray[np.float32], start: int, pairs: slice) -> None:
        """Count the rows of pairs: against the pair's own score where the block holds it, else against its bracket."""
        rows, left = self._queries[pairs] - start, left_edge(start)
        known = self._items[pairs] >= start
        scores = block[rows, np.where(known, self._items[pairs] - left, 0)]
        low, high = np.where(known, scores, self._low[pairs]), np.where(known, scores, self._high[pairs])
        first = int(np.searchsorted(self._bounds, left, side="right")) - 1
        found = row_counts(block, rows, low, high, np.maximum(self._bounds[first:] - left, 0))
        own = np.arange(pairs.start, pairs.stop)
        self._columns.record(own[known], scores[known])
        if not found.complete:
            raise ScoresTooAlike
        self._rows.at_least[pairs, first:], self._rows.above[pairs, first:] = found.at_least, found.above
        self._columns.keep(self._segments[left + found.places], own[found.pairs], found.scores)


class HalfProduct:
    """The upper half of the scores of vectors against themselves, any block of rows at a time.

    A block of rows reaches from (about) its own diagonal, left out where ``without_self``, to the right end. Scores of
    byte-identical vectors are identical wherever they stand: they come from one small product of their own.
    ScoresTooAlike is raised where that needs more than ``shared_bytes``.
    """

    def __init__(
        self, vectors: NDArray[np.float32], padding: IntArray, *, without_self: bool, shared_bytes: int
    ) -> None:
        self.height = self.width = len(vectors)
        self._vectors = vectors
        self._padding, self._without_self = padding, without_self
        first = first_twins(vectors)
        copies = np.flatnonzero(first != np.arange(first.size))
        leaders = np.unique(first[copies])
        self._group = np.where(np.isin(first, leaders), np.searchsorted(leaders, first), -1)
        if leaders.size * len(vectors) * vectors.itemsize > shared_bytes:
            raise ScoresTooAlike
        self._shared = _symmetric(vectors[leaders] @ vectors.T, leaders, self._group)

    def room(self, size: int) -> NDArray[np.float32]:
        """Memory for one block."""
        return np.empty(size * self.width, dtype=np.float32)

    def fill(self, start: int, stop: int, room: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scores of rows ``start`` to ``stop`` from ``left_edge(start)`` on; minus infinity where none counts."""
        left = left_edge(start)
        height, width = stop - start, self.width - left
        block = room[: height * width].reshape(height, width)
        np.matmul(self._vectors[start:stop], self._vectors[left:].T, out=block)
        for row in np.flatnonzero(self._group[start:stop] >= 0).tolist():
            block[row] = self._shared[self._group[start + row], left:]
        twins = left + np.flatnonzero(self._group[left:] >= 0)
        block[:, twins - left] = self._shared[self._group[twins], start:stop].T
        block[:, : start - left] = -np.inf
        block[:, self._padding[self._padding >= left] - left] = -np.inf
        if self._without_self:
            rows = np.arange(height)
            block[rows, rows + start - left] = -np.inf
        return block


def left_edge(start: int) -> int:
    """First column of a block of rows that begins at ``start``, aligned so that flags can be counted by the word."""
    return start - start % ALIGNMENT


def _symmetric(shared: NDArray[np.float32], leaders: IntArray, group: IntArray) -> NDArray[np.float32]:
    """Scores of the shared vectors, of which those among themselves are made symmetric, and equal for copies."""
    among = np.triu(shared[:, leaders])
    among += np.triu(among, 1).T
    members = np.flatnonzero(group >= 0)
    shared[:, members] = among[:, group[members]]
    return shared
