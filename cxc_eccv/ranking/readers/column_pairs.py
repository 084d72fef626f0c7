"""The transposed direction out of the same product: queries that are columns, counted while blocks of rows go by."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.counts import Counts, ScoresTooAlike
from cxc_eccv.ranking.kernels import column_counts, pair_products
from cxc_eccv.ranking.scan import workers
from cxc_eccv.types import IntArray

__all__ = ["ColumnPairs", "brackets"]

PAIRS_AT_ONCE = 4096
LEAST = float(np.finfo(np.float32).smallest_subnormal)


class ColumnPairs:
    """Positive pairs whose query is a column of the score matrix.

    A column is complete only after the last block, but the scores of its positives are spread over all blocks. So
    each pair brings a bracket that its score is sure to lie in: items above the bracket are counted at once, the few
    items inside are kept with their scores, and they are compared when the pair's own score from the same product is
    known. From then on the bracket is the score itself. The result is exact, and needs no second product.

    ``rows`` are those of the P pairs' items, ``columns`` those of their queries, ``low`` and ``high`` the brackets of
    their scores, and ``n_segments`` that of the rows.
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

        ``segments`` are the (B,) ascending ones of the rows, negative where a row is in nobody's gallery; ``left`` is
        the number of the block's first column, and pairs to the left of it are not looked at.

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
        """Learn the scores of pairs; ScoresTooAlike where one lies outside its bracket."""
        self._record(self._place[pairs], scores)

    def keep(self, segments: IntArray, pairs: IntArray, scores: NDArray[np.float32]) -> None:
        """Keep (E,) scores within the brackets of pairs until the pairs' own scores are known.

        ``segments`` are those of the scores' items; one of a negative segment is in nobody's gallery.
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


def brackets(
    queries: NDArray[np.float32], items: NDArray[np.float32], rows: IntArray, columns: IntArray
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Bounds on the score that any float32 matrix product gives a pair: ``low <= score <= high``.

    A float32 dot product of D terms, summed in any order, with or without fused multiply-add, errs by at most
    gamma(u) * sum |x_i y_i| with gamma(u) = D u / (1 - D u) and u = 2**-24. The centre is such a product in float64,
    where u = 2**-53, doubled because the sum of absolute values errs as well; the bracket reaches as far as all this,
    and a little farther for products that underflow.

    References:
        Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1.

    Example:
        >>> one = np.array([[0.6, 0.8]], dtype=np.float32)
        >>> low, high = brackets(one, one, np.array([0]), np.array([0]))
        >>> bool(low[0] < 1 < high[0]), bool(high[0] - low[0] < 1e-6)
        (True, True)
    """
    centre, magnitude = np.empty((2, rows.size))

    def multiply(start: int) -> None:
        part = slice(start, start + PAIRS_AT_ONCE)
        centre[part], magnitude[part] = pair_products(queries, items, rows[part], columns[part])

    with ThreadPoolExecutor(workers()) as pool:
        list(pool.map(multiply, range(0, rows.size, PAIRS_AT_ONCE)))
    reach = magnitude * sum(_relative_error(queries.shape[1], unit) for unit in (2.0**-24, 2.0**-52))
    reach += queries.shape[1] * LEAST  # a product below the normal numbers errs by half of the least one
    low = np.nextafter((centre - reach).astype(np.float32), np.float32(-np.inf))
    return low, np.nextafter((centre + reach).astype(np.float32), np.float32(np.inf))


def _relative_error(n_terms: int, unit: float) -> float:
    return n_terms * unit / (1 - n_terms * unit)
