"""Ranks as far as given rankings tell them: metrics are computed where that suffices, refused where it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import RunTooShallow
from cxc_eccv.types import FloatArray, IntArray, PositiveRanks

__all__ = ["FAR", "GivenRanks", "needed_depth", "values_at_known_depth"]

FAR = 2**40
"""A depth that no gallery reaches."""


@dataclass(frozen=True, slots=True, eq=False)
class GivenRanks:
    """What rankings say about the positives of Q queries.

    Attributes:
        ranks: ranks of the positives that the rankings hold; ``n_positives`` counts the others too. ``n_gallery`` is
            the ranking's depth where the size of the gallery is unknown. The order is trusted: there are no ties.
        depths: (Q,) items in each query's ranking.
        complete: (Q,) whether a ranking holds the whole gallery, so that a positive it lacks is outside the gallery.
    """

    ranks: PositiveRanks
    depths: IntArray
    complete: NDArray[np.bool_]

    @property
    def n_found(self) -> IntArray:
        """(Q,) positives that the rankings hold."""
        return np.diff(self.ranks.indptr)


Score = Callable[[PositiveRanks], FloatArray]


def values_at_known_depth(
    metric: Callable[..., FloatArray],
    given: GivenRanks,
    **parameters: Any,  # noqa: ANN401 - the metric's own
) -> FloatArray:
    """A metric's value of every query, provided that no ranking ends before the value is settled.

    A ranking that holds the whole gallery always suffices. A metric that looks at the top d alone, see
    :func:`needed_depth`, needs d items whether they hold positives or not. One without such a limit (median rank, MRR)
    needs that the positives which the ranking lacks could not change its value.

    Args:
        metric: per-query values from ranks.
        given: ranks of the positives, as far as known.
        **parameters: of the metric.

    Returns:
        (Q,) values.

    Raises:
        RunTooShallow: a ranking ends too early; names the query, the depth it has and the depth it needs.

    Example:
        >>> from cxc_eccv.metrics.r_precision import r_precision
        >>> ranks = PositiveRanks.of([[2]], n_positives=[2])
        >>> values_at_known_depth(r_precision, GivenRanks(ranks, np.array([2]), np.array([False]))).tolist()
        [0.5]
        >>> ranks = PositiveRanks.of([[2]], n_positives=[3])
        >>> values_at_known_depth(r_precision, GivenRanks(ranks, np.array([2]), np.array([False])))
        Traceback (most recent call last):
        cxc_eccv.errors.RunTooShallow: r_precision of query 0 (R = 3) looks at the top 3, but its ranking ends at \
rank 2. Rank at least 3 items (the largest R is 3), or the whole gallery of 100 items.
    """
    score, n_positives = partial(metric, **parameters), given.ranks.n_positives
    values = score(given.ranks)
    unsettled = ~given.complete & _looks_below(score, n_positives, given.depths)
    if not unsettled.any():
        return values
    limited = ~_looks_below(score, n_positives, np.full_like(n_positives, FAR))
    unknown = unsettled & (limited | (score(_next(given)) != score(_far(given))))
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
    """How far down a metric looks: the smallest depth below which positives no longer change its value.

    Found by bisection on the metric itself, so that no metric need declare it.

    Args:
        metric: per-query values from ranks.
        n_positives: (Q,) R.
        **parameters: of the metric.

    Returns:
        (Q,) depths; 2**40 stands for no limit.

    Example:
        >>> from cxc_eccv.metrics.map_at_r import map_at_r
        >>> from cxc_eccv.metrics.recall_at_k import recall_at_k
        >>> needed_depth(map_at_r, np.array([1, 8])).tolist(), needed_depth(recall_at_k, np.array([8]), k=10).tolist()
        ([1, 8], [10])
    """
    score = partial(metric, **parameters)
    low, high = np.zeros_like(n_positives), np.full_like(n_positives, FAR)
    while np.any(low < high):
        middle = (low + high) // 2
        looks = _looks_below(score, n_positives, middle)
        low, high = np.where(looks, np.minimum(middle + 1, high), low), np.where(looks, high, middle)
    return low


def _looks_below(score: Score, n_positives: IntArray, depths: IntArray) -> NDArray[np.bool_]:
    """Whether positives right below a depth change the value of a query that has none above it."""
    below = _ranks(n_positives, n_positives, _counted_from(depths + 1, n_positives))
    nowhere = _ranks(n_positives, np.zeros_like(n_positives), np.empty(0, dtype=np.int64))
    return np.asarray(score(below) != score(nowhere))


def _far(given: GivenRanks) -> PositiveRanks:
    """The ranks as if no gallery held the positives that its ranking lacks."""
    return _ranks(given.ranks.n_positives, given.n_found, given.ranks.ranks)


def _next(given: GivenRanks) -> PositiveRanks:
    """The ranks as if all positives that a ranking lacks stood right below it."""
    n_positives = given.ranks.n_positives
    order = _counted_from(np.zeros_like(n_positives), n_positives)
    n_found = np.repeat(given.n_found, n_positives)
    ranks = np.repeat(given.depths, n_positives) + 1 + order - n_found
    ranks[order < n_found] = given.ranks.ranks
    return _ranks(n_positives, n_positives, ranks)


def _ranks(n_positives: IntArray, n_ranked: IntArray, ranks: IntArray) -> PositiveRanks:
    indptr, gallery = np.append(0, np.cumsum(n_ranked)), np.full_like(n_positives, 2 * FAR)
    return PositiveRanks(np.arange(n_ranked.size), indptr, ranks, n_positives, gallery, np.zeros_like(n_ranked))


def _counted_from(first: IntArray, sizes: IntArray) -> IntArray:
    """Per query so many whole numbers in a row from its first one, all queries in one array."""
    starts = np.cumsum(sizes) - sizes
    return np.repeat(first - starts, sizes) + np.arange(sizes.sum())


def _too_shallow(name: str, score: Score, given: GivenRanks, row: int) -> RunTooShallow:
    sizes, places = np.unique(given.ranks.n_positives, return_inverse=True)
    needed, depth = needed_depth(score, sizes), given.depths[row]
    size = given.ranks.n_gallery[row]
    whole = f"the whole gallery of {size} items" if size > depth else "the whole gallery and state its size"
    subject = f"{name} of query {given.ranks.query_ids[row]} (R = {given.ranks.n_positives[row]})"
    if needed[places[row]] == FAR:
        return RunTooShallow(
            f"{subject} is unknown: its ranking ends at rank {depth} with {given.n_found[row]} of its positives. Rank "
            f"{whole} (the largest R is {sizes.max()})."
        )
    return RunTooShallow(
        f"{subject} looks at the top {needed[places[row]]}, but its ranking ends at rank {depth}. Rank at least "
        f"{needed.max()} items (the largest R is {sizes.max()}), or {whole}."
    )
