"""The rules of other libraries stated again: their orders of equal scores, and their formulas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from conformance.kit import Part
from cxc_eccv.types import FloatArray, IntArray, PositiveRanks

Order = Callable[[Part, int], PositiveRanks]
"""Ranks of a part's positives in a library's order; the number is the depth to which the library looks."""

Formula = Callable[[PositiveRanks, int], FloatArray]
"""(Q,) values of a library's metric with a cut-off K."""


def earlier_first(part: Part, _k: int = 0) -> PositiveRanks:
    """Of equal scores, the item that comes first in the gallery stands first; ids ascend with it."""
    places = np.arange(len(part.gallery))
    return _rank(part, lambda _positives: places)


def later_first(part: Part, _k: int = 0) -> PositiveRanks:
    """Of equal scores, the item that comes last in the gallery stands first."""
    places = np.arange(len(part.gallery))[::-1]
    return _rank(part, lambda _positives: places)


def positives_first(part: Part, _k: int = 0) -> PositiveRanks:
    """Of equal scores, positives stand first, as in code that counts the items with a higher score."""
    size = len(part.gallery)
    return _rank(part, lambda positives: np.arange(size) - size * np.isin(np.arange(size), positives))


def _rank(part: Part, places_of: Callable[[IntArray], IntArray]) -> PositiveRanks:
    """Ranks of all positives, where items of equal score stand in the order of their (N,) places."""
    ranks = []
    for scores, positives in zip(part.scores, part.positives, strict=True):
        places = places_of(positives)
        for position in positives:
            tied = np.flatnonzero(scores == scores[position])
            higher = np.count_nonzero(scores > scores[position])
            ranks.append(1 + higher + np.count_nonzero(places[tied] < places[position]))
    return _positive_ranks(part, np.array(ranks), np.diff(part.judgments.indptr))


def in_order(part: Part, best_first: Callable[[Part, int], Iterable[IntArray]], k: int) -> PositiveRanks:
    """Ranks in the order of (Q, any depth) positions, best first; positives that are not among these have none."""
    ranks = []
    counts = []
    for order, positives in zip(best_first(part, k), part.positives, strict=True):
        places = np.flatnonzero(np.isin(order, positives)) + 1
        ranks.append(places)
        counts.append(places.size)
    return _positive_ranks(part, np.concatenate(ranks), np.array(counts))


def top_k_order(part: Part, k: int) -> PositiveRanks:
    """Ranks in the top K of ``torch.topk``, which chooses among equal scores by its algorithm."""
    return in_order(part, _top_k, k)


def _top_k(part: Part, k: int) -> Iterator[IntArray]:
    import torch

    for scores in part.scores:
        yield torch.from_numpy(scores.astype(np.float32)).topk(k).indices.numpy()


def argsort_order(part: Part, k: int) -> PositiveRanks:
    """Ranks in the order of ``torch.argsort``, which is not stable by default: its order depends on the processor."""
    return in_order(part, _argsort, k)


def _argsort(part: Part, _k: int) -> Iterator[IntArray]:
    import torch

    for scores in part.scores:
        yield torch.from_numpy(scores.astype(np.float32)).argsort(descending=True).numpy()


def numba_order(part: Part, k: int) -> PositiveRanks:
    """Ranks in the order of Numba's argsort of the negative scores, which is not stable."""
    return in_order(part, _numba_argsort, k)


def _numba_argsort(part: Part, _k: int) -> Iterator[IntArray]:
    from numba import njit

    argsort = njit(lambda values: np.argsort(values))
    for scores, top in zip(part.scores, part.top_items, strict=True):
        yield top[argsort(-scores[top].astype(np.float64))]


def _positive_ranks(part: Part, ranks: IntArray, counts: IntArray) -> PositiveRanks:
    """Ranks of the positives of every query, ascending."""
    queries = np.repeat(np.arange(counts.size), counts)
    sizes = np.full(counts.size, len(part.gallery))
    ids = part.judgments.query_ids
    n_positives = part.judgments.n_positives
    indptr = np.append(0, np.cumsum(counts))
    ordered = ranks[np.lexsort((ranks, queries))].astype(np.int64)
    return PositiveRanks(ids, indptr, ordered, n_positives, sizes, np.zeros(counts.size, dtype=np.int64))


def recall(ranks: PositiveRanks, k: int) -> FloatArray:
    """The share of a query's positives that are in the top K."""
    return _sum(ranks, ranks.ranks <= k) / ranks.n_positives


def average_precision(ranks: PositiveRanks, k: int) -> FloatArray:
    """Precision at the rank of every positive in the top K, summed and divided by R."""
    return _sum(ranks, _precision(ranks) * (ranks.ranks <= k)) / ranks.n_positives


def average_precision_of_k(ranks: PositiveRanks, k: int) -> FloatArray:
    """The same sum, divided by R or K, whichever is smaller."""
    return _sum(ranks, _precision(ranks) * (ranks.ranks <= k)) / np.minimum(ranks.n_positives, k)


def average_precision_of_found(ranks: PositiveRanks, k: int) -> FloatArray:
    """The same sum, divided by the number of positives in the top K."""
    return _sum(ranks, _precision(ranks) * (ranks.ranks <= k)) / np.maximum(1, _sum(ranks, ranks.ranks <= k))


def ndcg(ranks: PositiveRanks, k: int) -> FloatArray:
    """DCG of binary labels over that of the ideal ranking."""
    ideal = np.cumsum(1 / np.log2(np.arange(2, k + 2)))
    gains = (ranks.ranks <= k) / np.log2(ranks.ranks + 1)
    return np.asarray(_sum(ranks, gains) / ideal[np.minimum(ranks.n_positives, k) - 1])


def _precision(ranks: PositiveRanks) -> FloatArray:
    starts = np.repeat(ranks.indptr[:-1], np.diff(ranks.indptr))
    return np.asarray((np.arange(ranks.ranks.size) - starts + 1) / ranks.ranks)


def _sum(ranks: PositiveRanks, values: NDArray[np.generic]) -> FloatArray:
    """(Q,) sums over the positives of each query."""
    queries = np.repeat(np.arange(ranks.query_ids.size), np.diff(ranks.indptr))
    return np.asarray(np.bincount(queries, weights=values, minlength=ranks.query_ids.size), dtype=np.float64)
