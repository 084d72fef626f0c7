"""Fusion: several runs of one gallery into one ranking per query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import InvalidOption, MissingIds, UnknownName
from cxc_eccv.ranking.rank import top_k
from cxc_eccv.runs import RankingsRun, Run
from cxc_eccv.runs.rankings import RankedLists
from cxc_eccv.types import DIRECTIONS, FloatArray, IntArray, Judgments, check_whole, sides_of

METHODS = ("rrf", "sum")
DEPTH = 200
RRF_K = 60
"""The constant of reciprocal rank fusion in its paper."""

QUERIES_AT_ONCE = 1_000


def fuse(
    runs: Sequence[Run],
    method: str = "rrf",
    *,
    weights: Sequence[float] | None = None,
    depth: int = DEPTH,
) -> RankingsRun:
    r"""Fuse the rankings of several runs, in every direction that all of them rank.

    The score of an item is, over the runs i whose list of the query holds it,

    .. math:: \text{rrf}: \sum_i \frac{1}{60 + r_i}, \qquad
        \text{sum}: \sum_i w_i \frac{s_i - \min s}{\max s - \min s},

    with its rank :math:`r_i`, or its score :math:`s_i` between the least and the largest score of that list. Items of
    equal score in one list share the worst of their ranks. A list of equal scores adds nothing to a sum.

    Args:
        runs: two or more runs of the same queries. Of embeddings and scores the best items are taken, by the similarity
            that the run states, else cosine; rankings are taken as deep as they are.
        method: ``rrf`` for reciprocal rank fusion, ``sum`` for the weighted sum of normalized scores.
        weights: a positive weight for each run; None for 1 each. Only for ``sum``.
        depth: number of items that each query takes from embeddings or scores.

    Returns:
        Rankings with fused scores. A list holds every item of any input list of its query.

    Raises:
        InvalidOption: fewer than two runs, no direction in common, wrong weights, or a sum of rankings without scores.
        MissingIds: a run lacks queries of another.

    References:
        Cormack, Clarke and Buettcher, Reciprocal Rank Fusion Outperforms Condorcet and Individual Rank Learning
        Methods, SIGIR 2009. Fox and Shaw, Combination of Multiple Searches, TREC-2, 1994.

    Example:
        >>> runs = [RankingsRun.from_dicts({5: [30, 10, 20]}), RankingsRun.from_dicts({5: [10, 20]})]
        >>> fuse(runs).lists["i2t"].items.tolist()
        [10, 20, 30]
    """
    if len(runs) < 2:
        raise InvalidOption(f"fusion needs two or more runs, got {len(runs)}")
    if method not in METHODS:
        raise UnknownName("method of fusion", method, METHODS)
    check_whole("depth", depth)
    factors = _check_weights(weights, method, len(runs))
    directions = [name for name in DIRECTIONS if all(run.why_not(name) is None for run in runs)]
    if not directions:
        raise InvalidOption("the runs have no direction in common, so there is nothing to fuse")
    fused = {}
    for direction in directions:
        lists = [best_items(run, direction, depth) for run in runs]
        fused[direction] = _fuse_lists(lists, method, factors)
    names = [run.model or (run.path.name if run.path else f"run {place}") for place, run in enumerate(runs, 1)]
    return RankingsRun(fused, f"{method} of {', '.join(names)}")


def _check_weights(weights: Sequence[float] | None, method: str, count: int) -> FloatArray:
    if weights is None:
        return np.ones(count)
    factors = np.asarray(weights, dtype=np.float64)
    if method != "sum":
        raise InvalidOption(f"weights are for the method sum; {method} has none")
    if factors.shape != (count,) or not (np.isfinite(factors) & (factors > 0)).all():
        raise InvalidOption(f"{count} runs need {count} positive weights, not {', '.join(map(str, weights))}")
    return factors


def best_items(run: Run, direction: str, depth: int) -> RankedLists:
    """The lists of rankings, or the best items of every query of another run."""
    if isinstance(run, RankingsRun):
        return run.lists[direction]
    queries, gallery = (run.ids(side) for side in sides_of(direction))
    nothing = np.empty(0, dtype=np.int64)
    asked = Judgments(
        queries,
        gallery,
        np.zeros(queries.size + 1, dtype=np.int64),
        nothing,
        np.ones(queries.size, dtype=np.int64),  # nothing in the gallery is positive, so ties are broken by id
        without_self=len({*sides_of(direction)}) == 1,
    )
    best = top_k(run, asked, direction, depth)
    bounds = np.arange(queries.size + 1) * best.depth
    scores = None if best.scores is None else best.scores.ravel()
    return RankedLists(best.query_ids, bounds, best.ids.ravel(), scores, run.path, place=str(run.path or "run"))


def _fuse_lists(lists: Sequence[RankedLists], method: str, weights: FloatArray) -> RankedLists:
    queries = np.sort(lists[0].query_ids)
    for ranked in lists[1:]:
        apart = np.setxor1d(queries, ranked.query_ids)
        if apart.size:
            raise MissingIds(
                f"{lists[0].place} and {ranked.place} do not rank the same queries: {apart.size:,} are in only one of "
                f"them, the first: {apart[0]}. Rank the same queries with all models."
            )
    if method == "sum" and (bare := [ranked.place for ranked in lists if ranked.scores is None]):
        raise InvalidOption(f"{bare[0]}: has ranks but no scores, which a sum needs; use the method rrf")
    orders = [np.argsort(ranked.query_ids) for ranked in lists]
    parts = []
    for start in range(0, queries.size, QUERIES_AT_ONCE):
        blocks = [
            _terms(ranked, order[start : start + QUERIES_AT_ONCE], method, weight)
            for ranked, order, weight in zip(lists, orders, weights, strict=True)
        ]
        parts.append(_add_terms(blocks, min(QUERIES_AT_ONCE, queries.size - start)))
    lengths, items, scores = (np.concatenate(column) for column in zip(*parts, strict=True))
    return RankedLists(queries, np.append(0, np.cumsum(lengths)), items, scores, place="fused rankings")


Terms = tuple[IntArray, NDArray[np.integer], FloatArray]
"""Query of the block, item, and what the list adds to its score, all (E,)."""


def _terms(lists: RankedLists, queries: IntArray, method: str, weight: float) -> Terms:
    lengths = lists.depths[queries]
    starts = np.append(0, np.cumsum(lengths))[:-1]
    rows = np.repeat(np.arange(queries.size), lengths)
    places = np.arange(rows.size) - starts[rows]
    entries = lists.indptr[queries][rows] + places
    scores = None if lists.scores is None else lists.scores[entries]
    if method == "sum" and scores is not None:
        largest, least = scores[starts], scores[starts + lengths - 1]
        spread = largest - least
        values = weight * (scores - least[rows]) / np.where(spread > 0, spread, 1)[rows]
    else:
        values = 1 / (RRF_K + _worst_ranks(rows, places, scores))
    return rows, lists.items[entries], values


def _worst_ranks(rows: IntArray, places: IntArray, scores: FloatArray | None) -> IntArray:
    """Ranks from 1; neighbours of equal score share the last of theirs."""
    if scores is None:
        return places + 1
    last = np.append((np.diff(rows) > 0) | (np.diff(scores) < 0), True)
    ends = np.flatnonzero(last)
    return np.asarray(places[ends[np.searchsorted(ends, np.arange(rows.size))]] + 1)


def _add_terms(blocks: Iterable[Terms], n_queries: int) -> tuple[IntArray, NDArray[np.integer], FloatArray]:
    """Lengths, items and scores of the fused lists, best first; items of equal score are in the order of their ids."""
    rows, items, values = (np.concatenate(column) for column in zip(*blocks, strict=True))
    order = np.lexsort((values, items, rows))  # equal terms are added in one order, so that equal sums are equal
    rows, items, values = rows[order], items[order], values[order]
    first = np.flatnonzero(np.append(True, (np.diff(rows) > 0) | (np.diff(items) > 0)))
    sums, rows, items = np.add.reduceat(values, first), rows[first], items[first]
    order = np.lexsort((items, -sums, rows))
    return np.bincount(rows, minlength=n_queries), items[order], sums[order]
