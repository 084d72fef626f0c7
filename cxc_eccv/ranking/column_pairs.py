"""The transposed direction out of the same product: queries that are columns, counted while blocks of rows go by."""

from __future__ import annotations

import itertools
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.counting import Counts
from cxc_eccv.types import IntArray

__all__ = ["ColumnPairs"]

ROWS_AT_ONCE = 64  # at most 255, so that a byte holds the count of a column
NEAR_PER_PAIR = 100
DENSE = 4


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
        order, self._groups = _groups(columns)
        self._place = np.empty_like(order)
        self._place[order] = np.arange(order.size)
        self._rows, self._columns = rows[order], columns[order]
        self._bounds = np.stack([low[order], high[order]])
        self._breaks = np.cumsum(np.diff(self._columns, prepend=0) != 1)
        self._by_row = np.argsort(self._rows, kind="stable")
        self._sorted_rows = self._rows[self._by_row]
        self._scores = np.zeros(rows.size, dtype=np.float32)
        self._beyond = np.zeros((n_segments, rows.size), dtype=np.int64)
        self._near: list[tuple[IntArray, NDArray[np.float32]]] = []
        self._lock = Lock()
        self.settled = True

    def count(self, block: NDArray[np.float32], start: int, segments: IntArray, left: int = 0) -> None:
        """Count a block of rows, of which ``start`` is the first; blocks may come in any order.

        ``settled`` turns false when a score lies outside its bracket or too many items lie within: the columns must
        be counted directly then.

        Args:
            block: (B, width) scores.
            start: row number of the first.
            segments: (B,) ascending segment of each row; rows of a negative one are in nobody's gallery.
            left: number of the block's first column; pairs to the left of it are not looked at.
        """
        own = self._by_row[slice(*np.searchsorted(self._sorted_rows, [start, start + len(block)]))]
        own = own[self._columns[own] >= left]
        self._record(own, block[self._rows[own] - start, self._columns[own] - left])
        for first, last, segment in _spans(segments):
            if self.settled:
                self._strip(block[first:last], left, segment)

    def record(self, pairs: IntArray, scores: NDArray[np.float32]) -> None:
        """Learn the scores of pairs."""
        self._record(self._place[pairs], scores)

    def keep(self, segments: IntArray, pairs: IntArray, scores: NDArray[np.float32]) -> None:
        """Keep scores within the brackets of pairs until the pairs' own scores are known.

        Args:
            segments: (E,) segment of each score's item; a negative one is in nobody's gallery.
            pairs: (E,) pair that each is compared with.
            scores: (E,) the scores.
        """
        inside = segments >= 0
        self._near.append((segments[inside] * self._rows.size + self._place[pairs[inside]], scores[inside]))

    def resolve(self) -> Counts:
        """Exact counts, after the last block."""
        n_segments, n_pairs = self._beyond.shape
        places = np.concatenate([places for places, _ in self._near] or [np.zeros(0, np.int64)])
        values = np.concatenate([values for _, values in self._near] or [np.zeros(0, np.float32)])
        own = self._scores[places % n_pairs]
        at_least, above = (
            self._beyond + np.bincount(places[reached], minlength=n_segments * n_pairs).reshape(n_segments, n_pairs)
            for reached in (values >= own, values > own)
        )
        return Counts(self._scores[self._place], at_least[:, self._place].T, above[:, self._place].T)

    def _record(self, own: IntArray, scores: NDArray[np.float32]) -> None:
        low, high = self._bounds[:, own]
        self.settled &= bool(np.all((low <= scores) & (scores < high)))
        self._scores[own] = scores
        self._bounds[0, own], self._bounds[1, own] = scores, np.nextafter(scores, np.float32(np.inf))

    def _strip(self, block: NDArray[np.float32], left: int, segment: int) -> None:
        """Count a few rows, whose first column is ``left``, and keep the scores within brackets."""
        for group in self._groups:
            edges = np.searchsorted(self._columns[group], [left, left + block.shape[1]]) + group.start
            pairs = slice(*edges.tolist())
            if pairs.start == pairs.stop:
                continue
            scores = self._scores_of(block, pairs, left)
            # Another thread may narrow a bracket meanwhile: all comparisons must see the same one.
            low, high = bounds = self._bounds[:, pairs].copy()
            flags = scores >= bounds[:, None]
            reached, beyond = np.add.reduce(flags.view(np.uint8), axis=1, dtype=np.uint8)
            near = np.flatnonzero(reached != beyond)
            within = scores.take(near, axis=1)
            rows, places = np.nonzero((within >= low[near]) & (within < high[near]))
            if rows.size > NEAR_PER_PAIR * low.size:
                self.settled = False
                return
            with self._lock:
                self._beyond[segment, pairs] += beyond
                if rows.size:
                    near_pairs = pairs.start + near[places]
                    self._near.append((segment * self._rows.size + near_pairs, within[rows, places]))

    def _scores_of(self, block: NDArray[np.float32], pairs: slice, left: int) -> NDArray[np.float32]:
        """(B, P) scores of the columns of pairs, without a copy where the columns stand side by side."""
        columns = self._columns[pairs] - left
        if self._breaks[pairs.start] == self._breaks[pairs.stop - 1]:
            return block[:, columns[0] : columns[-1] + 1]
        return block.take(columns, axis=1)


def _groups(columns: IntArray) -> tuple[IntArray, list[slice]]:
    """Order of pairs: the first pair of every column, by column, then every second one, ..., then all further ones.

    Most columns have a first pair, and where items come in fives as many again, so that few scores need gathering.
    """
    pairs = np.argsort(columns, kind="stable")
    starts = np.flatnonzero(np.diff(columns[pairs], prepend=-1))
    ordinal = np.arange(pairs.size) - np.repeat(starts, np.diff(np.append(starts, pairs.size)))
    ordinal = np.minimum(ordinal, DENSE)
    edges = np.cumsum(np.bincount(ordinal, minlength=1)).tolist()
    order = pairs[np.argsort(ordinal, kind="stable")]
    return order, [slice(start, stop) for start, stop in itertools.pairwise([0, *edges])]


def _spans(segments: IntArray) -> list[tuple[int, int, int]]:
    """First row, last row + 1 and segment of stretches of one segment and a few rows."""
    edges = [0, *(np.flatnonzero(np.diff(segments)) + 1).tolist(), segments.size]
    return [
        (first, min(first + ROWS_AT_ONCE, edge), int(segments[first]))
        for start, edge in itertools.pairwise(edges)
        for first in range(start, edge, ROWS_AT_ONCE)
        if segments[first] >= 0
    ]
