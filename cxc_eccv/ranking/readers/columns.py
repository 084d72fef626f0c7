"""Readers of queries that are columns, which count the transposed direction from the same product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv import kernels
from cxc_eccv.kernels import column_counts, pair_products
from cxc_eccv.ranking.counts import Counts, ScoresTooAlike
from cxc_eccv.ranking.readers.rows import RowReader
from cxc_eccv.ranking.scores import workers
from cxc_eccv.types import IntArray, find_positions

COLUMN_PAIRS_AT_ONCE = 4096
SMALLEST_FLOAT32 = float(np.finfo(np.float32).smallest_subnormal)


class ColumnPairs:
    """Counts positive pairs whose queries are columns of the score matrix; ``rows`` are those of their items.

    A column is complete only after the last block, and a positive's score may come in any block. So each pair has a
    bracket, ``low`` to ``high``, that is sure to hold its score. Items above and within reach of the bracket are
    counted; the few scores inside it are kept, and compared when the pair's score is known. The result is exact.
    """

    def __init__(
        self,
        rows: IntArray,
        columns: IntArray,
        low: NDArray[np.float32],
        high: NDArray[np.float32],
        n_segments: int,
    ) -> None:
        order = np.argsort(columns, kind="stable")
        self._index = np.empty_like(order)
        self._index[order] = np.arange(order.size)
        self._rows = rows[order]
        self._columns = columns[order]
        self._bounds = np.stack([low[order], high[order]])
        self._by_row = np.argsort(self._rows, kind="stable")
        self._sorted_rows = self._rows[self._by_row]
        self._scores = np.zeros(rows.size, dtype=np.float32)
        self._at_least, self._above = np.zeros((2, n_segments, rows.size), dtype=np.int64)
        self._near: list[tuple[IntArray, NDArray[np.float32]]] = []
        self._lock = Lock()

    def read(self, block: NDArray[np.float32], start: int, segments: IntArray, left: int = 0) -> None:
        """Count a block whose first row is ``start``; blocks may come in any order."""
        scored = self._by_row[slice(*np.searchsorted(self._sorted_rows, [start, start + len(block)]))]
        scored = scored[self._columns[scored] >= left]
        self._record(scored, block[self._rows[scored] - start, self._columns[scored] - left])
        pairs = slice(*np.searchsorted(self._columns, [left, left + block.shape[1]]).tolist())
        # Copied, as another thread may narrow a bracket between the comparisons.
        low, high = self._bounds[:, pairs].copy()
        edges = np.array([0, *(np.flatnonzero(np.diff(segments)) + 1), segments.size])
        reached = column_counts(block, self._columns[pairs] - left, low, high, edges)
        if not reached.complete:
            raise ScoresTooAlike
        with self._lock:
            for segment, at_least, above in zip(segments[edges[:-1]], reached.at_least, reached.above, strict=True):
                if segment >= 0:
                    self._at_least[segment, pairs] += at_least
                    self._above[segment, pairs] += above
            self._keep(segments[reached.indices], pairs.start + reached.pairs, reached.scores)

    def record(self, pairs: IntArray, scores: NDArray[np.float32]) -> None:
        """Record the scores of pairs; raises ScoresTooAlike if one lies outside its bracket."""
        self._record(self._index[pairs], scores)

    def keep(self, segments: IntArray, pairs: IntArray, scores: NDArray[np.float32]) -> None:
        """Keep (E,) scores within the brackets of pairs until the scores of the pairs are known."""
        self._keep(segments, self._index[pairs], scores)

    def resolve(self) -> Counts:
        """Exact counts, after the last block: corrects the counts of the brackets by the scores that were kept."""
        indices = np.concatenate([indices for indices, _ in self._near] or [np.zeros(0, np.int64)])
        values = np.concatenate([values for _, values in self._near] or [np.zeros(0, np.float32)])
        pair_scores = self._scores[indices % self._rows.size]
        below, beyond = (
            np.bincount(indices[chosen], minlength=self._above.size).reshape(self._above.shape)
            for chosen in (values < pair_scores, values > pair_scores)
        )
        at_least = self._at_least - below
        above = self._above + beyond
        return Counts(self._scores[self._index], at_least[:, self._index].T, above[:, self._index].T)

    def _record(self, indices: IntArray, scores: NDArray[np.float32]) -> None:
        low, high = self._bounds[:, indices]
        if not np.all((low <= scores) & (scores <= high)):
            raise ScoresTooAlike
        self._scores[indices] = self._bounds[0, indices] = self._bounds[1, indices] = scores

    def _keep(self, segments: IntArray, indices: IntArray, scores: NDArray[np.float32]) -> None:
        inside = segments >= 0
        self._near.append((segments[inside] * self._rows.size + indices[inside], scores[inside]))


def brackets(
    queries: NDArray[np.float32], items: NDArray[np.float32], rows: IntArray, columns: IntArray
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Bounds on the score of a pair in any float32 matrix product: ``low <= score <= high``.

    A float32 dot product of D terms, summed in any order, with or without fused multiply-add, errs by at most
    gamma(u) * sum |x_i y_i| with gamma(u) = D u / (1 - D u) and u = 2**-24. The centre is the product in float64, with
    u = 2**-53, doubled as the sum of absolute values errs too. A small term is added for products that underflow.

    References:
        Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1.
    """
    centre, magnitude = np.empty((2, rows.size))

    def multiply(start: int) -> None:
        part = slice(start, start + COLUMN_PAIRS_AT_ONCE)
        centre[part], magnitude[part] = pair_products(queries, items, rows[part], columns[part])

    with ThreadPoolExecutor(workers()) as pool:
        list(pool.map(multiply, range(0, rows.size, COLUMN_PAIRS_AT_ONCE)))
    n_terms = queries.shape[1]
    reach = magnitude * sum(n_terms * unit / (1 - n_terms * unit) for unit in (2.0**-24, 2.0**-52))
    reach += n_terms * SMALLEST_FLOAT32  # a subnormal product errs by half of the least number
    low = np.nextafter((centre - reach).astype(np.float32), np.float32(-np.inf))
    return low, np.nextafter((centre + reach).astype(np.float32), np.float32(np.inf))


