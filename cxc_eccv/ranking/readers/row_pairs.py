"""Positive pairs whose query is a row of the score matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.counts import Counts
from cxc_eccv.ranking.kernels import row_counts
from cxc_eccv.types import IntArray

__all__ = ["CountRows", "RowPairs", "count_rows"]

CountRows = Callable[[Any, IntArray, IntArray, IntArray], Counts]
"""Counts of (P,) pairs from a block, the row and the column of each, and the segment bounds of the columns."""


def count_rows(block: NDArray[Any], rows: IntArray, columns: IntArray, bounds: IntArray) -> Counts:
    """Count on the processor, see :data:`CountRows`."""
    scores = block[rows, columns]
    found = row_counts(block, rows, scores, scores, bounds)
    return Counts(scores, found.at_least, found.above)


class RowPairs:
    """Counts positive pairs whose row passes by.

    Args:
        rows: (P,) row of each pair's query.
        columns: (P,) column of each pair's item.
        bounds: (S + 1,) segment boundaries of the columns.
        count: counts where the blocks are.
    """

    def __init__(self, rows: IntArray, columns: IntArray, bounds: IntArray, count: CountRows = count_rows) -> None:
        self._order = np.argsort(rows, kind="stable")
        self._rows, self._columns, self._bounds = rows[self._order], columns[self._order], bounds
        self._counts, self._count = Counts.zeros(rows.size, bounds.size - 1), count

    def read(self, block: Any, start: int) -> None:  # noqa: ANN401 - an array, or a tensor on a device
        """Count all pairs of the rows in a block, of which ``start`` is the first; blocks may come in any order."""
        pairs = slice(*np.searchsorted(self._rows, [start, start + len(block)]).tolist())
        found = self._count(block, self._rows[pairs] - start, self._columns[pairs], self._bounds)
        with np.errstate(over="ignore"):  # a float64 score that the table of float32 ones does not hold
            self._counts.scores[pairs] = found.scores
        self._counts.at_least[pairs], self._counts.above[pairs] = found.at_least, found.above

    @property
    def result(self) -> Counts:
        """The counts, in the order in which the pairs were given."""
        back = np.empty_like(self._order)
        back[self._order] = np.arange(back.size)
        return self._counts.take(back)
