"""The transposed direction out of the same product: queries that are columns, counted while blocks of rows go by."""

from __future__ import annotations

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.counts import Counts, ScoresTooAlike
from cxc_eccv.ranking.kernels import column_counts
from cxc_eccv.types import IntArray

__all__ = ["ColumnPairs"]


class ColumnPairs:
    """Positive pairs whose query is a column of the score matrix.

    A column is complete only after the last block, but the scores of its positives are spread over all blocks. So
    each pair brings a bracket that its score is sure to lie in: items above the bracket are counted at once, the few
    items inside are kept with their scores, and they are compared when the pair's own score from the same product is
    known. From then on the bracket is the score itself. The result is exact, and needs no second product.

    Args:
        rows: (P,) row of each pair's item.
        columns: (P,) column of each pair's query.
        low, high: (P,) bracket of each pair's score.
        n_segments: segments of the rows.
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
        """Count a block of rows, of which ``start`` is the first; blocks may come in any order.

        Args:
            block: (B, width) scores.
            start: row number of the first.
            segments: (B,) ascending segment of each row; rows of a negative one are in nobody's gallery.
            left: number of the block's first column; pairs to the left of it are not looked at.

        Raises:
            ScoresTooAlike: a score lies outside its bracket, or too many items lie within.
        """
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
        spans = np.flatnonzero(segments[edges[:-1]] >= 0)
        counted = segments[edges[spans]]
        with self._lock:
            self._at_least[counted, pairs] += np.where(low == high, found.at_least, found.above)[spans]
            self._above[counted, pairs] += found.above[spans]
            self._keep(segments[found.places], pairs.start + found.pairs, found.scores)

    def record(self, pairs: IntArray, scores: NDArray[np.float32]) -> None:
        """Learn the scores of pairs.

        Raises:
            ScoresTooAlike: a score lies outside its bracket.
        """
        self._record(self._place[pairs], scores)

    def keep(self, segments: IntArray, pairs: IntArray, scores: NDArray[np.float32]) -> None:
        """Keep scores within the brackets of pairs until the pairs' own scores are known.

        Args:
            segments: (E,) segment of each score's item; a negative one is in nobody's gallery.
            pairs: (E,) pair that each is compared with.
            scores: (E,) the scores.
        """
        self._keep(segments, self._place[pairs], scores)

    def resolve(self) -> Counts:
        """Exact counts, after the last block."""
        places = np.concatenate([places for places, _ in self._near] or [np.zeros(0, np.int64)])
        values = np.concatenate([values for _, values in self._near] or [np.zeros(0, np.float32)])
        own = self._scores[places % self._rows.size]
        at_least, above = (
            counts + np.bincount(places[reached], minlength=counts.size).reshape(counts.shape)
            for counts, reached in ((self._at_least, values >= own), (self._above, values > own))
        )
        return Counts(self._scores[self._place], at_least[:, self._place].T, above[:, self._place].T)

    def _record(self, own: IntArray, scores: NDArray[np.float32]) -> None:
        low, high = self._bounds[:, own]
        if not np.all((low <= scores) & (scores <= high)):
            raise ScoresTooAlike
        self._scores[own] = self._bounds[0, own] = self._bounds[1, own] = scores

    def _keep(self, segments: IntArray, own: IntArray, scores: NDArray[np.float32]) -> None:
        inside = segments >= 0
        self._near.append((segments[inside] * self._rows.size + own[inside], scores[inside]))
