"""Diversity of models: how alike they rank all items, and where one ranks the first item of another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import RunTooShallow
from cxc_eccv.kernels import row_correlations
from cxc_eccv.ranking import Ranked
from cxc_eccv.ranking.readers import LevelRows
from cxc_eccv.ranking.scores import workers
from cxc_eccv.statistics import Estimate
from cxc_eccv.types import FloatArray, IntArray, TopK

DEPTH = 25
"""Items of a list to find another model's first item in, as in Table A.1."""

SCORES_AT_ONCE = 2**24
"""Scores of each model in memory together."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """A cell of both parts of Table A.1: how one model ranks the items of another."""

    direction: str
    one: str
    other: str
    correlation: Estimate | None  # mean of Kendall's tau-b of the scores of all items of a query
    n_correlated: int  # queries with a tau-b: neither model gives all items one score
    place: Estimate | None  # mean rank in the other's list of the one's first item
    n_placed: int  # queries where that item is in the other's top
    n_queries: int


@dataclass(frozen=True, slots=True, eq=False)
class Correlations:
    """Kendall's tau-b of each two models, (Q,) with NaN where it is undefined, and the reason for models without.

    The models of a pair are in the order in which they were given.
    """

    values: Mapping[tuple[str, str], FloatArray]
    not_computed: Mapping[str, str]


def correlate_scores(
    models: Mapping[str, Ranked], query_ids: IntArray, gallery_ids: IntArray, direction: str
) -> Correlations:
    """Correlate the scores that each two models give to the whole gallery, query by query."""
    found: dict[tuple[str, str], list[FloatArray]] = {}
    remaining = dict(models)
    reasons = dict[str, str]()
    at_once = max(1, SCORES_AT_ONCE // gallery_ids.size)
    for start in range(0, query_ids.size, at_once):
        levels = {}
        for name, model in [*remaining.items()]:
            reader = LevelRows(query_ids[start : start + at_once], gallery_ids)
            model.rank_all({}, {direction: [reader]})
            try:
                levels[name] = reader.result
            except RunTooShallow as error:
                reasons[name] = str(error)
                del remaining[name]
        for one, other in combinations(levels, 2):
            found.setdefault((one, other), []).append(correlate_levels(levels[one], levels[other]))
    values = {pair: np.concatenate(parts) for pair, parts in found.items() if remaining.keys() >= set(pair)}
    return Correlations(values, reasons)


def correlate_levels(levels: NDArray[np.int32], others: NDArray[np.int32]) -> FloatArray:
    """(Q,) Kendall's tau-b of the rows of two models, as :class:`~cxc_eccv.ranking.readers.LevelRows` reads them."""
    parts = [np.array_split(rows, workers()) for rows in (levels, others)]
    with ThreadPoolExecutor(workers()) as pool:
        return np.concatenate(list(pool.map(row_correlations, *parts)))


def place_first(first: TopK, other: TopK) -> FloatArray:
    """(Q,) ranks from 1 of the first model's top item in another's list; NaN if it is below the top K."""
    matches = other.ids == first.ids[:, :1]
    return np.asarray(np.where(matches.any(axis=1), matches.argmax(axis=1) + 1.0, np.nan))


def compare_lists(
    tops: Mapping[str, TopK],
    correlations: Correlations,
    direction: str,
    estimate: Callable[[IntArray, FloatArray, str], Estimate | None],
) -> list[Likeness]:
    """The cells of Table A.1 for every ordered pair of models; ``estimate`` is of the mean over queries."""
    rows = []
    for first, other in permutations(tops, 2):
        ids = tops[first].query_ids
        place = place_first(tops[first], tops[other])
        pair = (first, other) if (first, other) in correlations.values else (other, first)
        correlation = correlations.values.get(pair, np.full(ids.size, np.nan))
        is_defined = ~np.isnan(correlation)
        is_placed = ~np.isnan(place)
        rows.append(
            Likeness(
                direction=direction,
                one=first,
                other=other,
                correlation=estimate(ids[is_defined], correlation[is_defined], direction),
                n_correlated=int(is_defined.sum()),
                place=estimate(ids[is_placed], place[is_placed], direction),
                n_placed=int(is_placed.sum()),
                n_queries=ids.size,
            )
        )
    return rows
