"""Positive pairs within one modality, counted while the upper half of the score matrix goes by in blocks of rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.counts import Counts, ScoresTooAlike
from cxc_eccv.ranking.kernels import row_counts
from cxc_eccv.ranking.readers.column_pairs import ColumnPairs
from cxc_eccv.ranking.scores.half_product import left_edge
from cxc_eccv.ranking.scores.product import Layout
from cxc_eccv.types import IntArray

__all__ = ["MutualPairs"]


class MutualPairs:
    """Positive pairs whose query and item both stand in one layout.

    A query meets the items above it as a column of their rows, and all others in its own row; so does its positive.
    Where the positive's score is not among those at hand, its bracket stands for it, see :class:`ColumnPairs`.

    Args:
        queries, items: (P,) places of each pair.
        low, high: (P,) bracket of each pair's score.
        layout: of the items.
        segments: (width,) segment of the item in each place; negative where it is in nobody's gallery.
        n_segments: S.
    """

    def __init__(
        self,
        queries: IntArray,
        items: IntArray,
        low: NDArray[np.float32],
        high: NDArray[np.float32],
        layout: Layout,
        segments: IntArray,
        n_segments: int,
    ) -> None:
        self._order = np.argsort(queries, kind="stable")
        self._queries, self._items = queries[self._order], items[self._order]
        self._low, self._high = low[self._order], high[self._order]
        self._bounds, self._segments = layout.bounds, segments
        self._columns = ColumnPairs(self._items, self._queries, self._low, self._high, n_segments)
        self._rows = Counts.zeros(queries.size, layout.bounds.size - 1)

    def read(self, block: NDArray[np.float32], start: int) -> None:
        """Count a block of :class:`HalfProduct`, of which ``start`` is the first row; blocks may come in any order.

        Raises:
            ScoresTooAlike: for brackets to settle anything.
        """
        stop, left = start + len(block), left_edge(start)
        self._columns.read(block[:, stop - left :], start, self._segments[start:stop], left=stop)
        self._count(block, start, slice(*np.searchsorted(self._queries, [start, stop]).tolist()))

    def resolve(self) -> Counts:
        """Exact counts, in the order in which the pairs were given, after the last block."""
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
        """Count the rows of pairs: against the pair's own score where the block holds it, else against its bracket."""
        rows, left = self._queries[pairs] - start, left_edge(start)
        known = self._items[pairs] >= start
        scores = block[rows, np.where(known, self._items[pairs] - left, 0)]
        low, high = np.where(known, scores, self._low[pairs]), np.where(known, scores, self._high[pairs])
        first = int(np.searchsorted(self._bounds, left, side="right")) - 1
        found = row_counts(block, rows, low, high, np.maximum(self._bounds[first:] - left, 0))
        own = np.arange(pairs.start, pairs.stop)
        self._columns.record(own[known], scores[known])
        if not found.complete:
            raise ScoresTooAlike
        self._rows.above[pairs, first:] = found.above
        self._rows.at_least[pairs, first:] = np.where(known[:, None], found.at_least, found.above)
        self._columns.keep(self._segments[left + found.places], own[found.pairs], found.scores)
