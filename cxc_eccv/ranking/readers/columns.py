"""The transposed direction out of the same product: queries that are columns, while blocks of rows go by.

Their positives are counted between brackets, and the best rows of every column are kept.
"""

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
from cxc_eccv.types import IntArray, positions_of

PAIRS_AT_ONCE = 4096
LEAST = float(np.finfo(np.float32).smallest_subnormal)


class ColumnPairs:
    """Positive pairs whose query is a column of the score matrix, ``rows`` those of their items.

    A column is complete only after the last block, but the scores of its positives are spread over all blocks. So
    each pair brings a bracket, ``low`` to ``high``, that its score is sure to lie in: items above the bracket and items
    that reach it are counted at once, the few items inside are kept with their scores, and they are compared when the
    pair's own score from the same product is known. The result is exact, and needs no second product.
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
        self._place = np.empty_like(order)
        self._place[order] = np.arange(order.size)
        self._rows, self._columns = rows[order], columns[order]
        self._bounds = np.stack([low[order], high[order]])
        self._by_row = np.argsort(self._rows, kind="stable")
        self._sorted_rows = self._rows[self._by_row]
        self._scores = np.zeros(rows.size, dtype=np.float32)
        self._at_least, self._above = np.zeros((2, n_segments, rows.size), dtype=np.int64)
        self._near: list[tuple[IntArray, NDArray[np.float32]]] = []
        self._lock = Lock()

    def read(self, block: NDArray[np.float32], start: int, segments: IntArray, left: int = 0) -> None:
        """Count a block of rows, of which ``start`` is the first; blocks may come in any order."""
        own = self._by_row[slice(*np.searchsorted(self._sorted_rows, [start, start + len(block)]))]
        own = own[self._columns[own] >= left]
        self._record(own, block[self._rows[own] - start, self._columns[own] - left])
        pairs = slice(*np.searchsorted(self._columns, [left, left + block.shape[1]]).tolist())
        # Another thread may narrow a bracket meanwhile: all comparisons must see the same one.
        low, high = self._bounds[:, pairs].copy()
        edges = np.array([0, *(np.flatnonzero(np.diff(segments)) + 1), segments.size])
        found = column_counts(block, self._columns[pairs] - left, low, high, edges)
        if not found.complete:
            raise ScoresTooAlike
        with self._lock:
            for segment, at_least, above in zip(segments[edges[:-1]], found.at_least, found.above, strict=True):
                if segment >= 0:
                    self._at_least[segment, pairs] += at_least
                    self._above[segment, pairs] += above
            self._keep(segments[found.places], pairs.start + found.pairs, found.scores)

    def record(self, pairs: IntArray, scores: NDArray[np.float32]) -> None:
        """Learn the scores of pairs; ScoresTooAlike where one lies outside its bracket."""
        self._record(self._place[pairs], scores)

    def keep(self, segments: IntArray, pairs: IntArray, scores: NDArray[np.float32]) -> None:
        """Keep (E,) scores within the brackets of pairs until the pairs' own scores are known."""
        self._keep(segments, self._place[pairs], scores)

    def resolve(self) -> Counts:
        """Exact counts, after the last block: of what reached a bracket, what was kept may not reach the score."""
        places = np.concatenate([places for places, _ in self._near] or [np.zeros(0, np.int64)])
        values = np.concatenate([values for _, values in self._near] or [np.zeros(0, np.float32)])
        own = self._scores[places % self._rows.size]
        below, beyond = (
            np.bincount(places[chosen], minlength=self._above.size).reshape(self._above.shape)
            for chosen in (values < own, values > own)
        )
        at_least, above = self._at_least - below, self._above + beyond
        return Counts(self._scores[self._place], at_least[:, self._place].T, above[:, self._place].T)

    def _record(self, own: IntArray, scores: NDArray[np.float32]) -> None:
        low, high = self._bounds[:, own]
        if not np.all((low <= scores) & (scores <= high)):
            raise ScoresTooAlike
        self._scores[own] = self._bounds[0, own] = self._bounds[1, own] = scores

    def _keep(self, segments: IntArray, own: IntArray, scores: NDArray[np.float32]) -> None:
        inside = segments >= 0
        self._near.append((segments[inside] * self._rows.size + own[inside], scores[inside]))


