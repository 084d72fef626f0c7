"""How many scores of a block reach thresholds: compiled from ``_kernels.c``, or NumPy where no compiler was at hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.types import FloatArray, IntArray

try:
    from cxc_eccv.ranking._kernels import count_columns, count_rows, multiply_pairs

    COMPILED = True
except ImportError:
    COMPILED = False

__all__ = ["COMPILED", "Reached", "SegmentCounter", "column_counts", "pair_products", "row_counts"]

PAIRS_AT_ONCE = 64
ROWS_AT_ONCE = 64  # at most 255, so that a byte holds the count of a column
WORDS_AT_ONCE = 255
NEAR_PER_PAIR = 100


@dataclass(frozen=True, slots=True, eq=False)
class Reached:
    """How many scores reach the thresholds of each pair.

    Attributes:
        low: scores of each segment that are at least the pair's ``low``.
        high: scores of each segment that are above its ``high``.
        pairs, places, scores: (E,) each score from ``low`` to ``high`` of pairs where these differ, with its pair and
            its column or row.
        complete: whether the last three hold all of these; they do not where there are too many.
    """

    low: IntArray
    high: IntArray
    pairs: IntArray
    places: IntArray
    scores: NDArray[np.float32]
    complete: bool


def row_counts(
    block: NDArray[np.float32],
    rows: IntArray,
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    bounds: IntArray,
) -> Reached:
    """Count the scores of rows.

    Args:
        block: (B, width) scores; the width is a multiple of 8.
        rows: (P,) row of the block that each pair looks at.
        low: (P,) thresholds to be reached.
        high: (P,) thresholds to be exceeded, at least ``low``.
        bounds: (S + 1,) segments of the columns, from 0 to the width in multiples of 8, none empty.

    Returns:
        Counts of shape (P, S).

    Example:
        >>> block, five = np.arange(16, dtype=np.float32).reshape(1, 16), np.array([5], dtype=np.float32)
        >>> found = row_counts(block, np.array([0]), five, five, np.array([0, 8, 16]))
        >>> found.low.tolist(), found.high.tolist()
        ([[3, 8]], [[2, 8]])
    """
    if COMPILED and block.dtype == np.float32:
        return _compiled(count_rows, block, rows, low, high, bounds, (rows.size, bounds.size - 1))
    reached, beyond = np.zeros((2, rows.size, bounds.size - 1), dtype=np.int64)
    flags, counter = np.empty((PAIRS_AT_ONCE, block.shape[1]), dtype=bool), SegmentCounter(bounds)
    for start in range(0, rows.size, PAIRS_AT_ONCE):
        pairs = slice(start, start + PAIRS_AT_ONCE)
        edges = [0, *(np.flatnonzero(np.diff(rows[pairs])) + 1).tolist(), rows[pairs].size]
        for compare, bound, counts in ((np.greater_equal, low, reached), (np.greater, high, beyond)):
            for first, last in itertools.pairwise(edges):
                compare(block[rows[start + first]], bound[pairs][first:last, None], out=flags[first:last])
            counts[pairs] = counter.count(flags[: edges[-1]])
    return _with_near(reached, beyond, low, high, (reached - beyond).sum(axis=1), lambda pair: block[rows[pair]])


def column_counts(
    block: NDArray[np.float32],
    columns: IntArray,
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    bounds: IntArray,
) -> Reached:
    """Count the scores of columns.

    Args:
        block: (B, width) scores.
        columns: (P,) column of the block that each pair looks at, ascending.
        low: (P,) thresholds to be reached.
        high: (P,) thresholds to be exceeded, at least ``low``.
        bounds: (S + 1,) segments of the rows, from 0 to B, none empty.

    Returns:
        Counts of shape (S, P).

    Example:
        >>> block, three = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([3], dtype=np.float32)
        >>> found = column_counts(block, np.array([1]), three, three, np.array([0, 3]))
        >>> found.low.tolist(), found.high.tolist()
        ([[2]], [[1]])
    """
    if COMPILED and block.dtype == np.float32:
        return _compiled(count_columns, block, columns, low, high, bounds, (bounds.size - 1, columns.size))
    reached, beyond = np.zeros((2, bounds.size - 1, columns.size), dtype=np.int64)
    for segment, (first, last) in enumerate(itertools.pairwise(bounds.tolist())):
        for start in range(first, last, ROWS_AT_ONCE):
            scores = block[start : min(start + ROWS_AT_ONCE, last)].take(columns, axis=1)
            reached[segment] += np.add.reduce((scores >= low).view(np.uint8), axis=0, dtype=np.uint8)
            beyond[segment] += np.add.reduce((scores > high).view(np.uint8), axis=0, dtype=np.uint8)
    return _with_near(reached, beyond, low, high, (reached - beyond).sum(axis=0), lambda pair: block[:, columns[pair]])


def _compiled(
    count: Callable[..., int],
    block: NDArray[np.float32],
    places: IntArray,
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    bounds: IntArray,
    shape: tuple[int, int],
) -> Reached:
    reached, beyond = np.zeros((2, *shape), dtype=np.int64)
    room = NEAR_PER_PAIR * int(np.count_nonzero(low < high))
    near = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.float32)
    found = count(block, *map(np.ascontiguousarray, (places, low, high, bounds)), reached, beyond, *near)
    # Copies: a view would keep all the room.
    pairs, places, scores = near[0][:found].copy(), near[1][:found].copy(), near[2][:found].copy()
    return Reached(reached, beyond, pairs, places, scores, found <= room)


def _with_near(
    reached: IntArray,
    beyond: IntArray,
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    within: IntArray,
    scores_of: Callable[[int], NDArray[np.float32]],
) -> Reached:
    """Look up the scores between the thresholds of pairs, of which (P,) ``within`` has the number."""
    open_pairs = low < high
    complete = bool(within[open_pairs].sum() <= NEAR_PER_PAIR * np.count_nonzero(open_pairs))
    pairs = np.flatnonzero(open_pairs & (within > 0)) if complete else np.empty(0, dtype=np.int64)
    rows = [scores_of(pair) for pair in pairs.tolist()]
    places = [np.flatnonzero((row >= low[pair]) & (row <= high[pair])) for pair, row in zip(pairs, rows, strict=True)]
    scores = [row[own] for row, own in zip(rows, places, strict=True)]
    return Reached(
        reached,
        beyond,
        np.repeat(pairs, [own.size for own in places]),
        np.concatenate([np.empty(0, dtype=np.int64), *places]),
        np.concatenate([np.empty(0, dtype=np.float32), *scores]),
        complete,
    )


def pair_products(
    queries: NDArray[np.float32], items: NDArray[np.float32], rows: IntArray, columns: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Multiply pairs of vectors in double precision.

    Args:
        queries: (Q, D) vectors.
        items: (N, D) vectors.
        rows: (P,) indices into ``queries``.
        columns: (P,) indices into ``items``.

    Returns:
        (P,) dot products, and (P,) sums of the absolute values of what these add up.

    Example:
        >>> one, other = np.array([[1, 2]], dtype=np.float32), np.array([[3, -4]], dtype=np.float32)
        >>> [values.tolist() for values in pair_products(one, other, np.array([0]), np.array([0]))]
        [[-5.0], [11.0]]
    """
    sums, magnitudes = np.empty((2, rows.size))
    if COMPILED:
        queries, items, rows, columns = map(np.ascontiguousarray, (queries, items, rows, columns))
        multiply_pairs(queries, items, rows, columns, queries.shape[1], sums, magnitudes)
        return sums, magnitudes
    for start in range(0, rows.size, PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        products = np.multiply(queries[rows[part]], items[columns[part]], dtype=np.float64)
        sums[part] = products.sum(axis=1)
        magnitudes[part] = np.abs(products, out=products).sum(axis=1)
    return sums, magnitudes


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
