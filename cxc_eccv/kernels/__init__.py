"""Kernels for counting and drawing: compiled from ``_kernels.c``, or NumPy where they could not be compiled."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.types import FloatArray, IntArray

try:
    from cxc_eccv.kernels import _kernels

    COMPILED = True
except ImportError:
    COMPILED = False

FEWEST_NEAR = 1024
NEAR_PER_PAIR = 100
MOST_LOOKS = 16
MOST_RANKED = 200_000
SAMPLES_AT_ONCE = 125
EXACT_IN_FLOAT32 = 2**24
FEW_ROWS = 2**15
# of at most 255 rows a byte holds the count of a column
PAIRS_AT_ONCE = 64
ROWS_AT_ONCE = 64


@dataclass(frozen=True, slots=True, eq=False)
class Reached:
    """Number of scores that reach the thresholds of each pair.

    In each segment ``at_least`` scores are at least the pair's ``low`` and ``above`` are above its ``high``. (E,)
    ``scores`` are those from ``low`` to ``high`` of pairs whose thresholds differ, with their ``pairs`` and their
    columns or rows, ``indices``. ``complete`` is false if there were too many to list.
    """

    at_least: IntArray
    above: IntArray
    pairs: IntArray
    indices: IntArray
    scores: NDArray[np.float32]
    complete: bool


@dataclass(frozen=True, slots=True, eq=False)
class MatchCounts:
    """Number of matches among the top items of R rows, for each of L criteria, all (R, L).

    ``lowest`` is the score of the last item looked at, minus infinity if a row has too few items. ``at_least`` items
    score at least as high, of which ``matches`` match; ``tied`` items have this score, of which ``tied_matches`` match.
    """

    lowest: NDArray[Any]
    at_least: IntArray
    matches: IntArray
    tied: IntArray
    tied_matches: IntArray


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
        return _count_compiled(_kernels.count_rows, block, rows, low, high, bounds, (rows.size, bounds.size - 1))
    at_least, above = np.zeros((2, rows.size, bounds.size - 1), dtype=np.int64)
    # Flags are added eight per 64-bit word, in pieces of at most 255 words, so that no byte of a sum overflows.
    words = bounds // 8
    pieces = np.concatenate([np.arange(first, last, 255) for first, last in itertools.pairwise(words.tolist())])
    for start in range(0, rows.size, PAIRS_AT_ONCE):
        pairs = np.arange(start, min(start + PAIRS_AT_ONCE, rows.size))
        groups = np.split(pairs, np.flatnonzero(np.diff(rows[pairs])) + 1)
        for compare, bound, counts in ((np.greater_equal, low, at_least), (np.greater, high, above)):
            flags = np.concatenate([compare(block[rows[group[0]]], bound[group, None]) for group in groups])
            sums = np.add.reduceat(flags.view(np.uint64), pieces, axis=1).view(np.uint8)
            totals = sums.reshape(len(flags), pieces.size, 8).sum(axis=2, dtype=np.int64)
            counts[pairs] = np.add.reduceat(totals, np.searchsorted(pieces, words[:-1]), axis=1)
    return _list_near(at_least, above, low, high, (at_least - above).sum(axis=1), lambda pair: block[rows[pair]])


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
        return _count_compiled(
            _kernels.count_columns, block, columns, low, high, bounds, (bounds.size - 1, columns.size)
        )
    at_least, above = np.zeros((2, bounds.size - 1, columns.size), dtype=np.int64)
    for segment, (first, last) in enumerate(itertools.pairwise(bounds.tolist())):
        for start in range(first, last, ROWS_AT_ONCE):
            scores = block[start : min(start + ROWS_AT_ONCE, last)].take(columns, axis=1)
            at_least[segment] += np.add.reduce((scores >= low).view(np.uint8), axis=0, dtype=np.uint8)
            above[segment] += np.add.reduce((scores > high).view(np.uint8), axis=0, dtype=np.uint8)
    return _list_near(at_least, above, low, high, (at_least - above).sum(axis=0), lambda pair: block[:, columns[pair]])


def pair_products(
    queries: NDArray[np.float32], items: NDArray[np.float32], rows: IntArray, columns: IntArray
) -> tuple[FloatArray, FloatArray]:
    """(P,) dot products of pairs of vectors in double precision, and (P,) sums of their absolute terms."""
    sums, magnitudes = np.empty((2, rows.size))
    if COMPILED:
        _kernels.multiply_pairs(
            singles(queries), singles(items), ints(rows), ints(columns), queries.shape[1], sums, magnitudes
        )
        return sums, magnitudes
    for start in range(0, rows.size, PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        # Not cast by the sum, which would use a buffer: the order of a sum would depend on the pair's position.
        products = np.multiply(queries[rows[part]], items[columns[part]], dtype=np.float64)
        sums[part] = products.sum(axis=1)
        magnitudes[part] = np.abs(products, out=products).sum(axis=1)
    return sums, magnitudes


def unit_vectors(
    vectors: NDArray[np.float32], indices: IntArray, targets: IntArray, out: NDArray[np.float32]
) -> FloatArray:
    """Write rows ``indices`` of vectors, scaled to length 1, to rows ``targets`` of a contiguous ``out``.

    Returns their lengths, summed in float64. Quotients are rounded to float32, zeros are positive. A vector of length 0
    is not scaled.
    """
    if COMPILED:
        lengths = np.empty(indices.size)
        _kernels.scale_to_unit(singles(vectors), ints(indices), ints(targets), vectors.shape[1], out, lengths)
        return lengths
    rows = vectors[indices]
    wide = rows.astype(np.float64)
    lengths = np.sqrt(np.square(wide, out=wide).sum(axis=1, keepdims=True))
    np.divide(rows, lengths, where=lengths > 0, out=rows, casting="same_kind")
    out[targets] = np.add(rows, 0, out=rows)
    return np.asarray(lengths[:, 0])


def times_drawn(random: np.random.Generator, samples: int, count: int) -> NDArray[np.integer]:
    """(S, n) number of times each of n clusters is drawn in each sample, in n draws with replacement.

    The draws are those of ``random.integers(n, size=(S, n), dtype=np.uint16)``, or of int64 for over 2 ** 15 clusters.
    """
    times = np.empty((samples, count), np.int16 if count <= FEW_ROWS else np.int32)
    if COMPILED and count <= FEW_ROWS:
        _kernels.draw_times(random.bit_generator.capsule, count, times)
        return times
    draws = random.integers(count, size=times.shape, dtype=np.uint16 if count <= FEW_ROWS else np.int64)
    for sample, clusters in zip(times, draws, strict=True):
        sample[:] = np.bincount(clusters, minlength=count)
    return times


def drawn_sums(times: NDArray[np.integer], values: NDArray[Any]) -> FloatArray:
    """(..., S) sums over clusters of (..., n) values, each multiplied by its (S, n) ``times``.

    Whole numbers are added as integers if no sum can reach 2 ** 24, other values in double precision: sums of whole
    numbers do not depend on the order.
    """
    largest = np.abs(values).max(initial=0)
    samples, count = times.shape
    exact = largest * count < EXACT_IN_FLOAT32 and bool((values == np.rint(values)).all())
    if exact and np.all(values == values.flat[0]):  # a sample draws as many clusters as there are
        return np.full((*values.shape[:-1], samples), float(values.flat[0]) * count)
    if not COMPILED or not exact or largest >= FEW_ROWS or times.dtype != np.int16:
        kind = np.float32 if exact else np.float64
        factors: NDArray[Any] = values.astype(kind) if exact else values
        products = [  # of some samples at a time, converted, as only float products are fast
            np.matmul(factors, times[start : start + SAMPLES_AT_ONCE].astype(kind).T)
            for start in range(0, samples, SAMPLES_AT_ONCE)
        ]
        return np.concatenate(products, axis=-1, dtype=np.float64)
    sums = np.empty((*values.shape[:-1], samples))
    _kernels.sum_drawn(times, values.astype(np.int16, order="C"), count, sums)
    return sums


def drawn_places(times: NDArray[np.integer], members: IntArray, below: IntArray, ranks: IntArray) -> IntArray:
    """(2, S) how many of the ``times`` of (W,) clusters, added one by one to ``below``, stay at or under two ranks."""
    if COMPILED and times.dtype == np.int16:
        indices = np.empty(ranks.shape, np.int64)
        _kernels.find_ranks(times, times.shape[1], np.ascontiguousarray(members), below, ranks, indices)
        return indices
    reached = np.cumsum(times.take(members, axis=1), axis=1, dtype=np.int32)
    reached += below.astype(np.int32)[:, None]
    return np.stack([np.count_nonzero(reached <= rank[:, None], axis=1) for rank in ranks])


def drawn_rows(random: np.random.Generator, rows: IntArray, ends: IntArray, samples: int) -> IntArray:
    """(S, Q // 2) rows: each sample draws half of Q queries without replacement, and one row of each.

    ``rows`` has the rows of a query side by side, ``ends`` the (Q + 1,) edges between queries. The draws are those of
    ``random.choice(Q, Q // 2, replace=False, shuffle=False)``, then ``random.random(Q // 2)``.
    """
    drawn = np.empty((samples, (ends.size - 1) // 2), np.int64)
    if COMPILED:
        _kernels.draw_rows(random.bit_generator.capsule, rows, ends, drawn)
        return drawn
    sizes = np.diff(ends)
    for sample in drawn:
        queries = random.choice(sizes.size, sample.size, replace=False, shuffle=False)
        items = (random.random(sample.size) * sizes.take(queries)).astype(np.int64)
        rows.take(ends.take(queries) + items, out=sample)
    return drawn


def rank_products(codes: NDArray[np.int32], n_levels: tuple[int, int], rows: IntArray) -> FloatArray:
    """(S, 3) inner products of the ranks of (S, n) rows: first column with itself, second with itself, and both.

    ``codes`` are (P, 2) integer codes from 0, equal for ties, with ``n_levels`` per column. Ranks are doubled average
    ranks less their mean: whole numbers, whose sums are exact up to 200,000 rows.
    """
    products = np.empty((len(rows), 3))
    if COMPILED and rows.shape[1] <= MOST_RANKED:
        _kernels.correlate_ranks(codes, *n_levels, rows, products)
        return products
    for sample, chosen in zip(products, rows, strict=True):
        first, second = (_centre_ranks(codes[chosen, side], n_levels[side]) for side in range(2))
        # Without BLAS, whose threads cost more than such short sums.
        sample[:] = [np.einsum("i,i->", *pair) for pair in ((first, first), (second, second), (first, second))]
    return products


def _centre_ranks(codes: IntArray, n_levels: int) -> FloatArray:
    """Doubled average ranks of codes, less their mean.

    The average rank of an entry among n, with ``below`` smaller and ``upto`` smaller or equal entries, is
    (below + upto + 1) / 2; doubled and less n + 1 it is below + upto - n, which needs no sorting.
    """
    upto = np.bincount(codes, minlength=n_levels).cumsum()
    return np.asarray(upto[codes] + np.append(0, upto)[codes] - codes.size, dtype=np.float64)


def row_correlations(levels: NDArray[np.int32], others: NDArray[np.int32]) -> FloatArray:
    """(Q,) Kendall's tau-b of the orders of N items, NaN where all items tie in one.

    Both are (Q, N) levels from 0 to N - 1, equal for ties. It is (C - D) / sqrt((P - T1) (P - T2)) with C concordant
    and D discordant of all P pairs of items, of which T1 and T2 tie in each order.
    """
    n_items = levels.shape[1]
    if not COMPILED:
        from scipy.stats import kendalltau  # not at the top: it takes longer to import than to count

        return np.array([kendalltau(*rows).statistic for rows in zip(levels, others, strict=True)], dtype=np.float64)
    counts = np.empty((len(levels), 4), dtype=np.int64)
    _kernels.count_orders(np.ascontiguousarray(levels), np.ascontiguousarray(others), n_items, counts)
    discordant, tied, tied_others, tied_both = counts.T
    n_pairs = n_items * (n_items - 1) // 2
    surplus = n_pairs - tied - tied_others + tied_both - 2 * discordant
    spread = np.sqrt(n_pairs - tied) * np.sqrt(n_pairs - tied_others)
    tau: FloatArray = np.divide(surplus, spread, out=np.full(len(levels), np.nan), where=spread > 0)
    return tau


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
    if counts_matches(scores, distances, len(zetas)):
        lowest = np.empty(depths.shape, np.float32)
        counts = np.zeros((*depths.shape, 4), np.int64)
        _kernels.count_matches(
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
    scores = scores[rows]
    items = items if items.ndim == 1 else items[rows]
    # An extra class, far from all others, stands for missing items.
    apart = np.pad(distances, ((0, 0), (0, 1)), constant_values=np.iinfo(distances.dtype).max)
    of_items = np.where(items >= 0, classes[items], len(distances))
    is_item = items >= 0
    near = apart[query_classes].take(of_items, axis=1) if items.ndim == 1 else apart[query_classes[:, None], of_items]
    scores = scores if is_item.all() else np.where(is_item, scores, -np.inf).astype(scores.dtype)
    lowest = np.stack([np.partition(row, at)[at] for row, at in zip(scores, scores.shape[1] - depths, strict=True)])
    counts = np.zeros((4, *depths.shape), dtype=np.int64)
    for criterion, zeta in enumerate(zetas):
        least = lowest[:, criterion, None]
        reached = (scores >= least) & is_item
        matching = near <= zeta
        tied = (scores == least) & is_item
        for count, flags in zip(counts, (reached, reached & matching, tied, tied & matching), strict=True):
            count[:, criterion] = np.count_nonzero(flags, axis=1)
    return MatchCounts(lowest, *counts)


def scores_of_columns(scores: NDArray[np.float32], rows: IntArray, depths: IntArray) -> NDArray[np.float32]:
    """(width,) scores at (width,) depths of the columns, among R ``rows`` of (B, width) scores; compiled only.

    Infinity at depth 0, minus infinity if there are too few rows.
    """
    selected = np.empty(depths.size, np.float32)
    _kernels.select_in_columns(scores, ints(rows), ints(depths), selected)
    return selected


class KeptColumns:
    """The scores of a (B, width) block that reach the bounds of their columns, by column; compiled only.

    Rows with a negative item are left out. A bound of infinity keeps nothing. ``share`` is the expected share kept.
    """

    def __init__(self, block: NDArray[np.float32], items: IntArray, bounds: NDArray[np.float32], share: float) -> None:
        self._starts = np.empty(bounds.size + 1, np.int64)
        needed = -1
        room = int(1.2 * share * block.size) + 1
        while not 0 <= needed <= room:
            room = max(room, needed)
            self._kept = np.empty(room, np.int64)
            needed = _kernels.reach_bounds(
                block, np.ascontiguousarray(items, np.int32), bounds, self._starts, self._kept
            )
        self.sizes = np.diff(self._starts)

    def spread(
        self, columns: IntArray, filled: IntArray, scores: NDArray[np.float32], items: NDArray[np.int32]
    ) -> None:
        """Append the kept scores of (n,) columns to the ``filled`` part of (n, room) tables, and update ``filled``."""
        _kernels.spread_kept(self._kept, self._starts, columns, filled, scores, items)


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
    room = min(most, indices.size + FEWEST_NEAR)
    n_near = -1
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


def _list_near(
    at_least: IntArray,
    above: IntArray,
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    within: IntArray,
    line: Callable[[int], NDArray[Any]],
) -> Reached:
    """List the scores between the thresholds of pairs; (P,) ``within`` is their number, ``line`` a pair's scores."""
    apart = low < high
    complete = bool(within[apart].sum() <= NEAR_PER_PAIR * np.count_nonzero(apart))
    pairs = np.flatnonzero(apart & (within > 0)) if complete else np.empty(0, dtype=np.int64)
    lines = [line(pair) for pair in pairs.tolist()]
    near = [
        np.flatnonzero((scores >= low[pair]) & (scores <= high[pair]))
        for pair, scores in zip(pairs, lines, strict=True)
    ]
    scores = [line[index] for line, index in zip(lines, near, strict=True)]
    return Reached(
        at_least,
        above,
        np.repeat(pairs, [index.size for index in near]),
        np.concatenate([pairs[:0], *near]),
        np.concatenate([low[:0], *scores]),
        complete,
    )
