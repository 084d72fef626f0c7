"""Ranks and similarities from vectors.

One product serves both cross-modal directions, and half a product both orders within one modality. If too many scores
are too close for brackets, a direction is counted row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import cast

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.kernels import pair_products, row_counts
from cxc_eccv.ranking.counts import Counts, MergedJudgments, RowPairs, ScoresTooAlike
from cxc_eccv.ranking.device import full_precision, torch_on
from cxc_eccv.ranking.device_product import DeviceProduct
from cxc_eccv.ranking.ranked import ByCounts, Readers, count_and_read, find_rows
from cxc_eccv.ranking.readers import ColumnPairs, ColumnReaders, RowReader, brackets, can_read_columns
from cxc_eccv.ranking.scores import (
    ALIGNMENT,
    BLOCK_BYTES,
    ROWS_PREPARED_AT_ONCE,
    Layout,
    Options,
    Product,
    Scores,
    group_twins,
    prepare,
    refuse_extremes,
    refuse_zero_vectors,
    scan,
    workers,
)
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.runs.run import GALLERY, QUERY, ROLES, SYMMETRIC
from cxc_eccv.types import CROSS_MODAL, SIDES, Embeddings, FloatArray, IntArray, RatedPairs, find_positions, find_sides
from cxc_eccv.types.ids import find_distinct

HALF_PRODUCT_SHARE = 0.6


class ByVectors(ByCounts):
    """Ranks of vectors by their cosines or dot products."""

    run: EmbeddingsRun

    def __init__(self, run: EmbeddingsRun, options: Options) -> None:
        chooser = "the caller" if options.similarity else "the run" if run.similarity else "default"
        self.similarity = run.choose_similarity(options.similarity)
        self.scoring = {"similarity": self.similarity, "similarity_from": chooser}
        self.run = run
        self._vectors = Vectors(run, self.similarity, options)

    def count(self, merged: Mapping[str, MergedJudgments], readers: Readers) -> dict[str, Counts]:
        """Counts of every direction, with one product for two directions or half a product for one where possible."""
        counts: dict[str, Counts] = {}
        # A product serves two orders only if an item has one vector, as a query and in the gallery.
        alike = {side for side, (query, _) in ROLES.items() if query not in self.run.roles}
        if self._vectors.options.device is None:
            both = {name: merged[name] for name in CROSS_MODAL if name in merged and alike.issuperset(SIDES)}
            if shared := _put_rows_first(both, readers):
                counts |= count_both(self._vectors, shared, readers)
            for direction, judged in merged.items():
                within = direction not in CROSS_MODAL and find_sides(direction)[0] in alike
                if within and not readers.get(direction):
                    counts |= count_within(self._vectors, direction, judged)
        for direction, judged in merged.items():
            if direction not in counts:
                along = readers.get(direction, ())
                counts[direction] = count_by_row(self._vectors, direction, judged, along)
        return counts

    def compare(self, pairs: RatedPairs, direction: str) -> FloatArray:
        """(P,) similarities, summed in float64."""
        return compare_pairs(self.run, pairs, direction, self.similarity)


def _put_rows_first(merged: dict[str, MergedJudgments], readers: Readers) -> dict[str, MergedJudgments]:
    """The cross-modal directions if they can share a product, first the one whose queries are rows."""
    deep = [direction for direction in merged if not all(map(can_read_columns, readers.get(direction, ())))]
    if len(merged) < len(CROSS_MODAL) or len(deep) == len(CROSS_MODAL):
        return {}
    first = deep[0] if deep else max(merged, key=lambda direction: merged[direction].query_ids.size)
    return dict(sorted(merged.items(), key=lambda item: item[0] != first))


def count_by_row(
    vectors: Vectors,
    direction: str,
    merged: MergedJudgments,
    readers: Sequence[RowReader],
) -> Counts:
    """Count one direction row by row, on the CPU or a torch device; readers read on the CPU."""
    query_side, gallery_side = find_sides(direction)
    layout = Layout.of(merged.segments)
    rows = vectors.prepare(query_side, merged.query_ids, role=QUERY)
    columns = vectors.prepare(gallery_side, merged.gallery_ids, layout)
    refuse_extremes(vectors.similarity, rows, columns, merged.query_ids, layout.spread(merged.gallery_ids))
    self_columns = merged.self_columns(layout.column)
    options = vectors.options
    if options.device is None:
        scores = Product(rows, columns, layout.padding, self_columns=self_columns)
        return count_and_read(scores, merged, layout, readers, options, direction)
    torch = torch_on(options.device)
    with full_precision(torch, options.device):
        product = DeviceProduct(torch, options, rows, columns, layout.padding, self_columns)
        return count_and_read(product, merged, layout, readers, options, direction)


@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """The vectors of a run with their similarity, ``cosine`` or ``dot``, and how to rank."""

    run: EmbeddingsRun
    similarity: str
    options: Options

    def prepare(
        self, side: str, ids: IntArray, layout: Layout | None = None, *, role: str = GALLERY
    ) -> NDArray[np.float32]:
        """Prepared vectors of the ids, in their order or laid out as columns with zeros in the padding."""
        rows = find_rows(ids, self.run, side)
        embeddings = cast("Embeddings", self.run.find_vectors(side, role))
        targets, height = (np.arange(ids.size), ids.size) if layout is None else (layout.column, layout.width)
        out = np.zeros((height, embeddings.vectors.shape[1]), dtype=np.float32)

        def prepare_part(start: int) -> IntArray:
            part = slice(start, start + ROWS_PREPARED_AT_ONCE)
            return prepare(embeddings.vectors, self.similarity, rows[part], targets[part], out)

        with ThreadPoolExecutor(workers()) as pool:
            zero = np.concatenate(list(pool.map(prepare_part, range(0, ids.size, ROWS_PREPARED_AT_ONCE))))
        refuse_zero_vectors(embeddings.ids[zero], ids.size, side, self.run.path or "run")
        return out


def count_both(
    vectors: Vectors,
    merged: Mapping[str, MergedJudgments],
    readers: Mapping[str, Sequence[RowReader]],
) -> dict[str, Counts]:
    """Count both cross-modal directions with one product, or only the first if scores are too much alike."""
    (direction, by_row), (other, by_column) = merged.items()
    row_ids, row_segments, column_ids, layout = _lay_out(by_row, by_column)
    row_side, column_side = find_sides(direction)
    rows = vectors.prepare(row_side, row_ids)
    columns = vectors.prepare(column_side, column_ids, layout)
    refuse_extremes(vectors.similarity, rows, columns, row_ids, layout.spread(column_ids))
    queries, items = _find_pairs(by_row, row_ids, column_ids)
    row_pairs = RowPairs(queries, layout.column[items], layout.bounds)
    along = readers.get(direction, ())
    for reader in along:
        reader.attach(row_ids, column_ids, layout.column, layout.width)
    queries, items = _find_pairs(by_column, column_ids, row_ids)
    queries = layout.column[queries]
    column_pairs = ColumnPairs(items, queries, *brackets(rows, columns, items, queries), by_column.n_segments)
    arguments = readers.get(other, ()), row_ids, column_ids, layout.column, layout.width
    make_readers = partial(ColumnReaders, *arguments, lambda chosen: rows[chosen] @ columns.T)
    across = _Across(column_pairs, row_segments, make_readers)

    def read(block: NDArray[np.float32], start: int) -> None:
        row_pairs.read(block, start)
        for reader in along:
            reader.read(block, start)
        across.read(block, start)

    scan(Product(rows, columns, layout.padding, tie_rows=True), read, vectors.options, f"{direction} and {other}")
    counts = row_pairs.result
    kept = by_row.n_segments
    of_rows = Counts(counts.scores, counts.at_least[:, :kept], counts.above[:, :kept])
    of_columns = across.resolve()
    return {direction: of_rows} if of_columns is None else {direction: of_rows, other: of_columns}


class _Across:
    """Counts and reads the queries that are columns, until too many scores are alike."""

    def __init__(self, pairs: ColumnPairs, row_segments: IntArray, make_readers: Callable[[], ColumnReaders]) -> None:
        self._pairs = pairs
        self._row_segments = row_segments
        self._too_alike = Event()
        try:
            self._readers = make_readers()
        except ScoresTooAlike:
            self._too_alike.set()

    def read(self, block: NDArray[np.float32], start: int) -> None:
        """Read a block whose first row is ``start``; blocks may come in any order."""
        if self._too_alike.is_set():
            return
        try:
            self._pairs.read(block, start, self._row_segments[start : start + len(block)])
            self._readers.read(block, start)
        except ScoresTooAlike:
            self._too_alike.set()

    def resolve(self) -> Counts | None:
        """Hand out results to the readers and return exact counts, or None if scores were too much alike."""
        if self._too_alike.is_set():
            return None
        try:
            self._readers.finish()
            return self._pairs.resolve()
        except ScoresTooAlike:
            return None


def _lay_out(by_row: MergedJudgments, by_column: MergedJudgments) -> tuple[IntArray, IntArray, IntArray, Layout]:
    """Ids and ascending segments of the rows, -1 for rows in no gallery; ids of the columns, and their layout."""
    row_ids, row_segments = _with_segments(by_row.query_ids, by_column)
    order = np.argsort(row_segments, kind="stable")
    column_ids, column_segments = _with_segments(by_column.query_ids, by_row)
    # Columns with the same number of pairs are adjacent, so that they are counted together.
    n_pairs = np.bincount(by_column.queries, minlength=by_column.query_ids.size)
    alike = np.argsort(-n_pairs[find_positions(column_ids, by_column.query_ids)[0]], kind="stable")
    column_ids = column_ids[alike]
    column_segments = column_segments[alike]
    # Columns in no gallery form a last, additional segment.
    layout = Layout.of(np.where(column_segments < 0, by_row.n_segments, column_segments))
    return row_ids[order], row_segments[order], column_ids, layout


def _with_segments(query_ids: IntArray, opposite: MergedJudgments) -> tuple[IntArray, IntArray]:
    """Ids of the queries and of the gallery of ``opposite``, with their segments in that gallery or -1."""
    ids = opposite.gallery_ids
    if not np.array_equal(query_ids, ids):
        ids = find_distinct(np.concatenate([query_ids, ids]))
    indices, present = find_positions(ids, opposite.gallery_ids)
    return ids, np.where(present, opposite.segments[indices], -1)


def _find_pairs(merged: MergedJudgments, query_ids: IntArray, gallery_ids: IntArray) -> tuple[IntArray, IntArray]:
    """(P,) positions of the query and the item of each pair among these ids."""
    queries = find_positions(merged.query_ids, query_ids)[0]
    items = find_positions(merged.gallery_ids, gallery_ids)[0]
    return queries[merged.queries], items[merged.items]


def count_within(vectors: Vectors, direction: str, merged: MergedJudgments) -> dict[str, Counts]:
    """Count text-text or image-image with half a product.

    Returns nothing if a whole product is faster, as with few queries and a large gallery, or if scores are too alike.
    """
    ids, segments = _with_segments(merged.query_ids, merged)
    if HALF_PRODUCT_SHARE * ids.size**2 > merged.query_ids.size * merged.gallery_ids.size:
        return {}
    order = _positives_together(merged, ids)
    ids = ids[order]
    segments = segments[order]
    layout = Layout.of(np.where(segments < 0, merged.n_segments, segments))
    rows = vectors.prepare(find_sides(direction)[0], ids, layout)
    refuse_extremes(vectors.similarity, rows, rows, layout.spread(ids), layout.spread(ids))
    try:
        half = HalfProduct(rows, layout.padding, without_self=merged.without_self, shared_bytes=BLOCK_BYTES)
        pairs = MutualPairs(merged, ids, segments, layout, rows)
        scan(half, pairs.read, vectors.options, direction)
        return {direction: pairs.resolve()}
    except ScoresTooAlike:
        return {}


def _positives_together(merged: MergedJudgments, ids: IntArray) -> IntArray:
    """(N,) order in which positives mostly share a block with their query, so that their score is known early."""
    queries, items = _find_pairs(merged, ids, ids)
    first = np.arange(ids.size)
    np.minimum.at(first, queries, items)
    return np.argsort(first, kind="stable")


class MutualPairs:
    """Counts positive pairs whose query and item are in the same layout.

    The items above a query are counted in the query's column, the others in its row. If the score of the positive is
    not in the block, its bracket is used, see :class:`ColumnPairs`.
    """

    def __init__(
        self, merged: MergedJudgments, ids: IntArray, segments: IntArray, layout: Layout, vectors: NDArray[np.float32]
    ) -> None:
        queries, items = (layout.column[indices] for indices in _find_pairs(merged, ids, ids))
        self._order = np.argsort(queries, kind="stable")
        self._queries = queries[self._order]
        self._items = items[self._order]
        # Most pairs are positive in both orders, which share a bracket.
        first = np.minimum(self._queries, self._items)
        second = np.maximum(self._queries, self._items)
        pairs, occurrence = np.unique(first * layout.width + second, return_inverse=True)
        low, high = brackets(vectors, vectors, *np.divmod(pairs, layout.width))
        self._low = low[occurrence]
        self._high = high[occurrence]
        self._bounds = layout.bounds
        self._segments = layout.spread(segments)
        self._columns = ColumnPairs(self._items, self._queries, self._low, self._high, merged.n_segments)
        self._rows = Counts.zeros(queries.size, layout.bounds.size - 1)

    def read(self, block: NDArray[np.float32], start: int) -> None:
        """Count a block of :class:`HalfProduct` whose first row is ``start``; blocks may come in any order."""
        stop = start + len(block)
        left = left_edge(start)
        self._columns.read(block[:, stop - left :], start, self._segments[start:stop], left=stop)
        self._count(block, start, slice(*np.searchsorted(self._queries, [start, stop]).tolist()))

    def resolve(self) -> Counts:
        """Exact counts after the last block, in the original order of the pairs."""
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
        """Count the rows of pairs against the pair's score if the block has it, else against its bracket."""
        rows = self._queries[pairs] - start
        left = left_edge(start)
        present = self._items[pairs] >= start
        scores = block[rows, np.where(present, self._items[pairs] - left, 0)]
        low = np.where(present, scores, self._low[pairs])
        high = np.where(present, scores, self._high[pairs])
        first = int(np.searchsorted(self._bounds, left, side="right")) - 1
        reached = row_counts(block, rows, low, high, np.maximum(self._bounds[first:] - left, 0))
        indices = np.arange(pairs.start, pairs.stop)
        self._columns.record(indices[present], scores[present])
        if not reached.complete:
            raise ScoresTooAlike
        self._rows.at_least[pairs, first:], self._rows.above[pairs, first:] = reached.at_least, reached.above
        self._columns.keep(self._segments[left + reached.indices], indices[reached.pairs], reached.scores)


