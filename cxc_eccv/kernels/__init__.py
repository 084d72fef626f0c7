"""How many scores of a block reach thresholds: compiled from ``_kernels.c``, or NumPy where no compiler was at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.kernels.numpy_kernels import EXACT_IN_FLOAT32, FEW, NEAR_PER_PAIR, scores_at_depths
from cxc_eccv.kernels.numpy_kernels import column_counts as numpy_column_counts
from cxc_eccv.kernels.numpy_kernels import draw_rows as numpy_draw_rows
from cxc_eccv.kernels.numpy_kernels import drawn_places as numpy_drawn_places
from cxc_eccv.kernels.numpy_kernels import drawn_sums as numpy_drawn_sums
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

__all__ = [
    "COMPILED",
    "KeptColumns",
    "MatchCounts",
    "column_counts",
    "counts_matches",
    "drawn_places",
    "drawn_rows",
    "drawn_sums",
    "match_counts",
    "pair_products",
    "rank_products",
    "row_counts",
    "scores_at_depths",
    "scores_of_columns",
    "times_drawn",
    "unit_vectors",
]


@dataclass(frozen=True, slots=True, eq=False)
class Reached:
    """How many scores reach the thresholds of each pair.

    Attributes:
        at_least: scores of each segment that are at least the pair's ``low``.
        above: scores of each segment that are above its ``high``.
        pairs, places, scores: (E,) each score from ``low`` to ``high`` of pairs where these differ, with its pair and
            its column or row.
        complete: whether the last three hold all of these; they do not where there are too many.
    """

    at_least: IntArray
    above: IntArray
    pairs: IntArray
    places: IntArray
    scores: NDArray[np.float32]
    complete: bool


@dataclass(frozen=True, slots=True, eq=False)
class MatchCounts:
    """Matches among the best items of rows, for each look (R, L).

    Attributes:
        lowest: the score of the last item looked at; minus infinity where a row holds too few.
        at_least: items that score so high.
        matches: matches among them.
        tied: items that score exactly so.
        tied_matches: matches among these.
    """

    lowest: NDArray[Any]
    at_least: IntArray
    matches: IntArray
    tied: IntArray
    tied_matches: IntArray


def row_counts(
    block: NDArray[np.float32],
    rows: IntArray,
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    bounds: IntArray,
) -> Reached:
    """Count the scores of P ``rows`` of a (B, width) block: (P, S) of each segment of the columns.

    ``low`` are thresholds to be reached, ``high`` those to be exceeded, at least ``low``; ``bounds`` the (S + 1,) edges
    of the segments, from 0 to the width in multiples of 8, none empty.

    Example:
        >>> block, five = np.arange(16, dtype=np.float32).reshape(1, 16), np.array([5], dtype=np.float32)
        >>> found = row_counts(block, np.array([0]), five, five, np.array([0, 8, 16]))
        >>> found.at_least.tolist(), found.above.tolist()
        ([[3, 8]], [[2, 8]])
    """
    if COMPILED and block.dtype == np.float32:
        return _compiled(count_rows, block, rows, low, high, bounds, (rows.size, bounds.size - 1))
    return Reached(*numpy_row_counts(block, rows, low, high, bounds))


def column_counts(
    block: NDArray[np.float32],
    columns: IntArray,
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    bounds: IntArray,
) -> Reached:
    """Count the scores of P ascending ``columns`` of a (B, width) block: (S, P) of each segment of the rows.

    ``low`` are thresholds to be reached, ``high`` those to be exceeded, at least ``low``; ``bounds`` the (S + 1,) edges
    of the segments, from 0 to B, none empty.

    Example:
        >>> block, three = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([3], dtype=np.float32)
        >>> found = column_counts(block, np.array([1]), three, three, np.array([0, 3]))
        >>> found.at_least.tolist(), found.above.tolist()
        ([[2]], [[1]])
    """
    if COMPILED and block.dtype == np.float32:
        return _compiled(count_columns, block, columns, low, high, bounds, (bounds.size - 1, columns.size))
    return Reached(*numpy_column_counts(block, columns, low, high, bounds))


def pair_products(
    queries: NDArray[np.float32], items: NDArray[np.float32], rows: IntArray, columns: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Multiply pairs of vectors, ``rows`` of the queries and ``columns`` of the items, in double precision.

    Returns (P,) dot products, and (P,) sums of the absolute values of what these add up.

    Example:
        >>> one, other = np.array([[1, 2]], dtype=np.float32), np.array([[3, -4]], dtype=np.float32)
        >>> [values.tolist() for values in pair_products(one, other, np.array([0]), np.array([0]))]
        [[-5.0], [11.0]]
    """
    if not COMPILED:
        return numpy_pair_products(queries, items, rows, columns)
    sums, magnitudes = np.empty((2, rows.size))
    multiply_pairs(
        np.ascontiguousarray(queries, np.float32),
        np.ascontiguousarray(items, np.float32),
        np.ascontiguousarray(rows, np.int64),
        np.ascontiguousarray(columns, np.int64),
        queries.shape[1],
        sums,
        magnitudes,
    )
    return sums, magnitudes


