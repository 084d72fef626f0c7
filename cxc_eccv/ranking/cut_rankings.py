"""Ranks from rankings that may end early, and the metrics that they are deep enough for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import RunTooShallow
from cxc_eccv.types import FloatArray, IntArray, PositiveRanks
from cxc_eccv.types.ids import make_indptr, number_within

BEYOND_GALLERIES = 2**40
"""A depth beyond every gallery."""

VALUE_TOLERANCE = 1e-12
"""Values of a metric that differ by no more than this are equal; no table shows so little."""


@dataclass(frozen=True, slots=True, eq=False)
class GivenRanks(PositiveRanks):
    """Ranks of the positives that occur in the rankings of Q queries, which may end early.

    ``n_gallery`` is the depth of a ranking if the size of the gallery is unknown. ``depths`` are the (Q,) lengths of
    the rankings; ``complete`` is (Q,) bool, whether a ranking holds the whole gallery. ``cut`` is the (Q,) number of
    positives that tie with the last item of a ranking that leaves items out, which may tie too.
    """

    depths: IntArray
    complete: NDArray[np.bool_]
    cut: IntArray

    @property
    def n_found(self) -> IntArray:
        """(Q,) number of positives in each ranking."""
        return np.diff(self.indptr)


Score = Callable[[PositiveRanks], FloatArray]


def values_at_known_depth(
    metric: Callable[..., FloatArray],
    given: GivenRanks,
    **parameters: Any,  # noqa: ANN401 - the metric's own
) -> FloatArray:
    """A metric's value of every query; raises RunTooShallow if a ranking ends before its value is settled.

    A ranking of the whole gallery always suffices. A metric that looks only at the top d, see :func:`needed_depth`,
    needs d items. For a metric without such a limit (median rank, MRR) the positives that a ranking lacks must not be
    able to change the value by more than :data:`VALUE_TOLERANCE`.
    """
    score = partial(metric, **parameters)
    n_positives = given.n_positives
    values = score(given)
    unsettled = ~given.complete & _looks_below(score, n_positives, given.depths)
    if not unsettled.any():
        return values
    limited = _is_limited(score, n_positives)
    ranked = given.n_found, given.ranks
    absent = _ranks(n_positives, *ranked)
    next_below = _place_below(n_positives, given.depths, *ranked)
    unknown = unsettled & (limited | _differ(score(next_below), score(absent)))
    if unknown.any():
        called = ", ".join(f"{name}={value}" for name, value in parameters.items())
        name = f"{metric.__name__}({called})" if called else metric.__name__
        raise _too_shallow(name, score, given, np.flatnonzero(unknown)[0])
    return values


def needed_depth(
    metric: Callable[..., FloatArray],
    n_positives: IntArray,
    **parameters: Any,  # noqa: ANN401 - the metric's own
) -> IntArray:
    """The smallest depth below which positives no longer change a value, for each R; BEYOND_GALLERIES if none is."""
    score = partial(metric, **parameters)
    high = np.full_like(n_positives, BEYOND_GALLERIES)
    low = np.where(_is_limited(score, n_positives), 0, high)
    while np.any(low < high):
        middle = (low + high) // 2
        looks = _looks_below(score, n_positives, middle)
        low = np.where(looks, np.minimum(middle + 1, high), low)
        high = np.where(looks, high, middle)
    return low


def _looks_below(score: Score, n_positives: IntArray, depths: IntArray) -> NDArray[np.bool_]:
    """Whether positives just below a depth change the value of a query without positives above it."""
    return _differ(*_compare_below(score, n_positives, depths))


def _is_limited(score: Score, n_positives: IntArray) -> NDArray[np.bool_]:
    """Whether positives far below every gallery change nothing at all; 1 / rank still does."""
    below, absent = _compare_below(score, n_positives, np.full_like(n_positives, BEYOND_GALLERIES))
    return np.asarray(below == absent)


def _compare_below(score: Score, n_positives: IntArray, depths: IntArray) -> tuple[FloatArray, FloatArray]:
    """The values of queries whose positives all stand just below a depth, and of those without any."""
    nothing = np.zeros_like(n_positives), np.empty(0, dtype=np.int64)
    return score(_place_below(n_positives, depths, *nothing)), score(_ranks(n_positives, *nothing))


def _differ(values: FloatArray, others: FloatArray) -> NDArray[np.bool_]:
    """Whether values differ by more than the tolerance."""
    return ~np.isclose(values, others, rtol=0, atol=VALUE_TOLERANCE)


def _place_below(n_positives: IntArray, depths: IntArray, n_ranked: IntArray, known_ranks: IntArray) -> PositiveRanks:
    """The ranks if all missing positives stood just below a depth."""
    order = number_within(n_positives)
    n_above = np.repeat(n_ranked, n_positives)
    ranks = np.repeat(depths, n_positives) + 1 + order - n_above
    ranks[order < n_above] = known_ranks
    return _ranks(n_positives, n_positives, ranks)


def _ranks(n_positives: IntArray, n_ranked: IntArray, ranks: IntArray) -> PositiveRanks:
    """Ranks in a very large gallery that does not hold the other positives."""
    queries = np.arange(n_ranked.size)
    gallery = np.full_like(n_positives, 2 * BEYOND_GALLERIES)
    return PositiveRanks(queries, make_indptr(n_ranked), ranks, n_positives, gallery, np.zeros_like(n_ranked))


def _too_shallow(name: str, score: Score, given: GivenRanks, row: int) -> RunTooShallow:
    sizes, indices = np.unique(given.n_positives, return_inverse=True)
    needed = needed_depth(score, sizes)[indices]
    depth = given.depths[row]
    size = given.n_gallery[row]
    # Where the size of the gallery is unknown, n_gallery is the depth of an incomplete ranking.
    held = np.where(given.complete | (given.n_gallery > given.depths), given.n_gallery, BEYOND_GALLERIES)
    whole = f"the whole gallery of {size} items" if size > depth else "the whole gallery and state its size"
    subject = f"{name} of query {given.query_ids[row]} (R = {given.n_positives[row]})"
    if needed[row] >= held[row]:
        return RunTooShallow(
            f"{subject} is unknown: its ranking ends at rank {depth} with {given.n_found[row]} of its positives. Rank "
            f"{whole} (the largest R is {sizes.max()})."
        )
    return RunTooShallow(
        f"{subject} looks at the top {needed[row]}, but its ranking ends at rank {depth}. Rank at least "
        f"{np.minimum(needed, held).max()} items (the largest R is {sizes.max()}), or {whole}."
    )
