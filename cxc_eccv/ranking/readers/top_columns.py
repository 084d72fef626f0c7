"""The best rows of every column of the score matrix, kept while blocks of rows go by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking import kernels
from cxc_eccv.ranking.counts import ScoresTooAlike
from cxc_eccv.ranking.readers.reader import GROUPS_PER_DEPTH, RowReader, score_at_depth
from cxc_eccv.ranking.scan import workers
from cxc_eccv.types import IntArray, positions_of

__all__ = ["BestOfColumns", "ColumnReaders", "DeepColumns", "can_read_columns"]

GROWTH = 1.5
MOST_PER_BEST = 8
RADIX_SORTED = 2**16
SAMPLE = 512
SLACK = 5
MOST_KEPT = 25_000_000
SHARE = 64
QUERIES_AT_ONCE = 1024
DEEP_AT_ONCE = 64


class BestOfColumns:
    """Keeps every score of a column that is among its best ``depth``, ties at the end included.

    Once a few rows went by, few scores of the next ones reach what a column has already: they are found by one
    comparison with each score. ``asked`` says of each column whether it is looked at.

    Example:
        >>> best = BestOfColumns(2, np.array([True, True]))
        >>> best.read(np.float32([[1, 5], [3, 6], [2, 5]]), np.array([10, 11, 12]))
        >>> scores, places = best.lists()
        >>> scores.tolist(), places.tolist()
        ([[3.0, 2.0, -inf], [5.0, 6.0, 5.0]], [[11, 12, -1], [10, 11, 12]])
    """

    def __init__(self, depth: int, asked: NDArray[np.bool_]) -> None:
        self._depth = depth
        self._lowest = np.where(asked, -np.inf, np.inf).astype(np.float32)
        self._found: list[tuple[IntArray, IntArray, NDArray[np.float32]]] = []
        self._size, self._kept = 0, 0
        self._lock = Lock()

    def read(self, block: NDArray[np.float32], places: IntArray) -> None:
        """Read a (B, width) block of rows, which are called ``places`` in the result; several at once, in any order.

        Raises:
            ScoresTooAlike: so many scores tie that they are not kept.
        """
        reached = block >= self._bound(block)
        if self._size + np.count_nonzero(reached) > MOST_PER_BEST * self._depth * self._lowest.size:
            raise ScoresTooAlike
        rows, columns = np.divmod(np.flatnonzero(reached), block.shape[1])
        scores = block[rows, columns]
        with self._lock:
            self._found.append((columns, places[rows], scores))
            self._size += rows.size
            if self._size > GROWTH * self._kept:
                self._drop_low()

    def lists(self) -> tuple[NDArray[np.float32], IntArray]:
        """(width, C) scores of each column, filled up with minus infinity, and (width, C) places, with -1."""
        columns, within, scores, places = self._by_column()
        shape = self._lowest.size, int(within.max(initial=0)) + 1
        table, names = np.full(shape, -np.inf, dtype=np.float32), np.full(shape, -1)
        table[columns, within], names[columns, within] = scores, places
        keep = table >= score_at_depth(table, min(self._depth, shape[1]))[:, None]
        return np.where(keep, table, np.float32(-np.inf)), np.where(keep, names, -1)

    def _bound(self, block: NDArray[np.float32]) -> NDArray[np.float32]:
        """(width,) scores that are no better than the last of each column's best."""
        n_groups = GROUPS_PER_DEPTH * self._depth
        size = len(block) // n_groups
        if not size or not np.isneginf(self._lowest).any():
            return self._lowest
        # So many rows of this block alone reach the bound.
        best = block[: n_groups * size].reshape(n_groups, size, -1).max(axis=1)
        reached = np.partition(best, n_groups - self._depth, axis=0)[n_groups - self._depth]
        return np.asarray(np.maximum(self._lowest, reached))

    def _drop_low(self) -> None:
        columns, within, scores, places = self._by_column()
        table = np.full((self._lowest.size, int(within.max(initial=0)) + 1), -np.inf, dtype=np.float32)
        table[columns, within] = scores
        if table.shape[1] >= self._depth:
            self._lowest = np.maximum(self._lowest, score_at_depth(table, self._depth))
        kept = scores >= self._lowest[columns]
        self._found = [(columns[kept], places[kept], scores[kept])]
        self._size = self._kept = int(np.count_nonzero(kept))

    def _by_column(self) -> tuple[IntArray, IntArray, NDArray[np.float32], IntArray]:
        """All that was found, by column: its column, its number within the column, its score and its place."""
        columns, places, scores = (np.concatenate(parts) for parts in zip(*self._found, strict=True))
        keys = columns.astype(np.uint16) if self._lowest.size <= RADIX_SORTED else columns
        order = np.argsort(keys, kind="stable")
        counts = np.bincount(columns, minlength=self._lowest.size)
        columns = columns[order]
        within = np.arange(columns.size) - (np.cumsum(counts) - counts)[columns]
        return columns, within, scores[order], places[order]