def unit_vectors(
    vectors: NDArray[np.float32], places: IntArray, targets: IntArray, out: NDArray[np.float32]
) -> FloatArray:
    """Write vectors of unit length: lengths are summed in float64, quotients rounded to float32, zeros are positive.

    Args:
        vectors: (N, D), finite.
        places: (R,) rows of ``vectors`` to take.
        targets: (R,) rows of ``out`` to write.
        out: (.., D), contiguous.

    Returns:
        (R,) lengths; vectors of length 0 are written as they are.

    Example:
        >>> out = np.empty((1, 2), dtype=np.float32)
        >>> unit_vectors(np.array([[3, 4]], dtype=np.float32), np.array([0]), np.array([0]), out).tolist(), out.tolist()
        ([5.0], [[0.6000000238418579, 0.800000011920929]])
    """
    if not COMPILED:
        return numpy_unit_vectors(vectors, places, targets, out)
    lengths = np.empty(places.size)
    whole = np.ascontiguousarray(vectors, np.float32)
    scale_to_unit(
        whole,
        np.ascontiguousarray(places, np.int64),
        np.ascontiguousarray(targets, np.int64),
        vectors.shape[1],
        out,
        lengths,
    )
    return lengths


def times_drawn(random: np.random.Generator, samples: int, count: int) -> NDArray[np.integer]:
    """(S, n) how often each of n clusters is drawn in each sample, of n draws with replacement.

    Drawn as ``random.integers(n, size=(S, n), dtype=np.uint16)`` draws; more than 2 ** 15 clusters as int64.

    Example:
        >>> times_drawn(np.random.default_rng(0), 4, 3).sum(axis=1).tolist()
        [3, 3, 3, 3]
    """
    if not COMPILED or count > FEW:
        return numpy_times_drawn(random, samples, count)
    times = np.empty((samples, count), np.int16)
    draw_times(random.bit_generator.capsule, count, times)
    return times


def drawn_sums(times: NDArray[np.integer], values: NDArray[Any]) -> FloatArray:
    """(..., S) sums over clusters of (..., n) values, each taken as often as its cluster was drawn.

    Whole numbers are added as such as long as no sum reaches 2 ** 24, else in double precision: sums of whole numbers
    are the same in any order.

    Args:
        times: (S, n) as :func:`times_drawn` gives them.
        values: (n,) or (M, n).

    Example:
        >>> drawn_sums(np.array([[2, 0, 1], [1, 1, 1]], np.int16), np.array([1.0, 10.0, 100.0])).tolist()
        [102.0, 111.0]
    """
    largest, (samples, count) = np.abs(values).max(initial=0), times.shape
    exact = largest * count < EXACT_IN_FLOAT32 and bool((values == np.rint(values)).all())
    if exact and np.all(values == values.flat[0]):  # a sample draws as many clusters as there are
        return np.full((*values.shape[:-1], samples), float(values.flat[0]) * count)
    if not COMPILED or not exact or largest >= FEW or times.dtype != np.int16:
        return numpy_drawn_sums(times, values, exact=exact)
    sums = np.empty((*values.shape[:-1], samples))
    sum_drawn(times, values.astype(np.int16, order="C"), count, sums)
    return sums


