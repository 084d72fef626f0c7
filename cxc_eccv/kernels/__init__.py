"""Kernels for counting and drawing: compiled from ``_kernels.c``, or NumPy where they could not be compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.kernels.numpy_kernels import FEW, NEAR_PER_PAIR, MatchCounts, Reached
from cxc_eccv.kernels.numpy_kernels import column_counts as numpy_column_counts
from cxc_eccv.kernels.numpy_kernels import draw_rows as numpy_draw_rows
from cxc_eccv.kernels.numpy_kernels import drawn_places as numpy_drawn_places
from cxc_eccv.kernels.numpy_kernels import match_counts as numpy_match_counts
from cxc_eccv.kernels.numpy_kernels import pair_products as numpy_pair_products
from cxc_eccv.kernels.numpy_kernels import rank_products as numpy_rank_products
from cxc_eccv.kernels.numpy_kernels import row_counts as numpy_row_counts
from cxc_eccv.kernels.numpy_kernels import times_drawn as numpy_times_drawn
from cxc_eccv.kernels.numpy_kernels import unit_vectors as numpy_unit_vectors
from cxc_eccv.types import FloatArray, IntArray

try:
    from cxc_eccv.kernels._kernels import (
        correlate_ranks,
        count_columns,
        count_matches,
        count_rows,
        draw_rows,
        draw_times,
        find_ranks,
        multiply_pairs,
        reach_bounds,
        scale_to_unit,
        select_in_columns,
        spread_kept,
        sum_drawn,
    )

    COMPILED = True
except ImportError:
    COMPILED = False

FEWEST_NEAR, MOST_LOOKS, MOST_RANKED = 1024, 16, 200_000
SAMPLES_AT_ONCE, EXACT_IN_FLOAT32 = 125, 2**24

ints, singles = (partial(np.ascontiguousarray, dtype=kind) for kind in (np.int64, np.float32))


def row_counts(
    block: NDArray[np.float32],
    rows: IntArray,
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    bounds: IntArray,
) -> Reached:
    """(P, S) counts of the scores in P ``rows`` of a (B, width) block, in each of S segments of the columns.

    Scores must reach the thresholds ``low`` and exceed ``high``, which are at least ``low``. ``bounds`` are (S + 1,)
    edges of the segments, from 0 to the width in multiples of 8; no segment is empty.
    """
    if COMPILED and block.dtype == np.float32:
        return _count_compiled(count_rows, block, rows, low, high, bounds, (rows.size, bounds.size - 1))
    return numpy_row_counts(block, rows, low, high, bounds)


def column_counts(
    block: NDArray[np.float32],
    columns: IntArray,
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    bounds: IntArray,
) -> Reached:
    """(S, P) counts of the scores in P ascending ``columns`` of a (B, width) block, in each of S segments of the rows.

    Like :func:`row_counts`; the edges of the segments run from 0 to B.
    """
    if COMPILED and block.dtype == np.float32:
        return _count_compiled(count_columns, block, columns, low, high, bounds, (bounds.size - 1, columns.size))
    return numpy_column_counts(block, columns, low, high, bounds)


def pair_products(
    queries: NDArray[np.float32], items: NDArray[np.float32], rows: IntArray, columns: IntArray
) -> tuple[FloatArray, FloatArray]:
    """(P,) dot products of pairs of vectors in double precision, and (P,) sums of their absolute terms."""
    if not COMPILED:
        return numpy_pair_products(queries, items, rows, columns)
    sums, magnitudes = np.empty((2, rows.size))
    multiply_pairs(singles(queries), singles(items), ints(rows), ints(columns), queries.shape[1], sums, magnitudes)
    return sums, magnitudes


def unit_vectors(
    vectors: NDArray[np.float32], indices: IntArray, targets: IntArray, out: NDArray[np.float32]
) -> FloatArray:
    """Write rows ``indices`` of vectors, scaled to length 1, to rows ``targets`` of a contiguous ``out``.

    Returns their lengths, summed in float64. Quotients are rounded to float32, zeros are positive. A vector of length 0
    is not scaled.
    """
    if not COMPILED:
        return numpy_unit_vectors(vectors, indices, targets, out)
    lengths = np.empty(indices.size)
    scale_to_unit(singles(vectors), ints(indices), ints(targets), vectors.shape[1], out, lengths)
    return lengths


def times_drawn(random: np.random.Generator, samples: int, count: int) -> NDArray[np.integer]:
    """(S, n) number of times each of n clusters is drawn in each sample, in n draws with replacement.

    The draws are those of ``random.integers(n, size=(S, n), dtype=np.uint16)``, or of int64 for over 2 ** 15 clusters.
    """
    if not COMPILED or count > FEW:
        return numpy_times_drawn(random, samples, count)
    times = np.empty((samples, count), np.int16)
    draw_times(random.bit_generator.capsule, count, times)
    return times


def drawn_sums(times: NDArray[np.integer], values: NDArray[Any]) -> FloatArray:
    """(..., S) sums over clusters of (..., n) values, each multiplied by its (S, n) ``times``.

    Whole numbers are added as integers if no sum can reach 2 ** 24, other values in double precision: sums of whole
    numbers do not depend on the order.
    """
    largest, (samples, count) = np.abs(values).max(initial=0), times.shape
    exact = largest * count < EXACT_IN_FLOAT32 and bool((values == np.rint(values)).all())
    if exact and np.all(values == values.flat[0]):  # a sample draws as many clusters as there are
        return np.full((*values.shape[:-1], samples), float(values.flat[0]) * count)
    if not COMPILED or not exact or largest >= FEW or times.dtype != np.int16:
        kind = np.float32 if exact else np.float64
        factors: NDArray[Any] = values.astype(kind) if exact else values
        products = [  # of some samples at a time, converted, as only float products are fast
            np.matmul(factors, times[start : start + SAMPLES_AT_ONCE].astype(kind).T)
            for start in range(0, samples, SAMPLES_AT_ONCE)
        ]
        return np.concatenate(products, axis=-1, dtype=np.float64)
    sums = np.empty((*values.shape[:-1], samples))
    sum_drawn(times, values.astype(np.int16, order="C"), count, sums)
    return sums


def drawn_places(times: NDArray[np.integer], members: IntArray, below: IntArray, ranks: IntArray) -> IntArray:
    """(2, S) how many of the ``times`` of (W,) clusters, added one by one to ``below``, stay at or under two ranks."""
    if not COMPILED or times.dtype != np.int16:
        return numpy_drawn_places(times, members, below, ranks)
    indices = np.empty(ranks.shape, np.int64)
    find_ranks(times, times.shape[1], np.ascontiguousarray(members), below, ranks, indices)
    return indices


def drawn_rows(random: np.random.Generator, rows: IntArray, ends: IntArray, samples: int) -> IntArray:
    """(S, Q // 2) rows: each sample draws half of Q queries without replacement, and one row of each.

    ``rows`` has the rows of a query side by side, ``ends`` the (Q + 1,) edges between queries. The draws are those of
    ``random.choice(Q, Q // 2, replace=False, shuffle=False)``, then ``random.random(Q // 2)``.
    """
    drawn = np.empty((samples, (ends.size - 1) // 2), np.int64)
    if COMPILED:
        draw_rows(random.bit_generator.capsule, rows, ends, drawn)
    else:
        numpy_draw_rows(random, rows, ends, drawn)
    return drawn


def rank_products(codes: NDArray[np.int32], n_levels: tuple[int, int], rows: IntArray) -> FloatArray:
    """(S, 3) inner products of the ranks of (S, n) rows: first column with itself, second with itself, and both.

    ``codes`` are (P, 2) integer codes from 0, equal for ties, with ``n_levels`` per column. Ranks are doubled average
    ranks less their mean: whole numbers, whose sums are exact up to 200,000 rows.
    """
    if not COMPILED or rows.shape[1] > MOST_RANKED:
        return numpy_rank_products(codes, n_levels, rows)
    products = np.empty((len(rows), 3))
    correlate_ranks(codes, *n_levels, rows, products)
    return products


def counts_matches(scores: NDArray[Any], distances: NDArray[np.unsignedinteger], n_looks: int) -> bool:
    """Whether :func:`match_counts` is compiled for these arguments; it then copies nothing and prefers whole rows."""
    return COMPILED and scores.dtype == np.float32 and distances.dtype == np.uint8 and n_looks <= MOST_LOOKS


def match_counts(
    scores: NDArray[Any],
    rows: IntArray,
    items: IntArray,
    classes: IntArray,
    distances: NDArray[np.unsignedinteger],
    query_classes: IntArray,
    zetas: Sequence[int],
    depths: IntArray,
) -> MatchCounts:
    """Count the matches among the top items of rows: items whose class is within zeta of the query's class."""
    if not counts_matches(scores, distances, len(zetas)):
        of_rows = items if items.ndim == 1 else items[rows]
        criteria = np.asarray(zetas, np.int64), depths
        return numpy_match_counts(scores[rows], of_rows, classes, distances, query_classes, *criteria)
    lowest, counts = np.empty(depths.shape, np.float32), np.zeros((*depths.shape, 4), np.int64)
    count_matches(
        scores if scores.strides[1] == scores.itemsize else np.ascontiguousarray(scores),
        ints(rows),
        np.ascontiguousarray(items, np.int32),
        np.ascontiguousarray(classes, np.int32),
        np.ascontiguousarray(distances),
        ints(query_classes),
        np.asarray(zetas, np.int64),
        ints(depths),
        lowest,
        counts,
    )
    return MatchCounts(lowest, *np.moveaxis(counts, -1, 0))


def scores_of_columns(scores: NDArray[np.float32], rows: IntArray, depths: IntArray) -> NDArray[np.float32]:
    """(width,) scores at (width,) depths of the columns, among R ``rows`` of (B, width) scores; compiled only.

    Infinity at depth 0, minus infinity if there are too few rows.
    """
    selected = np.empty(depths.size, np.float32)
    select_in_columns(scores, ints(rows), ints(depths), selected)
    return selected


class KeptColumns:
    """The scores of a (B, width) block that reach the bounds of their columns, by column; compiled only.

    Rows with a negative item are left out. A bound of infinity keeps nothing. ``share`` is the expected share kept.
    """

    def __init__(self, block: NDArray[np.float32], items: IntArray, bounds: NDArray[np.float32], share: float) -> None:
        self._starts, needed = np.empty(bounds.size + 1, np.int64), -1
        room = int(1.2 * share * block.size) + 1
        while not 0 <= needed <= room:
            room = max(room, needed)
            self._kept = np.empty(room, np.int64)
            needed = reach_bounds(block, np.ascontiguousarray(items, np.int32), bounds, self._starts, self._kept)
        self.sizes = np.diff(self._starts)

    def spread(
        self, columns: IntArray, filled: IntArray, scores: NDArray[np.float32], items: NDArray[np.int32]
    ) -> None:
        """Append the kept scores of (n,) columns to the ``filled`` part of (n, room) tables, and update ``filled``."""
        spread_kept(self._kept, self._starts, columns, filled, scores, items)


def _count_compiled(
    count: Callable[..., int],
    block: NDArray[np.float32],
    indices: IntArray,
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    bounds: IntArray,
    shape: tuple[int, int],
) -> Reached:
    most = NEAR_PER_PAIR * int(np.count_nonzero(low < high))
    arrays = ints(indices), singles(low), singles(high), ints(bounds)
    room, n_near = min(most, indices.size + FEWEST_NEAR), -1
    while not 0 <= n_near <= room:
        # Rarely runs twice; allocating room for the maximum would touch fresh memory for every block.
        room = min(most, max(room, n_near))
        at_least, above = np.zeros((2, *shape), dtype=np.int64)
        near = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.float32)
        n_near = count(block, *arrays, at_least, above, *near)
        if n_near > most:
            break
    pairs, line_places, scores = near
    # Copies, as views would keep the whole arrays alive.
    kept = pairs[:n_near].copy(), line_places[:n_near].copy(), scores[:n_near].copy()
    return Reached(at_least, above, *kept, n_near <= most)