SAMPLED_SCORES = 1024
BRACKET_SLACK = 5
MOST_KEPT = 25_000_000
KEPT_SHARE = 64
"""A reader is shallow if it needs at most 1 / KEPT_SHARE of its gallery."""
COLUMN_QUERIES_AT_ONCE = 64


class BestOfColumns:
    """Keeps the scores of each column that reach a bound, among which are its best ``depths``.

    The bound is estimated from a ``sample`` of rows so that it is too high in one of millions of columns; ``complete``
    says whether it was low enough. ``depths`` is 0 for columns that are not needed; ``item_rows`` are the rows of the
    sample that are among the ``n_items`` ranked items. ScoresTooAlike is raised if memory would not suffice.
    """

    def __init__(self, depths: IntArray, sample: NDArray[np.float32], item_rows: IntArray, n_items: int) -> None:
        share = depths / n_items
        mean = item_rows.size * share
        ranks = np.ceil(mean + BRACKET_SLACK * np.sqrt(mean * (1 - share)) + BRACKET_SLACK).astype(np.int64)
        ranks[depths == 0] = 0
        self._share = float(np.clip(ranks / max(item_rows.size, 1), 0, 1).mean())
        if self._share * depths.size * n_items > MOST_KEPT:
            raise ScoresTooAlike
        self._bounds = kernels.scores_of_columns(sample, item_rows, ranks)
        self._depths = depths
        self._sizes = np.zeros(depths.size, dtype=np.int64)
        self._kept: list[kernels.KeptColumns] = []
        self._lock = Lock()

    def read(self, block: NDArray[np.float32], indices: IntArray) -> None:
        """Read a (B, width) block of rows with ids ``indices`` in the result; rows with negative ids are left out."""
        if self._sizes.sum() > MOST_KEPT:
            raise ScoresTooAlike
        kept = kernels.KeptColumns(block, indices, self._bounds, self._share)
        with self._lock:
            self._kept.append(kept)
            self._sizes += kept.sizes

    @property
    def complete(self) -> bool:
        """Whether the best scores of all columns were kept, after the last block."""
        return bool((self._sizes >= self._depths).all())

    def sizes(self, columns: IntArray) -> IntArray:
        """Number of scores kept of each column."""
        return self._sizes[columns]

    def lists(self, columns: IntArray) -> tuple[NDArray[np.float32], NDArray[Any]]:
        """(n, C) scores of columns, padded with minus infinity, and (n, C) indices, padded with -1."""
        shape = columns.size, int(self._sizes[columns].max())
        scores = np.full(shape, -np.inf, dtype=np.float32)
        indices = np.full(shape, -1, dtype=np.int32)
        filled = np.zeros_like(columns)
        for kept in self._kept:
            kept.spread(columns, filled, scores, indices)
        return scores, indices


