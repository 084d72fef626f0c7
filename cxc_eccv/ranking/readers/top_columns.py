"""The best rows of every column of the score matrix, kept while blocks of rows go by."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.counts import ScoresTooAlike
from cxc_eccv.ranking.readers.reader import GROUPS_PER_DEPTH, RowReader, score_at_depth
from cxc_eccv.types import IntArray, positions_of

__all__ = ["BestOfColumns", "ColumnReaders"]

GROWTH = 1.5
MOST_PER_BEST = 8
RADIX_SORTED = 2**16
QUERIES_AT_ONCE = 1024


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


class ColumnReaders:
    """Lets readers that pass :func:`can_read_columns` read columns instead of rows.

    ``row_ids`` are the items of the rows, ``columns`` the places of the queries ``column_ids``; columns of no query
    hold minus infinity.
    """

    def __init__(
        self, readers: Sequence[RowReader], row_ids: IntArray, column_ids: IntArray, columns: IntArray, width: int
    ) -> None:
        galleries: dict[bytes, list[RowReader]] = {}
        for reader in readers:
            galleries.setdefault(reader.gallery_ids.tobytes(), []).append(reader)
        self._column_ids, self._columns = column_ids, columns
        self._groups = []
        for group in galleries.values():
            places, known = positions_of(row_ids, group[0].gallery_ids)
            asked = np.zeros(width, dtype=bool)
            for reader in group:
                asked[self._columns_of(reader)] = True
            depth = max(reader.deepest or 0 for reader in group)
            self._groups.append((group, np.where(known, places, -1), BestOfColumns(depth, asked)))

    def read(self, block: NDArray[np.float32], start: int) -> None:
        """Read a block of rows, of which ``start`` is the first; raises ScoresTooAlike before any reader has read."""
        for _, items, best in self._groups:
            own = items[start : start + len(block)]
            inside = own >= 0
            if inside.any():
                best.read(block if inside.all() else block[inside], own[inside])

    def finish(self) -> None:
        """Hand out the best items, after the last block."""
        for readers, _, best in self._groups:
            scores, items = best.lists()
            for reader in readers:
                columns = self._columns_of(reader)
                for start in range(0, columns.size, QUERIES_AT_ONCE):
                    own = columns[start : start + QUERIES_AT_ONCE]
                    reader.take(np.arange(start, start + own.size), scores[own], items[own])

    def _columns_of(self, reader: RowReader) -> IntArray:
        return self._columns[positions_of(reader.query_ids, self._column_ids)[0]]
