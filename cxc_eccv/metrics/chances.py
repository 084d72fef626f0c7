"""Probabilities for expected values of metrics: of independent events, and of a random order of a gallery."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from cxc_eccv.types import FloatArray, IntArray


def add_event(chances: FloatArray, probability: FloatArray) -> FloatArray:
    """(..., N) chances of 0 to N - 1 events after adding one event of (...) probability."""
    happens = chances * probability[..., None]
    after = chances - happens
    after[..., 1:] += happens[..., :-1]
    return after


def count_chances(probabilities: FloatArray) -> FloatArray:
    """(..., M + 1) chances that 0 to M of (..., M) independent events happen (Poisson binomial distribution)."""
    chances = np.zeros((*probabilities.shape[:-1], probabilities.shape[-1] + 1))
    chances[..., 0] = 1
    for place in range(probabilities.shape[-1]):
        chances = add_event(chances, probabilities[..., place])
    return chances


@dataclass(frozen=True, slots=True, eq=False)
class RandomOrder:
    """Queries that rank their galleries in a random order: U kinds of queries of equal sizes.

    Attributes:
        n_gallery: (U,) number of items that a query ranks, N.
        n_positives: (U,) number of positives, those outside the gallery included, R.
        n_reachable: (U,) number of positives in the gallery.
        n_queries: (U,) number of queries of this kind.

    Example:
        >>> order = RandomOrder.of(np.array([10, 10, 5]), np.array([2, 2, 1]), np.array([2, 2, 1]))
        >>> order.n_gallery.tolist(), order.n_queries.tolist()
        ([5, 10], [1, 2])
    """

    n_gallery: IntArray
    n_positives: IntArray
    n_reachable: IntArray
    n_queries: IntArray

    @classmethod
    def of(cls, n_gallery: IntArray, n_positives: IntArray, n_reachable: IntArray) -> Self:
        """From (Q,) sizes of every query."""
        base = int(n_positives.max()) + 1
        codes = (n_gallery * base + n_positives) * base + n_reachable
        first, counts = np.unique(codes, return_index=True, return_counts=True)[1:]
        return cls(n_gallery[first], n_positives[first], n_reachable[first], counts)

    def average(self, values: FloatArray) -> float:
        """The mean over queries of (U,) values of their kinds."""
        return float(np.average(values, weights=self.n_queries))


def expect_recall(n_gallery: IntArray, n_reachable: IntArray, k: int) -> FloatArray:
    """(U,) chance that one of R positives is in the top K of N items in random order: 1 - C(N - R, K) / C(N, K).

    Example:
        >>> expect_recall(np.array([4, 4]), np.array([1, 2]), 2).round(3).tolist()
        [0.5, 0.833]
    """
    top = np.minimum(k, n_gallery)
    missed = np.ones(n_gallery.shape)
    for place in range(int(n_reachable.max(initial=0))):
        left = np.maximum(n_gallery - top - place, 0) / np.maximum(n_gallery - place, 1)
        missed *= np.where(place < n_reachable, left, 1.0)
    return 1 - missed