class DeepColumns:
    """Keeps every score of a column that is among its best so many, however many: what reaches a bound.

    The bound is guessed from a sample of rows so that it is too high once in millions of columns; whether all were kept
    is known in the end.

    ``depths`` has how many of each of the (width,) columns, 0 where it is not looked at; ``sample`` the (S, width)
    scores of some rows, drawn at random, of the ``n_items`` rows of which the best are looked for. ScoresTooAlike is
    raised where more would be kept than memory is given to.
    """

    def __init__(self, depths: IntArray, sample: NDArray[np.float32], n_items: int) -> None:
        share = depths / n_items
        mean = len(sample) * share
        ranks = np.ceil(mean + SLACK * np.sqrt(mean * (1 - share)) + SLACK).astype(np.int64)
        self._share = float(np.minimum(ranks[depths > 0] / len(sample), 1).sum() / depths.size)
        if self._share * depths.size * n_items > MOST_KEPT:
            raise ScoresTooAlike
        ordered = np.sort(np.ascontiguousarray(sample.T), axis=1)
        guessed = ordered[np.arange(depths.size), np.clip(len(sample) - ranks, 0, len(sample) - 1)]
        self._bounds = np.where(ranks > len(sample), np.float32(-np.inf), guessed)
        self._bounds[depths == 0] = np.inf
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
    """Whether what a reader looks at can be kept for it while blocks of rows go by."""
    return _is_shallow(reader) or (kernels.COMPILED and reader.deepest is None)


def _is_shallow(reader: RowReader) -> bool:
    return reader.deepest is not None and reader.deepest * SHARE <= reader.gallery_ids.size


class ColumnReaders:
    """Lets readers that pass :func:`can_read_columns` read columns instead of rows.

    ``row_ids`` are the items of the rows, ``columns`` the places of the queries ``column_ids``; columns of no query
    hold minus infinity. ``score_rows`` gives the (rows, width) scores of some rows, about. ScoresTooAlike is raised
    where readers look at more than can be kept.
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
        galleries: dict[object, list[RowReader]] = {}
        for reader in readers:
            alike = reader.gallery_ids.tobytes() if _is_shallow(reader) else reader
            galleries.setdefault(alike, []).append(reader)
        drawn = np.random.default_rng(0).permutation(row_ids.size)[:SAMPLE] if readers and kernels.COMPILED else None
        sample = None if drawn is None else score_rows(drawn)
        self._groups: list[tuple[list[RowReader], IntArray, BestOfColumns | DeepColumns]] = []
        for group in galleries.values():
            places, known = positions_of(row_ids, group[0].gallery_ids)
            depths = np.zeros(width, dtype=np.int64)
            for reader in group:
                own = self._columns_of(reader)
                depths[own] = np.maximum(depths[own], reader.needs)
            best: BestOfColumns | DeepColumns
            if sample is None or drawn is None:
                best = BestOfColumns(max(reader.deepest or 0 for reader in group), depths > 0)
            else:
                best = DeepColumns(depths, sample[known[drawn]], int(np.count_nonzero(known)))
            self._groups.append((group, np.where(known, places, -1), best))

    def read(self, block: NDArray[np.float32], start: int) -> None:
        """Read a block of rows, of which ``start`` is the first; raises ScoresTooAlike before any reader has read."""
        for _, items, best in self._groups:
            own = items[start : start + len(block)]
            inside = own >= 0
            if isinstance(best, DeepColumns):
                best.read(block, own)
            elif inside.any():
                best.read(block if inside.all() else block[inside], own[inside])

    def finish(self) -> None:
        """Hand out the best items, after the last block; where not all were kept, ScoresTooAlike before any is."""
        if not all(best.complete for _, _, best in self._groups if isinstance(best, DeepColumns)):
            raise ScoresTooAlike
        for readers, _, best in self._groups:
            if isinstance(best, DeepColumns):
                for reader in readers:
                    self._hand_out_deep(reader, best)
                continue
            scores, items = best.lists()
            for reader in readers:
                columns = self._columns_of(reader)
                for start in range(0, columns.size, QUERIES_AT_ONCE):
                    own = columns[start : start + QUERIES_AT_ONCE]
                    reader.take(np.arange(start, start + own.size), scores[own], items[own])

    def _hand_out_deep(self, reader: RowReader, best: DeepColumns) -> None:
        """Few queries at a time, of about as many items each."""
        columns = self._columns_of(reader)
        order = np.argsort(best.sizes(columns))

        def hand_out(start: int) -> None:
            queries = order[start : start + DEEP_AT_ONCE]
            reader.take(queries, *best.lists(columns[queries]))

        with ThreadPoolExecutor(workers()) as pool:
            list(pool.map(hand_out, range(0, columns.size, DEEP_AT_ONCE)))

    def _columns_of(self, reader: RowReader) -> IntArray:
        return self._columns[positions_of(reader.query_ids, self._column_ids)[0]]