class HalfProduct(Scores):
    """The upper half of the scores of vectors with themselves, in blocks of rows.

    A block reaches from about its diagonal, which ``without_self`` leaves out, to the right end. Byte-identical vectors
    have identical scores everywhere, from a separate small product. ScoresTooAlike is raised if that product needs more
    than ``shared_bytes``.
    """

    backwards = True

    def __init__(
        self, vectors: NDArray[np.float32], padding: IntArray, *, without_self: bool, shared_bytes: int
    ) -> None:
        self.height = self.width = len(vectors)
        self._vectors = vectors
        self._padding = padding
        self._without_self = without_self
        leaders, self._group = group_twins(vectors)
        if leaders.size * len(vectors) * vectors.itemsize > shared_bytes:
            raise ScoresTooAlike
        self._shared = _symmetric(vectors[leaders] @ vectors.T, leaders, self._group)

    def room(self, size: int) -> NDArray[np.float32]:
        """Memory for one block."""
        return np.empty(size * self.width, dtype=np.float32)

    def fill(self, start: int, stop: int, room: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scores of rows ``start`` to ``stop`` from ``left_edge(start)`` on; minus infinity where no item competes."""
        left = left_edge(start)
        height = stop - start
        width = self.width - left
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
    """First column of the block that begins at row ``start``, aligned so that flags are counted by words."""
    return start - start % ALIGNMENT


def _symmetric(shared: NDArray[np.float32], leaders: IntArray, group: IntArray) -> NDArray[np.float32]:
    """Scores of the shared vectors, made symmetric among themselves and equal for copies."""
    among = np.triu(shared[:, leaders])
    among += np.triu(among, 1).T
    members = np.flatnonzero(group >= 0)
    shared[:, members] = among[:, group[members]]
    return shared


def compare_pairs(run: EmbeddingsRun, pairs: RatedPairs, direction: str, similarity: str) -> FloatArray:
    """(P,) similarities of pairs, summed in float64; the two sides of a pair are alike and have no role."""
    query_side, item_side = find_sides(direction)
    if query_side == item_side:  # the smaller row first, so that both orders are the same pair
        both = np.split(_find_repeated(np.concatenate([pairs.query_ids, pairs.item_ids]), run, query_side), 2)
        queries = np.minimum(*both)
        items = np.maximum(*both)
    else:
        queries = _find_repeated(pairs.query_ids, run, query_side)
        items = _find_repeated(pairs.item_ids, run, item_side)
    left, right = (cast("Embeddings", run.find_vectors(side, SYMMETRIC)).vectors for side in (query_side, item_side))
    if similarity == "cosine":
        for side, vectors, rows in ((query_side, left, queries), (item_side, right, items)):
            named = np.unique(rows)
            zero = named[~vectors[named].any(axis=1)]
            refuse_zero_vectors(run.ids(side)[zero], named.size, side, run.path or "run")
    distinct, occurrence = np.unique(queries * len(right) + items, return_inverse=True)
    queries, items = np.divmod(distinct, len(right))
    values = pair_products(left, right, queries, items)[0]
    if similarity == "cosine":
        # The root of the product, not the product of roots, gives identical vectors exactly 1.
        values /= np.sqrt(_squares(left, queries) * _squares(right, items))
    return np.asarray(values[occurrence])


def _find_repeated(ids: IntArray, run: EmbeddingsRun, side: str) -> IntArray:
    """(P,) row of each id, of which many repeat."""
    distinct, occurrence = np.unique(ids, return_inverse=True)
    return find_rows(distinct, run, side)[occurrence]


def _squares(vectors: NDArray[np.float32], rows: IntArray) -> FloatArray:
    """(P,) squared lengths of the chosen vectors."""
    distinct, occurrence = np.unique(rows, return_inverse=True)
    return np.asarray(pair_products(vectors, vectors, distinct, distinct)[0][occurrence])
