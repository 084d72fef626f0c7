"""Counting tiles of a gallery: how many of their items reach the positives of every query."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.types import IntArray

__all__ = ["TILE_WIDTH", "TileCounter", "count_flags"]

WORDS_AT_ONCE = 255
TILE_WIDTH = 4 * 8 * WORDS_AT_ONCE
ROWS_AT_ONCE = 32


class TileCounter:
    """Thresholds of all pairs, laid out so that every query's first pair is compared in one go, then every second.

    Args:
        rows: (P,) row of each pair's query.
        scores: (P,) score of each pair.
        n_rows: number of queries.

    Attributes:
        order: (Q,) rows to score, those with most pairs first.
    """

    def __init__(self, rows: IntArray, scores: NDArray[np.float32], n_rows: int) -> None:
        sizes = np.bincount(rows, minlength=n_rows)
        self.order = np.argsort(-sizes, kind="stable")
        self._sizes = sizes[self.order]
        place = np.empty(n_rows, dtype=np.int64)
        place[self.order] = np.arange(n_rows)
        by_query = np.argsort(rows, kind="stable")
        starts = np.concatenate([[0], np.cumsum(sizes)])
        self._ordinal, self._place = np.empty_like(rows), place[rows]
        self._ordinal[by_query] = np.arange(rows.size) - starts[rows[by_query]]
        shape = int(sizes.max(initial=0)), n_rows
        self._thresholds = np.zeros((2, *shape), dtype=np.float32)
        self._thresholds[0, self._ordinal, self._place] = scores
        self._thresholds[1] = np.nextafter(self._thresholds[0], np.float32(np.inf))

    def count(self, block: NDArray[np.float32], start: int, counts: IntArray) -> None:
        """Add what a block of scores reaches.

        Args:
            block: (B, C) scores of rows ``start`` to ``start + B`` of ``order``; C a multiple of 8.
            start: first of these rows.
            counts: (2, K, Q) sums so far: at least, and above, of the K-th pair of each row.
        """
        for first in range(0, len(block), ROWS_AT_ONCE):
            strip = block[first : first + ROWS_AT_ONCE]
            rows = slice(start + first, start + first + len(strip))
            for ordinal in range(int(self._sizes[rows.start])):
                own = slice(rows.start, rows.start + int(np.count_nonzero(self._sizes[rows] > ordinal)))
                for kind in range(2):
                    flags = strip[: own.stop - own.start] >= self._thresholds[kind, ordinal, own, None]
                    counts[kind, ordinal, own] += count_flags(flags)

    def zeros(self) -> IntArray:
        """(2, K, Q) empty sums."""
        return np.zeros(self._thresholds.shape, dtype=np.int64)

    def of_pairs(self, counts: IntArray) -> IntArray:
        """(2, P) sums of the pairs, in the order in which they were given."""
        return np.asarray(counts[:, self._ordinal, self._place])


def count_flags(flags: NDArray[np.bool_]) -> IntArray:
    """(B,) true flags of each row of a contiguous (B, C) array; C is a multiple of 8.

    Eight flags are added as one word, at most 255 words at once.

    Example:
        >>> count_flags(np.ones((2, 4096), dtype=bool)).tolist()
        [4096, 4096]
    """
    words = flags.view(np.uint64)
    pieces = np.add.reduceat(words, np.arange(0, words.shape[1], WORDS_AT_ONCE), axis=1)
    return np.asarray(pieces.view(np.uint8).sum(axis=1, dtype=np.int64))