def drawn_places(times: NDArray[np.integer], members: IntArray, below: IntArray, ranks: IntArray) -> IntArray:
    """(2, S) how many of some clusters' counts, added one by one, stay at or under two ranks.

    Args:
        times: (S, n) as :func:`times_drawn` gives them.
        members: (W,) clusters whose counts are added, in this order.
        below: (S,) what they are added to.
        ranks: (2, S) the ranks, the lower first.

    Example:
        >>> times, members = np.array([[2, 0, 1]], np.int16), np.array([2, 0, 1])
        >>> drawn_places(times, members, np.array([5]), np.array([[5], [6]])).tolist()
        [[0], [1]]
    """
    if not COMPILED or times.dtype != np.int16:
        return numpy_drawn_places(times, members, below, ranks)
    places = np.empty(ranks.shape, np.int64)
    find_ranks(times, times.shape[1], np.ascontiguousarray(members), below, ranks, places)
    return places


def drawn_rows(random: np.random.Generator, rows: IntArray, ends: IntArray, samples: int) -> IntArray:
    """(S, Q // 2) rows: for each sample half of Q queries without replacement, and one of each query's rows.

    Drawn as ``random.choice(Q, Q // 2, replace=False, shuffle=False)`` and then ``random.random(Q // 2)`` draw.

    Args:
        random: the generator, which no other thread may use meanwhile.
        rows: (P,) rows, those of one query side by side.
        ends: (Q + 1,) where the rows of each query begin, and where the last one's end; none without rows.
        samples: S.

    Example:
        >>> random = np.random.default_rng(0)
        >>> drawn_rows(random, np.arange(5), np.array([0, 2, 3, 4, 5]), 2).shape
        (2, 2)
    """
    drawn = np.empty((samples, (ends.size - 1) // 2), np.int64)
    if COMPILED:
        draw_rows(random.bit_generator.capsule, rows, ends, drawn)
    else:
        numpy_draw_rows(random, rows, ends, drawn)
    return drawn


def rank_products(codes: NDArray[np.int32], n_levels: tuple[int, int], rows: IntArray) -> FloatArray:
    """(S, 3) inner products of the ranks of chosen rows: the first's with itself, the second's, and of both.

    Ranks are twice the average ones, less their mean: whole numbers, whose sums are exact up to 200,000 rows.

    Args:
        codes: (P, 2) values as codes from 0, equal for ties.
        n_levels: how many codes there are in each column.
        rows: (S, n) rows chosen for each sample.

    Example:
        >>> rank_products(np.array([[0, 0], [1, 2], [1, 1]], np.int32), (2, 3), np.array([[0, 1, 2]])).tolist()
        [[6.0, 8.0, 6.0]]
    """
    if not COMPILED or rows.shape[1] > MOST_RANKED:
        return numpy_rank_products(codes, n_levels, rows)
    products = np.empty((len(rows), 3))
    correlate_ranks(codes, *n_levels, rows, products)
    return products


def counts_matches(scores: NDArray[Any], distances: NDArray[np.unsignedinteger], n_looks: int) -> bool:
    """Whether :func:`match_counts` is compiled for these: it copies nothing, and is quicker on whole rows."""
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
    """Count the matches among the best items of rows: those whose class is near that of the row's query.

    Args:
        scores: (B, C) scores.
        rows: (R,) rows to look at.
        items: (C,) or (B, C) item of each score; negative where there is none, or none that counts.
        classes: (N,) class of each item.
        distances: (classes, classes) distances.
        query_classes: (R,) class of each row that is looked at.
        zetas: for each look the largest distance of a match.
        depths: (R, L) for each look the number of best items, at least 1.

    Example:
        >>> scores = np.array([[0.5, 0.1, 0.9, 0.5]], dtype=np.float32)
        >>> classes, apart = np.array([0, 0, 1, 1]), np.array([[0, 3], [3, 0]], dtype=np.uint8)
        >>> items, query_classes, depths = np.arange(4), np.array([0]), np.array([[2]])
        >>> found = match_counts(scores, np.array([0]), items, classes, apart, query_classes, [0], depths)
        >>> found.lowest.tolist(), found.at_least.tolist(), found.matches.tolist(), found.tied.tolist()
        ([[0.5]], [[3]], [[1]], [[2]])
    """
    if not counts_matches(scores, distances, len(zetas)):
        of_rows = items if items.ndim == 1 else items[rows]
        looks = np.asarray(zetas, np.int64), depths
        return MatchCounts(*numpy_match_counts(scores[rows], of_rows, classes, distances, query_classes, *looks))
    lowest, counts = np.empty(depths.shape, np.float32), np.zeros((*depths.shape, 4), np.int64)
    count_matches(
        scores if scores.strides[1] == scores.itemsize else np.ascontiguousarray(scores),
        np.ascontiguousarray(rows, np.int64),
        np.ascontiguousarray(items, np.int32),
        np.ascontiguousarray(classes, np.int32),
        np.ascontiguousarray(distances),
        np.ascontiguousarray(query_classes, np.int64),
        np.asarray(zetas, np.int64),
        np.ascontiguousarray(depths, np.int64),
        lowest,
        counts,
    )
    return MatchCounts(lowest, *np.moveaxis(counts, -1, 0))


def scores_of_columns(scores: NDArray[np.float32], rows: IntArray, depths: IntArray) -> NDArray[np.float32]:
    """(width,) scores of the items at (width,) depths of columns, among R ``rows`` of (B, width) scores; compiled only.

    Infinity at depth 0, minus infinity where there are too few rows.

    Example:
        >>> scores, rows = np.array([[0.5, 0.125], [1, 0.5], [0.75, 0.25]], dtype=np.float32), np.array([0, 2])
        >>> scores_of_columns(scores, rows, np.array([1, 2])).tolist() if COMPILED else [0.75, 0.125]
        [0.75, 0.125]
    """
    selected = np.empty(depths.size, np.float32)
    select_in_columns(scores, np.ascontiguousarray(rows, np.int64), np.ascontiguousarray(depths, np.int64), selected)
    return selected


class KeptColumns:
    """Keeps the scores of a block that reach the bounds of their columns, by column; compiled only.

    Args:
        block: (B, width) float32 scores.
        items: (B,) item of each row; rows of a negative one are left out.
        bounds: (width,) scores to be reached; infinity where none is to be kept.
        share: of the scores that reach them, about.

    Attributes:
        sizes: (width,) how many were kept of each column.

    Example:
        >>> block = np.array([[1, 5], [3, 6], [2, 4]], dtype=np.float32)
        >>> kept = KeptColumns(block, np.array([10, 11, 12]), np.float32([2, 6]), 0.5) if COMPILED else None
        >>> kept.sizes.tolist() if kept else [2, 1]
        [2, 1]
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
        """Write what was kept of some columns behind what the tables hold already.

        Args:
            columns: (n,) which.
            filled: (n,) how much each row holds, which this adds to.
            scores: (n, room) table.
            items: (n, room) table.
        """
        spread_kept(self._kept, self._starts, columns, filled, scores, items)


def _compiled(
    count: Callable[..., int],
    block: NDArray[np.float32],
    places: IntArray,
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    bounds: IntArray,
    shape: tuple[int, int],
) -> Reached:
    most = NEAR_PER_PAIR * int(np.count_nonzero(low < high))
    arrays = (
        np.ascontiguousarray(places, np.int64),
        np.ascontiguousarray(low, np.float32),
        np.ascontiguousarray(high, np.float32),
        np.ascontiguousarray(bounds, np.int64),
    )
    room, found = min(most, places.size + FEWEST_NEAR), -1
    while not 0 <= found <= room:
        # Seldom twice: room for all that is allowed would be fresh memory for every block.
        room = min(most, max(room, found))
        at_least, above = np.zeros((2, *shape), dtype=np.int64)
        near = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.float32)
        found = count(block, *arrays, at_least, above, *near)
        if found > most:
            break
    near_pairs, near_places, near_scores = near
    # Copies: a view would keep all the room.
    kept = near_pairs[:found].copy(), near_places[:found].copy(), near_scores[:found].copy()
    return Reached(at_least, above, *kept, found <= most)