def can_read_columns(reader: RowReader) -> bool:
    """Whether a reader can read columns instead of rows; only with compiled kernels."""
    return kernels.COMPILED and (reader.deepest is None or _is_shallow(reader))


def _is_shallow(reader: RowReader) -> bool:
    return reader.deepest is not None and reader.deepest * KEPT_SHARE <= reader.gallery_ids.size


class ColumnReaders:
    """Lets readers that pass :func:`can_read_columns` read columns instead of rows.

    ``columns`` are those of the queries ``column_ids``; ``score_rows`` returns approximate scores of rows.
    ScoresTooAlike is raised if readers need more than can be kept.
    """

    def __init__(
        self,
        readers: Sequence[RowReader],
        row_ids: IntArray,
        column_ids: IntArray,
        columns: IntArray,
        width: int,
        score_rows: Callable[[IntArray], NDArray[np.float32]],
    ) -> None:
        self._column_ids = column_ids
        self._columns = columns
        self._groups: list[tuple[list[RowReader], IntArray, BestOfColumns]] = []
        if not readers:
            return
        galleries: dict[object, list[RowReader]] = {}
        for reader in readers:
            alike = reader.gallery_ids.tobytes() if _is_shallow(reader) else reader
            galleries.setdefault(alike, []).append(reader)
        drawn = np.random.default_rng(0).permutation(row_ids.size)[:SAMPLED_SCORES]
        sample = score_rows(drawn)
        for group in galleries.values():
            indices, present = find_positions(row_ids, group[0].gallery_ids)
            depths = np.zeros(width, dtype=np.int64)
            for reader in group:
                of_queries = self._find_columns(reader)
                depths[of_queries] = np.maximum(depths[of_queries], reader.needs)
            best = BestOfColumns(depths, sample, np.flatnonzero(present[drawn]), int(np.count_nonzero(present)))
            self._groups.append((group, np.where(present, indices, -1), best))

    def read(self, block: NDArray[np.float32], start: int) -> None:
        """Read a block whose first row is ``start``; raises ScoresTooAlike before any reader has read."""
        for _, items, best in self._groups:
            best.read(block, items[start : start + len(block)])

    def finish(self) -> None:
        """Hand out the best items after the last block; if some are missing, raise ScoresTooAlike before any."""
        if not all(best.complete for _, _, best in self._groups):
            raise ScoresTooAlike
        for readers, _, best in self._groups:
            for reader in readers:
                self._hand_out(reader, best)

    def _hand_out(self, reader: RowReader, best: BestOfColumns) -> None:
        """Hand out a few queries at a time, with similar numbers of items."""
        columns = self._find_columns(reader)
        order = np.argsort(best.sizes(columns))

        def take(start: int) -> None:
            queries = order[start : start + COLUMN_QUERIES_AT_ONCE]
            reader.take(queries, *best.lists(columns[queries]))

        with ThreadPoolExecutor(workers()) as pool:
            list(pool.map(take, range(0, columns.size, COLUMN_QUERIES_AT_ONCE)))

    def _find_columns(self, reader: RowReader) -> IntArray:
        return self._columns[find_positions(reader.query_ids, self._column_ids)[0]]
