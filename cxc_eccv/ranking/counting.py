"""Counting, not sorting: how many items of each segment score at least, and above, a positive's score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.kernels import row_counts
from cxc_eccv.types import IntArray

__all__ = ["Counts", "RowPairs"]


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


class RowPairs:
    """Positive pairs whose query is a row of the score matrix.

    Args:
        rows: (P,) row of each pair's query.
        columns: (P,) column of each pair's item.
        bounds: (S + 1,) segment boundaries of the columns.
    """

    def __init__(self, rows: IntArray, columns: IntArray, bounds: IntArray) -> None:
        self._order = np.argsort(rows, kind="stable")
        self._rows, self._columns, self._bounds = rows[self._order], columns[self._order], bounds
        self._counts = Counts.zeros(rows.size, bounds.size - 1)

    def count(self, block: NDArray[np.float32], start: int) -> None:
        """Count all pairs of the rows in a block, of which ``start`` is the first; blocks may come in any order."""
        pairs = slice(*np.searchsorted(self._rows, [start, start + len(block)]).tolist())
        rows = self._rows[pairs] - start
        scores = block[rows, self._columns[pairs]]
        self._counts.scores[pairs] = scores
        found = row_counts(block, rows, scores, scores, self._bounds)
        self._counts.at_least[pairs], self._counts.above[pairs] = found.low, found.high

    @property
    def result(self) -> Counts:
        """The counts, in the order in which the pairs were given."""
        back = np.empty_like(self._order)
        back[self._order] = np.arange(back.size)
        return Counts(self._counts.scores[back], self._counts.at_least[back], self._counts.above[back])
