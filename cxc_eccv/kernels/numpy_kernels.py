"""The kernels in NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.types import FloatArray, IntArray

NEAR_PER_PAIR = 100

PAIRS_AT_ONCE = 64
ROWS_AT_ONCE = 64  # at most 255, so that a byte holds the count of a column
WORDS_AT_ONCE = 255
DENSE = 4


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


def row_counts(
    block: NDArray[Any], rows: IntArray, low: NDArray[np.float32], high: NDArray[np.float32], bounds: IntArray
) -> Reached:
    """See :func:`cxc_eccv.kernels.row_counts`."""
    at_least, above = np.zeros((2, rows.size, bounds.size - 1), dtype=np.int64)
    flags, counter = np.empty((PAIRS_AT_ONCE, block.shape[1]), dtype=bool), SegmentCounter(bounds)
    for start in range(0, rows.size, PAIRS_AT_ONCE):
        pairs = slice(start, start + PAIRS_AT_ONCE)
        edges = [0, *(np.flatnonzero(np.diff(rows[pairs])) + 1).tolist(), rows[pairs].size]
        for compare, bound, counts in ((np.greater_equal, low, at_least), (np.greater, high, above)):
            for first, last in itertools.pairwise(edges):
                compare(block[rows[start + first]], bound[pairs][first:last, None], out=flags[first:last])
            counts[pairs] = counter.count(flags[: edges[-1]])
    return _with_near(at_least, above, low, high, (at_least - above).sum(axis=1), lambda pairs: block[rows[pairs]])


def column_counts(
    block: NDArray[Any], columns: IntArray, low: NDArray[np.float32], high: NDArray[np.float32], bounds: IntArray
) -> Reached:
    """See :func:`cxc_eccv.kernels.column_counts`."""
    at_least, above = np.zeros((2, bounds.size - 1, columns.size), dtype=np.int64)
    groups = _columns_apart(columns)
    for segment, (first, last) in enumerate(itertools.pairwise(bounds.tolist())):
        for start in range(first, last, ROWS_AT_ONCE):
            strip = block[start : min(start + ROWS_AT_ONCE, last)]
            for pairs, chosen in groups:
                scores = strip[:, chosen]
                at_least[segment, pairs] += np.add.reduce((scores >= low[pairs]).view(np.uint8), axis=0, dtype=np.uint8)
                above[segment, pairs] += np.add.reduce((scores > high[pairs]).view(np.uint8), axis=0, dtype=np.uint8)
    within = (at_least - above).sum(axis=0)
    return _with_near(at_least, above, low, high, within, lambda pairs: block.take(columns[pairs], axis=1).T)


def pair_products(
    queries: NDArray[np.float32], items: NDArray[np.float32], rows: IntArray, columns: IntArray
) -> tuple[FloatArray, FloatArray]:
    """See :func:`cxc_eccv.kernels.pair_products`.

    The products are float64 explicitly: a reduction that casts uses a buffer, and the order of a pair's sum would
    depend on the pair's position.
    """
    sums, magnitudes = np.empty((2, rows.size))
    for start in range(0, rows.size, PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        products = np.multiply(queries[rows[part]], items[columns[part]], dtype=np.float64)
        sums[part] = products.sum(axis=1)
        magnitudes[part] = np.abs(products, out=products).sum(axis=1)
    return sums, magnitudes


def unit_vectors(
    vectors: NDArray[np.float32], indices: IntArray, targets: IntArray, out: NDArray[np.float32]
) -> FloatArray:
    """See :func:`cxc_eccv.kernels.unit_vectors`."""
    rows = vectors[indices]
    wide = rows.astype(np.float64)
    lengths = np.sqrt(np.square(wide, out=wide).sum(axis=1, keepdims=True))
    np.divide(rows, lengths, where=lengths > 0, out=rows, casting="same_kind")
    out[targets] = np.add(rows, 0, out=rows)
    return np.asarray(lengths[:, 0])


def match_counts(
    scores: NDArray[Any],
    items: IntArray,
    classes: IntArray,
    distances: NDArray[np.unsignedinteger],
    query_classes: IntArray,
    zetas: IntArray,
    depths: IntArray,
) -> MatchCounts:
    """See :func:`cxc_eccv.kernels.match_counts`."""
    is_item = items >= 0
    # An extra class, far from all others, stands for missing items.
    apart = np.pad(distances, ((0, 0), (0, 1)), constant_values=np.iinfo(distances.dtype).max)
    of_items = np.where(is_item, classes[items], len(distances))
    near = apart[query_classes].take(of_items, axis=1) if items.ndim == 1 else apart[query_classes[:, None], of_items]
    scores = scores if is_item.all() else np.where(is_item, scores, -np.inf).astype(scores.dtype)
    lowest = scores_at_depths(scores, depths)
    counts = np.zeros((4, *depths.shape), dtype=np.int64)
    for criterion, zeta in enumerate(zetas.tolist()):
        least = lowest[:, criterion, None]
        reached, matching, tied = (scores >= least) & is_item, near <= zeta, (scores == least) & is_item
        for count, flags in zip(counts, (reached, reached & matching, tied, tied & matching), strict=True):
            count[:, criterion] = np.count_nonzero(flags, axis=1)
    return MatchCounts(lowest, *counts)


class SegmentCounter:
    """Counts the true flags of each segment, eight flags per 64-bit word; ``bounds`` are multiples of 8."""

    def __init__(self, bounds: IntArray) -> None:
        words = bounds // 8
        pieces = [np.arange(a, b, WORDS_AT_ONCE) for a, b in itertools.pairwise(words.tolist())]
        self._pieces = np.concatenate(pieces)
        self._segments = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])[:-1]])

    def count(self, flags: NDArray[np.bool_]) -> IntArray:
        """(P, S) number of true flags per row and segment of contiguous (P, width) ``flags``.

        Words are added in pieces of at most 255, so that no byte of a sum overflows into the next.
        """
        sums = np.add.reduceat(flags.view(np.uint64), self._pieces, axis=1)
        totals = sums.view(np.uint8).reshape(len(flags), self._pieces.size, 8).sum(axis=2, dtype=np.int64)
        return np.asarray(np.add.reduceat(totals, self._segments, axis=1))


def _columns_apart(columns: IntArray) -> list[tuple[IntArray, slice | IntArray]]:
    """Groups of pairs with their columns: the first pair of every column, the second, ..., and all further ones."""
    starts = np.flatnonzero(np.diff(columns, prepend=-1))
    ordinal = np.arange(columns.size) - np.repeat(starts, np.diff(np.append(starts, columns.size)))
    groups = [np.flatnonzero(np.minimum(ordinal, DENSE) == index) for index in range(DENSE + 1)]
    return [(pairs, _slice_or_places(columns[pairs])) for pairs in groups if pairs.size]


def _slice_or_places(columns: IntArray) -> slice | IntArray:
    return slice(columns[0], columns[-1] + 1) if np.all(np.diff(columns) == 1) else columns


def _with_near(
    at_least: IntArray,
    above: IntArray,
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    within: IntArray,
    lines_of: Callable[[IntArray], NDArray[Any]],
) -> Reached:
    """Look up the scores between the thresholds of pairs; (P,) ``within`` is their number."""
    apart = low < high
    complete = bool(within[apart].sum() <= NEAR_PER_PAIR * np.count_nonzero(apart))
    near = np.flatnonzero(apart & (within > 0)) if complete else np.empty(0, dtype=np.int64)
    pairs, indices, scores = [near[:0]], [near[:0]], [low[:0]]
    for start in range(0, near.size, PAIRS_AT_ONCE):
        chosen = near[start : start + PAIRS_AT_ONCE]
        lines = lines_of(chosen)
        at, index = np.nonzero((lines >= low[chosen, None]) & (lines <= high[chosen, None]))
        pairs.append(chosen[at])
        indices.append(index)
        scores.append(lines[at, index])
    kept = np.concatenate(pairs), np.concatenate(indices), np.concatenate(scores)
    return Reached(at_least, above, *kept, complete)


SHORT = 1024


def scores_at_depths(scores: NDArray[Any], depths: IntArray) -> NDArray[Any]:
    """(B, L) scores at (B, L) depths of the rows of (B, N) scores: the d-th highest score of a row at depth d."""
    if scores.shape[1] <= SHORT:
        return np.take_along_axis(np.sort(scores, axis=1), scores.shape[1] - depths, axis=1)
    at_depths = np.empty(depths.shape, dtype=scores.dtype)
    order = np.argsort(-depths, axis=1)
    rest = scores.copy()
    for row, (top, indices, wanted) in enumerate(zip(rest, order.tolist(), depths.tolist(), strict=True)):
        above = top
        for index in indices:
            if wanted[index] < above.size or above is top:
                above.partition(above.size - wanted[index])
                above = above[above.size - wanted[index] :]
            at_depths[row, index] = above[0]
    return at_depths


def draw_rows(random: np.random.Generator, rows: IntArray, ends: IntArray, drawn: IntArray) -> None:
    """See :func:`cxc_eccv.kernels.drawn_rows`."""
    sizes = np.diff(ends)
    for sample in drawn:
        queries = random.choice(sizes.size, sample.size, replace=False, shuffle=False)
        items = (random.random(sample.size) * sizes.take(queries)).astype(np.int64)
        rows.take(ends.take(queries) + items, out=sample)


def centred_ranks(codes: IntArray, n_levels: int) -> FloatArray:
    """Doubled average ranks of codes from 0 to ``n_levels - 1``, less their mean: whole numbers that sum to zero.

    The average rank of an entry among n, with ``below`` smaller and ``upto`` smaller or equal entries, is
    (below + upto + 1) / 2; doubled and less n + 1 it is below + upto - n, which needs no sorting.
    """
    following = codes + 1
    below = np.bincount(following, minlength=n_levels + 1).cumsum()
    doubled = below.take(codes) + below.take(following)
    return np.asarray(doubled - codes.size, dtype=np.float64)


def rank_products(codes: NDArray[np.int32], n_levels: tuple[int, int], rows: IntArray) -> FloatArray:
    """See :func:`cxc_eccv.kernels.rank_products`; without BLAS, whose threads cost more than such short sums."""
    products = np.empty((len(rows), 3))
    for sample, chosen in enumerate(rows):
        first, second = (centred_ranks(codes[chosen, side], n_levels[side]) for side in range(2))
        products[sample] = [np.einsum("i,i->", *pair) for pair in ((first, first), (second, second), (first, second))]
    return products


FEW = 2**15


def times_drawn(random: np.random.Generator, samples: int, count: int) -> NDArray[np.integer]:
    """See :func:`cxc_eccv.kernels.times_drawn`."""
    kind, of_times = (np.uint16, np.int16) if count <= FEW else (np.int64, np.int32)
    draws = random.integers(count, size=(samples, count), dtype=kind)
    times = np.empty(draws.shape, dtype=of_times)
    for sample in range(samples):
        times[sample] = np.bincount(draws[sample], minlength=count)
    return times


def drawn_places(times: NDArray[np.integer], members: IntArray, below: IntArray, ranks: IntArray) -> IntArray:
    """See :func:`cxc_eccv.kernels.drawn_places`."""
    reached = np.cumsum(times.take(members, axis=1), axis=1, dtype=np.int32)
    reached += below.astype(np.int32)[:, None]
    return np.stack([np.count_nonzero(reached <= rank[:, None], axis=1) for rank in ranks])
