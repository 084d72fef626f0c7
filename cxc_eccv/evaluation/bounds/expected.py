"""The exact expected value of a metric if each unjudged pair is positive with its probability."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cxc_eccv.errors import DataError
from cxc_eccv.evaluation.bounds.retrieved import Flags, Retrieved
from cxc_eccv.metrics.chances import add_event
from cxc_eccv.types import FloatArray, IntArray, PositiveRanks, check_values
from cxc_eccv.types.ids import number_within
from cxc_eccv.types.judgments import orient

ProbabilitiesOf = Callable[[IntArray, IntArray], Any]
"""Maps (P,) image and (P,) caption ids to (P,) probabilities that the image with its captions entails the caption."""

Share = Callable[[IntArray, IntArray, IntArray], FloatArray]
"""``RankMetric.share``: maps the place among the positives, the rank and R to what each positive adds to a value."""

EXPECTED_QUERIES_AT_ONCE = 256
EXPECTED_TERMS_AT_ONCE = 2**22
CERTAIN_DEVIATION = 4.5
"""A sum of n independent zeros and ones is off its mean by this many times sqrt(n) with probability below 1e-17."""


def ask_probabilities(
    probabilities: ProbabilitiesOf, direction: str, query_ids: IntArray, ids: IntArray, asked: Flags
) -> FloatArray:
    """(Q, D) checked probabilities of the items in ``asked``, 0 for others."""
    rows, places = np.nonzero(asked)
    queries = query_ids[rows]
    items = ids[rows, places]
    images, captions = orient(queries, items, direction)
    table = np.zeros(asked.shape)
    values = np.asarray(probabilities(images, captions)) if rows.size else np.empty(0)
    if values.shape != rows.shape or values.dtype.kind not in "biuf":
        raise DataError(
            f"probabilities have type {values.dtype} and shape {values.shape} for {rows.size} {direction} pairs; need "
            "a number from 0 to 1 for each"
        )
    check_values(values, f"probabilities of the {direction} pairs", pairs=(images, captions))
    table[rows, places] = values
    return table


def expect_best(
    score: Callable[[PositiveRanks], FloatArray], retrieved: Retrieved, chances: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(Q, M) values of a metric of the best rank, and the (Q, M) probabilities of these values.

    The best positive is in the first tie that has labelled items; the more of these, the higher it ranks.
    """
    n_queries, depth = chances.shape
    known = retrieved.ranks.best
    alive = np.ones(n_queries)
    most = 1 + int((retrieved.ends - np.arange(depth)).max())
    none = np.zeros((n_queries, most + 1))
    none[:, 0] = 1
    in_tie = none
    columns = [known]
    weights = []
    for place in range(depth):
        in_tie = add_event(in_tie, chances[:, place])
        ends = retrieved.ends[:, place] == place
        for count in range(1, most + 1):
            weight = np.where(ends, alive * in_tie[:, count], 0.0)
            if weight.any():
                columns.append(np.where(weight > 0, np.minimum(known, retrieved.lowest[:, place] - count + 1), known))
                weights.append(weight)
        alive = np.where(ends, alive * in_tie[:, 0], alive)
        in_tie = np.where(ends[:, None], none, in_tie)
    values = [score(retrieved.with_best(best)) for best in columns]
    return np.stack(values, axis=1), np.stack([alive, *weights], axis=1)


