"""Counting, not sorting: how many items of each segment score at least, and above, a positive's score."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.types import IntArray

__all__ = ["Counts", "RowPairs", "SegmentCounter"]

PAIRS_AT_ONCE = 64
WORDS_AT_ONCE = 255


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Scores of positive pairs and how many gallery items reach them.

    Attributes:
        scores: (P,) float32 score of each pair.
        at_least: (P, S) items of each segment that score as high or higher, the positive itself included.
        above: (P, S) items of each segment that score higher.
    """

    scores: NDArray[np.float32]
    at_least: IntArray
    above: IntArray

    @classmethod
    def zeros(cls, n_pairs: int, n_segments: int) -> Counts:
        """Zero counts, to be filled.

        Example:
            >>> Counts.zeros(3, 2).at_least.shape
            (3, 2)
        """
        shape = n_pairs, n_segments
        return cls(np.zeros(n_pairs, np.float32), np.zeros(shape, np.int64), np.zeros(shape, np.int64))


class SegmentCounter:
    """Counts the true flags of each segment, eight flags to a 64-bit word.

    Args:
        bounds: (S + 1,) segment boundaries in columns, multiples of 8.

    Example:
        >>> flags = np.array([[True, True] + 6 * [False] + 8 * [True]])
        >>> SegmentCounter(np.array([0, 8, 16])).count(flags).tolist()
        [[2, 8]]
    """

    def __init__(self, bounds: IntArray) -> None:
        words = bounds // 8
        pieces = [np.arange(a, b, WORDS_AT_ONCE) for a, b in itertools.pairwise(words.tolist())]
        self._pieces = np.concatenate(pieces)
        self._segments = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])[:-1]])

    def count(self, flags: NDArray[np.bool_]) -> IntArray:
        """(P, S) number of true flags per row and segment; ``flags`` is (P, width), contiguous.

        A piece of at most 255 words is added as one: no byte of the sum can overflow into the next.
        """
        sums = np.add.reduceat(flags.view(np.uint64), self._pieces, axis=1)
        totals = sums.view(np.uint8).reshape(len(flags), self._pieces.size, 8).sum(axis=2, dtype=np.int64)
        return np.asarray(np.add.reduceat(totals, self._segments, axis=1))


class RowPairs:
    """Positive pairs whose query is a row of the score matrix.

    Args:
        rows: (P,) row of each pair's query.
        columns: (P,) column of each pair's item.
        bounds: (S + 1,) segment boundaries of the columns.
    """

    def __init__(self, rows: IntArray, columns: IntArray, bounds: IntArray) -> None:
        self._order = np.argsort(rows, kind="stable")
        self._rows, self._columns = rows[self._order], columns[self._order]
        self._counts = Counts.zeros(rows.size, bounds.size - 1)
        self._counter = SegmentCounter(bounds)

    def count(self, block: NDArray[np.float32], start: int) -> None:
        """Count all pairs of the rows in a block, of which ``start`` is the first; blocks may come in any order."""
        first, last = np.searchsorted(self._rows, [start, start + len(block)]).tolist()
        flags = np.empty((PAIRS_AT_ONCE, block.shape[1]), dtype=bool)
        for begin in range(first, last, PAIRS_AT_ONCE):
            self._count(block, start, slice(begin, min(begin + PAIRS_AT_ONCE, last)), flags)

    @property
    def result(self) -> Counts:
        """The counts, in the order in which the pairs were given."""
        back = np.empty_like(self._order)
        back[self._order] = np.arange(back.size)
        return Counts(self._counts.scores[back], self._counts.at_least[back], self._counts.above[back])

    def _count(self, block: NDArray[np.float32], start: int, pairs: slice, flags: NDArray[np.bool_]) -> None:
        rows = self._rows[pairs] - start
        scores = block[rows, self._columns[pairs]]
        self._counts.scores[pairs] = scores
        edges = [0, *(np.flatnonzero(np.diff(rows)) + 1).tolist(), rows.size]
        for compare, counts in ((np.greater_equal, self._counts.at_least), (np.greater, self._counts.above)):
            for a, b in itertools.pairwise(edges):
                compare(block[rows[a]], scores[a:b, None], out=flags[a:b])
            counts[pairs] = self._counter.count(flags[: rows.size])