def brackets(
    queries: NDArray[np.float32], items: NDArray[np.float32], rows: IntArray, columns: IntArray
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Bounds on the score that any float32 matrix product gives a pair: ``low <= score <= high``.

    A float32 dot product of D terms, summed in any order, with or without fused multiply-add, errs by at most
    gamma(u) * sum |x_i y_i| with gamma(u) = D u / (1 - D u) and u = 2**-24. The centre is such a product in float64,
    where u = 2**-53, doubled because the sum of absolute values errs as well; the bracket reaches as far as all this,
    and a little farther for products that underflow.

    References:
        Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1.
    """
    centre, magnitude = np.empty((2, rows.size))

    def multiply(start: int) -> None:
        part = slice(start, start + PAIRS_AT_ONCE)
        centre[part], magnitude[part] = pair_products(queries, items, rows[part], columns[part])

    with ThreadPoolExecutor(workers()) as pool:
        list(pool.map(multiply, range(0, rows.size, PAIRS_AT_ONCE)))
    n_terms = queries.shape[1]
    reach = magnitude * sum(n_terms * unit / (1 - n_terms * unit) for unit in (2.0**-24, 2.0**-52))
    reach += n_terms * LEAST  # a product below the normal numbers errs by half of the least one
    low = np.nextafter((centre - reach).astype(np.float32), np.float32(-np.inf))
    return low, np.nextafter((centre + reach).astype(np.float32), np.float32(np.inf))


SAMPLE = 1024
SLACK = 5
MOST_KEPT = 25_000_000
SHARE = 64
"""A reader is shallow that looks at no more than this fraction of its gallery."""
QUERIES_AT_ONCE = 64


class BestOfColumns:
    """Keeps every score of a column that is among its best so many, however many: what reaches a bound.

    The bound is guessed from a ``sample`` of rows so that it is too high once in millions of columns; whether all were
    kept is known in the end. ``depths`` has how many of each column, 0 where it is not looked at; ``own`` are those
    rows of the sample that are among the ``n_items`` looked for. ScoresTooAlike is raised where memory would not
    suffice.
    """

    def __init__(self, depths: IntArray, sample: NDArray[np.float32], own: IntArray, n_items: int) -> None:
        share = depths / n_items
        mean = own.size * share
        ranks = np.ceil(mean + SLACK * np.sqrt(mean * (1 - share)) + SLACK).astype(np.int64)
        ranks[depths == 0] = 0
        self._share = float(np.clip(ranks / max(own.size, 1), 0, 1).mean())
        if self._share * depths.size * n_items > MOST_KEPT:
            raise ScoresTooAlike
        self._bounds = kernels.scores_of_columns(sample, own, ranks)
        self._depths, self._sizes = depths, np.zeros(depths.size, dtype=np.int64)
        self._kept: list[kernels.KeptColumns] = []
        self._lock = Lock()

    def read(self, block: NDArray[np.float32], places: IntArray) -> None:
        """Read a (B, width) block of rows, which are called ``places`` in the result; negative ones are left out."""
        if self._sizes.sum() > MOST_KEPT:
            raise ScoresTooAlike
        kept = kernels.KeptColumns(block, places, self._bounds, self._share)
        with self._lock:
            self._kept.append(kept)
            self._sizes += kept.sizes

    @property
    def complete(self) -> bool:
        """Whether the best of all columns were kept, after the last block."""
        return bool((self._sizes >= self._depths).all())

    def sizes(self, columns: IntArray) -> IntArray:
        """How many scores were kept of each column."""
        return self._sizes[columns]

    def lists(self, columns: IntArray) -> tuple[NDArray[np.float32], NDArray[Any]]:
        """(n, C) scores of columns, filled up with minus infinity, and (n, C) places, with -1."""
        shape = columns.size, int(self._sizes[columns].max())
        scores, places = np.full(shape, -np.inf, dtype=np.float32), np.full(shape, -1, dtype=np.int32)
        filled = np.zeros_like(columns)
        for kept in self._kept:
            kept.spread(columns, filled, scores, places)
        return scores, places


def can_read_columns(reader: RowReader) -> bool:
    """Whether what a reader looks at can be kept for it while blocks of rows go by; compiled only."""
    return kernels.COMPILED and (reader.deepest is None or _is_shallow(reader))


def _is_shallow(reader: RowReader) -> bool:
    return reader.deepest is not None and reader.deepest * SHARE <= reader.gallery_ids.size


class ColumnReaders:
    """Lets readers that pass :func:`can_read_columns` read columns instead of rows.

    ``columns`` are the places of the queries ``column_ids``; ``score_rows`` gives about the scores of some rows.
    ScoresTooAlike is raised where readers look at more than can be kept.
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
        self._column_ids, self._columns = column_ids, columns
        self._groups: list[tuple[list[RowReader], IntArray, BestOfColumns]] = []
        if not readers:
            return
        galleries: dict[object, list[RowReader]] = {}
        for reader in readers:
            alike = reader.gallery_ids.tobytes() if _is_shallow(reader) else reader
            galleries.setdefault(alike, []).append(reader)
        drawn = np.random.default_rng(0).permutation(row_ids.size)[:SAMPLE]
        sample = score_rows(drawn)
        for group in galleries.values():
            places, known = positions_of(row_ids, group[0].gallery_ids)
            depths = np.zeros(width, dtype=np.int64)
            for reader in group:
                own = self._columns_of(reader)
                depths[own] = np.maximum(depths[own], reader.needs)
            best = BestOfColumns(depths, sample, np.flatnonzero(known[drawn]), int(np.count_nonzero(known)))
            self._groups.append((group, np.where(known, places, -1), best))

    def read(self, block: NDArray[np.float32], start: int) -> None:
        """Read a block of rows, of which ``start`` is the first; raises ScoresTooAlike before any reader has read."""
        for _, items, best in self._groups:
            best.read(block, items[start : start + len(block)])

    def finish(self) -> None:
        """Hand out the best items, after the last block; where not all were kept, ScoresTooAlike before any is."""
        if not all(best.complete for _, _, best in self._groups):
            raise ScoresTooAlike
        for readers, _, best in self._groups:
            for reader in readers:
                self._hand_out(reader, best)

    def _hand_out(self, reader: RowReader, best: BestOfColumns) -> None:
        """Few queries at a time, of about as many items each."""
        columns = self._columns_of(reader)
        order = np.argsort(best.sizes(columns))

        def take(start: int) -> None:
            queries = order[start : start + QUERIES_AT_ONCE]
            reader.take(queries, *best.lists(columns[queries]))

        with ThreadPoolExecutor(workers()) as pool:
            list(pool.map(take, range(0, columns.size, QUERIES_AT_ONCE)))

    def _columns_of(self, reader: RowReader) -> IntArray:
        return self._columns[positions_of(reader.query_ids, self._column_ids)[0]]
