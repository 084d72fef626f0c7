"""Diversity of models: the agreement of their top lists, and the rank that one gives to another's first item."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from cxc_eccv.statistics import Estimate
from cxc_eccv.types import FloatArray, IntArray, TopK

DEPTH = 25
"""Items of a list to compare, as in Table A.1."""

AT_ONCE = 4_096
"""Queries per batch."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """A cell of both parts of Table A.1: how one model ranks the top items of another."""

    direction: str
    one: str
    other: str
    correlation: Estimate | None  # Kendall's tau-b of the items that both have in their tops
    n_correlated: int  # queries with two such items
    place: Estimate | None  # mean rank in the other's list of the one's first item
    n_placed: int  # queries where that item is in the other's top
    n_queries: int


def correlate_tops(first: TopK, other: TopK) -> FloatArray:
    """(Q,) Kendall's tau-b of the orders of the items that both models have in their top K."""
    values = np.full(len(first.ids), np.nan)
    upper = np.triu_indices(first.depth, 1)
    for start in range(0, len(first.ids), AT_ONCE):
        strip = slice(start, start + AT_ONCE)
        same = first.ids[strip][:, :, None] == other.ids[strip][:, None, :]
        places, common = same.argmax(axis=2), same.any(axis=2)
        before, after = places[:, upper[0]], places[:, upper[1]]
        both = common[:, upper[0]] & common[:, upper[1]]
        agreed, pairs = (both & (before < after)).sum(axis=1), both.sum(axis=1)
        np.divide(2 * agreed - pairs, pairs, out=values[strip], where=pairs > 0)
    return values


def place_first(first: TopK, other: TopK) -> FloatArray:
    """(Q,) ranks from 1 of the first model's top item in another's list; NaN if it is below the top K."""
    matches = other.ids == first.ids[:, :1]
    return np.asarray(np.where(matches.any(axis=1), matches.argmax(axis=1) + 1.0, np.nan))


def compare_lists(
    tops: Mapping[str, TopK], direction: str, estimate: Callable[[IntArray, FloatArray, str], Estimate | None]
) -> list[Likeness]:
    """The cells of Table A.1 for every ordered pair of models; ``estimate`` is of the mean over queries."""
    rows = []
    correlations: dict[frozenset[str], FloatArray] = {}
    for first, other in permutations(tops, 2):
        pair = frozenset((first, other))
        if pair not in correlations:
            correlations[pair] = correlate_tops(tops[first], tops[other])
        correlation, place = correlations[pair], place_first(tops[first], tops[other])
        ids, (both, placed) = tops[first].query_ids, (~np.isnan(correlation), ~np.isnan(place))
        rows.append(
            Likeness(
                direction,
                first,
                other,
                estimate(ids[both], correlation[both], direction),
                int(both.sum()),
                estimate(ids[placed], place[placed], direction),
                int(placed.sum()),
                ids.size,
            )
        )
    return rows