def expected_median(values: FloatArray, weights: FloatArray) -> float:
    """Mean of the median over queries that independently have one of (Q, M) values with (Q, M) probabilities.

    The mean of an order statistic is a sum over thresholds v of the probability that too few queries are at most v.
    """
    n_queries = len(values)
    order = np.argsort(values, axis=None, kind="stable")
    owners = order // values.shape[1]
    ordered = values.ravel()[order]
    ordered_weights = weights.ravel()[order]
    levels, first = np.unique(ordered, return_index=True)
    ends = np.append(first[1:], ordered.size)
    mean_counts = np.cumsum(ordered_weights)[ends - 1]
    reach = CERTAIN_DEVIATION * np.sqrt(n_queries)
    middle = np.array([(n_queries - 1) // 2, n_queries // 2])  # number of queries before the two middle ones
    too_few = np.where(mean_counts[:, None] < middle, 1.0, 0.0)
    for level in np.flatnonzero((np.abs(mean_counts[:, None] - middle) < reach + 1).any(axis=1)):
        at_most = np.bincount(owners[: ends[level]], weights=ordered_weights[: ends[level]], minlength=n_queries)
        cumulated = np.cumsum(_count_many(np.clip(at_most, 0, 1)))
        too_few[level] = cumulated[middle]
    return float((levels[0] + np.diff(levels) @ too_few[:-1]).mean())


def _count_many(probabilities: FloatArray) -> FloatArray:
    """:func:`cxc_eccv.metrics.chances.count_chances` of (M,) events, by pairwise products of polynomials."""
    size = 1 << max(0, int(probabilities.size - 1).bit_length())
    certain = np.zeros(size)
    certain[: probabilities.size] = probabilities
    chances = np.stack([1 - certain, certain], axis=1)
    while len(chances) > 1:
        width = 2 * chances.shape[1]
        parts = np.fft.rfft(chances, width, axis=1)
        chances = np.fft.irfft(parts[::2] * parts[1::2], width, axis=1)[:, : width - 1]
    return np.clip(chances[0, : probabilities.size + 1], 0, 1)


def expect_sums(share: Share, retrieved: Retrieved, chances: FloatArray) -> FloatArray:
    """(Q,) expected values of a metric that sums ``RankMetric.share`` over positives."""
    starts = range(0, len(chances), EXPECTED_QUERIES_AT_ONCE)
    return np.concatenate([_expect_some_sums(share, retrieved, chances, start) for start in starts])


def _expect_some_sums(share: Share, retrieved: Retrieved, chances: FloatArray, start: int) -> FloatArray:
    """The expected values of a block of queries from ``start``."""
    rows = slice(start, start + EXPECTED_QUERIES_AT_ONCE)
    block = chances[rows]
    ends = retrieved.ends[rows]
    ranks = retrieved.ranks
    total = retrieved.ranks.n_positives[rows]
    n_queries, depth = block.shape
    above, tied, below = _chances_around(block, ends)

    # Known positives, which rank below all items that tie with them.
    counts = np.diff(ranks.indptr)[rows]
    owners = np.repeat(np.arange(n_queries), counts)
    known = ranks.ranks[ranks.indptr[start] :][: owners.size]
    order = number_within(counts) + 1
    places = np.minimum(known - 1, depth)
    none_tied = np.ones((owners.size, 1))
    around = above[places, owners], none_tied, below[places, owners]
    sums = _sum_shares(share, order, known, total[owners], around)
    values = np.bincount(owners, weights=sums, minlength=n_queries)

    # New positives, each with its probability.
    owners, places = np.nonzero(block > 0)
    order = retrieved.above[rows][owners, places] + 1
    lowest = retrieved.lowest[rows][owners, places]
    around = above[places, owners], tied[places, owners], below[ends[owners, places] + 1, owners]
    sums = _sum_shares(share, order, lowest, total[owners] + 1, around)
    return np.asarray(values + np.bincount(owners, weights=sums * block[owners, places], minlength=n_queries))


def _chances_around(chances: FloatArray, ends: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Chances of label counts: (D + 1, Q, N) above a place, (D, Q, A) below it in its tie, (D + 1, Q, N) from it."""
    n_queries, depth = chances.shape
    none = np.eye(1, depth + 1).repeat(n_queries, axis=0)
    above = [none]
    tied = [none]
    below = [none]
    for place in range(depth):
        above.append(add_event(above[-1], chances[:, place]))
    for place in reversed(range(depth)):
        below.insert(0, add_event(below[0], chances[:, place]))
        if place:
            alone = ends[:, place - 1, None] == place - 1
            tied.insert(0, np.where(alone, none, add_event(tied[0], chances[:, place])))
    widest = 1 + int((ends - np.arange(depth)).max())
    return np.stack(above), np.stack(tied)[..., :widest], np.stack(below)


def _sum_shares(
    share: Share, order: IntArray, ranks: IntArray, n_positives: IntArray, chances: tuple[FloatArray, ...]
) -> FloatArray:
    """(P,) expected shares of P positives, from (P, N), (P, A) and (P, M) probabilities of label counts.

    A label above a positive adds one to its place, one below it in its tie lifts it by a rank, and each adds one to R.
    """
    shape = tuple(part.shape[1] for part in chances)
    above, tied, below = np.ogrid[tuple(map(slice, shape))]
    sums = np.empty(order.size)
    step = max(1, EXPECTED_TERMS_AT_ONCE // int(np.prod(shape)))
    for start in range(0, order.size, step):
        some = slice(start, start + step)
        places, standing, total = (values[some, None, None, None] for values in (order, ranks, n_positives))
        shares = share(places + above, np.maximum(standing - tied, 1), total + (above + tied + below))
        shares = (shares @ chances[2][some, None, :, None])[..., 0]
        sums[some] = np.einsum("pna,pn,pa->p", shares, chances[0][some], chances[1][some])
    return sums
