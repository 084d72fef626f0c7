"""The transposed direction out of the same product: queries that are columns, counted while blocks of rows go by."""

from __future__ import annotations

import itertools
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.counting import Counts
from cxc_eccv.types import IntArray

__all__ = ["ColumnPairs"]

ROWS_AT_ONCE = 255  # so that a byte holds the count of a column
COLUMNS_AT_ONCE = 2048
NEAR_PER_PAIR = 100


class ColumnPairs:
    """Positive pairs whose query is a column of the score matrix.

    A column is complete only after the last block, but the scores of its positives are spread over all blocks. So
    each pair brings a bracket that its score is sure to lie in: items above the bracket are counted at once, the few
    items inside are kept with their scores, and they are compared when the pair's own score from the same product is
    known. The result is exact, and needs no second product.

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
        self._rows, self._columns, self._low, self._high = rows, columns, low, high
        self._by_row = np.argsort(rows, kind="stable")
        self._groups = _groups(columns)
        self._beyond = np.zeros((n_segments, rows.size), dtype=np.int64)
        self._near: list[tuple[IntArray, NDArray[np.float32]]] = []
        self._lock = Lock()
        self.scores = np.zeros(rows.size, dtype=np.float32)
        self.settled = True

    def count(self, block: NDArray[np.float32], start: int, segments: IntArray) -> None:
        """Count a block of rows, of which ``start`` is the first; blocks may come in any order.

        ``settled`` turns false when a score lies outside its bracket or too many items lie within: the columns must
        be counted directly then.

        Args:
            block: (B, width) scores.
            start: row number of the first.
            segments: (B,) ascending segment of each row; rows of a negative one are in nobody's gallery.
        """
        own = self._by_row[slice(*np.searchsorted(self._rows[self._by_row], [start, start + len(block)]))]
        scores = block[self._rows[own] - start, self._columns[own]]
        self.scores[own] = scores
        self.settled &= bool(np.all((self._low[own] <= scores) & (scores < self._high[own])))
        for first, last, segment in _spans(segments):
            for left in range(0, block.shape[1], COLUMNS_AT_ONCE):
                if self.settled:
                    self._strip(block[first:last], left, segment)

    def resolve(self) -> Counts:
        """Exact counts, after the last block."""
        n_segments, n_pairs = self._beyond.shape
        places = np.concatenate([places for places, _ in self._near] or [np.zeros(0, np.int64)])
        values = np.concatenate([values for _, values in self._near] or [np.zeros(0, np.float32)])
        own = self.scores[places % n_pairs]
        near = [
            np.bincount(places[reached], minlength=n_segments * n_pairs).reshape(n_segments, n_pairs)
            for reached in (values >= own, values > own)
        ]
        return Counts(self.scores, (self._beyond + near[0]).T, (self._beyond + near[1]).T)

    def _strip(self, block: NDArray[np.float32], left: int, segment: int) -> None:
        """Count a few columns, and keep the (segment, pair) places and scores of the items within brackets."""
        for all_columns, all_pairs in self._groups:
            first, last = np.searchsorted(all_columns, [left, left + COLUMNS_AT_ONCE])
            if first == last:
                continue
            columns, pairs = all_columns[first:last], all_pairs[first:last]
            scores = _columns_of(block, columns)
            beyond = scores >= self._high[pairs]
            counts = np.add.reduce(beyond.view(np.uint8), axis=0, dtype=np.uint8)
            within = np.not_equal(scores >= self._low[pairs], beyond, out=beyond)
            if np.count_nonzero(within) > NEAR_PER_PAIR * columns.size:
                self.settled = False
                return
            rows, places = np.divmod(np.flatnonzero(within), columns.size)
            with self._lock:
                self._beyond[segment, pairs] += counts
                self._near.append((segment * self._rows.size + pairs[places], scores[rows, places]))


def _columns_of(block: NDArray[np.float32], columns: IntArray) -> NDArray[np.float32]:
    if columns[-1] - columns[0] == columns.size - 1 and np.all(np.diff(columns) == 1):
        return block[:, columns[0] : columns[-1] + 1]
    return block.take(columns, axis=1)


def _groups(columns: IntArray) -> list[tuple[IntArray, IntArray]]:
    """Columns, ascending, and pairs of the first pair of every column, and of all further ones.

    Most columns have a first pair, so that its scores need no gathering.
    """
    pairs = np.argsort(columns, kind="stable")
    ordered = columns[pairs]
    is_first = np.ones(pairs.size, dtype=bool)
    is_first[1:] = np.diff(ordered) != 0
    return [(ordered[members], pairs[members]) for members in (is_first, ~is_first)]


def _spans(segments: IntArray) -> list[tuple[int, int, int]]:
    """First row, last row + 1 and segment of stretches of one segment and at most 255 rows."""
    edges = [0, *(np.flatnonzero(np.diff(segments)) + 1).tolist(), segments.size]
    return [
        (first, min(first + ROWS_AT_ONCE, edge), int(segments[first]))
        for start, edge in itertools.pairwise(edges)
        for first in range(start, edge, ROWS_AT_ONCE)
        if segments[first] >= 0
    ]
