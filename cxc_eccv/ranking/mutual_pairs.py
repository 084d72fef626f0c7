"""Positive pairs within one modality, counted while the upper half of the score matrix goes by in blocks of rows."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.column_pairs import NEAR_PER_PAIR, ColumnPairs
from cxc_eccv.ranking.counting import PAIRS_AT_ONCE, Counts, SegmentCounter
from cxc_eccv.ranking.half_product import left_edge
from cxc_eccv.ranking.product import Layout
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
        self._above = ColumnPairs(self._items, self._queries, self._low, self._high, n_segments)
        self._beside = Counts.zeros(queries.size, layout.bounds.size - 1)

    @property
    def settled(self) -> bool:
        """False when scores are too much alike for brackets; the counts are void then."""
        return self._above.settled

    def count(self, block: NDArray[np.float32], start: int) -> None:
        """Count a block of :class:`HalfBlocks`, of which ``start`` is the first row; blocks may come in any order."""
        stop, left = start + len(block), left_edge(start)
        self._above.count(block[:, stop - left :], start, self._segments[start:stop], left=stop)
        first, last = np.searchsorted(self._queries, [start, stop]).tolist()
        flags = np.empty((PAIRS_AT_ONCE, block.shape[1]), dtype=bool)
        segment = int(np.searchsorted(self._bounds, left, side="right")) - 1
        counter = SegmentCounter(np.maximum(self._bounds[segment:] - left, 0))
        for begin in range(first, last, PAIRS_AT_ONCE):
            if self.settled:
                self._count(block, start, slice(begin, min(begin + PAIRS_AT_ONCE, last)), flags, counter)

    def resolve(self) -> Counts:
        """Exact counts, in the order in which the pairs were given, after the last block."""
        back = np.empty_like(self._order)
        back[self._order] = np.arange(back.size)
        above = self._above.resolve()
        n_segments = above.above.shape[1]
        return Counts(
            above.scores[back],
            (above.at_least + self._beside.at_least[:, :n_segments])[back],
            (above.above + self._beside.above[:, :n_segments])[back],
        )

    def _count(
        self,
        block: NDArray[np.float32],
        start: int,
        pairs: slice,
        flags: NDArray[np.bool_],
        counter: SegmentCounter,
    ) -> None:
        """Count the rows of a few pairs: against the pair's own score where the block holds it, else its bracket."""
        rows, left = self._queries[pairs] - start, left_edge(start)
        known = self._items[pairs] >= start
        scores = block[rows, np.where(known, self._items[pairs] - left, 0)]
        lower = np.where(known, scores, self._low[pairs])
        upper = np.where(known, np.nextafter(scores, np.float32(np.inf)), self._high[pairs])
        edges = [0, *(np.flatnonzero(np.diff(rows)) + 1).tolist(), rows.size]
        reached, beyond = (_reaching(block, rows, bound, edges, flags, counter) for bound in (lower, upper))
        own = np.arange(pairs.start, pairs.stop)
        self._above.record(own[known], scores[known])
        segments = slice(self._beside.above.shape[1] - beyond.shape[1], None)
        self._beside.above[pairs, segments] = beyond
        self._beside.at_least[pairs, segments] = np.where(known[:, None], reached, beyond)
        near = np.flatnonzero(~known & np.any(reached != beyond, axis=1))
        if (reached[near] - beyond[near]).sum() > NEAR_PER_PAIR * known.size:
            self._above.settled = False
            return
        for pair in near.tolist():
            row = block[rows[pair]]
            columns = np.flatnonzero((row >= lower[pair]) & (row < upper[pair]))
            self._above.keep(self._segments[left + columns], np.full(columns.size, own[pair]), row[columns])


def _reaching(
    block: NDArray[np.float32],
    rows: IntArray,
    bounds: NDArray[np.float32],
    edges: list[int],
    flags: NDArray[np.bool_],
    counter: SegmentCounter,
) -> IntArray:
    """(P, S) items of each segment that score at least the bound of each pair."""
    for first, last in itertools.pairwise(edges):
        np.greater_equal(block[rows[first]], bounds[first:last, None], out=flags[first:last])
    return counter.count(flags[: rows.size])
