"""The best rows of every column of the score matrix, kept while blocks of rows go by."""

from __future__ import annotations

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.thresholds import GROUPS_PER_DEPTH, score_at_depth
from cxc_eccv.types import IntArray

__all__ = ["BestOfColumns"]

GROWTH = 1.5
MOST_PER_BEST = 8
RADIX_SORTED = 2**16


class BestOfColumns:
    """Keeps every score of a column that is among its best so many, ties at the end included.

    Once a few rows went by, few scores of the next ones reach what a column has already: they are found by one
    comparison with each score.

    Args:
        depth: how many, at least 1.
        asked: (width,) whether a column is looked at.

    Attributes:
        settled: false when so many scores tie that they are not kept; there are no lists then.

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
        self.settled = True

    def read(self, block: NDArray[np.float32], places: IntArray) -> None:
        """Read a block of rows; blocks may come in any order, several at once.

        Args:
            block: (B, width) scores.
            places: (B,) what the rows are called in the result.
        """
        reached = block >= self._bound(block)
        if self._size + np.count_nonzero(reached) > MOST_PER_BEST * self._depth * self._lowest.size:
            self.settled = False
        if not self.settled:
            return
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
