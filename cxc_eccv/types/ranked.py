"""Rankings: the best items per query, and the ranks of all positives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cxc_eccv.types.ids import FloatArray, IntArray, frozen_ints

__all__ = ["PositiveRanks", "TopK"]


@dataclass(frozen=True, slots=True, eq=False)
class TopK:
    """The best items per query. A run cut short knows its depth.

    Attributes:
        query_ids: (Q,) int64.
        ids: (Q, depth) gallery ids, best first; of equal scores the lower gain first.
        scores: (Q, depth) float64, or None when only the order is known.
        cut: (Q,) items beyond the depth that score as high as the last one, or None when unknown.

    Example:
        >>> TopK(np.array([5]), np.array([[30, 10]])).depth
        2
    """

    query_ids: IntArray
    ids: IntArray
    scores: FloatArray | None = None
    cut: IntArray | None = None

    @property
    def depth(self) -> int:
        """Items known per query."""
        return int(self.ids.shape[1])


@dataclass(frozen=True, slots=True, eq=False)
class PositiveRanks:
    """Ranks of all positives of every query under the pessimistic tie rule.

    Attributes:
        query_ids: (Q,) int64.
        indptr: (Q + 1,) row boundaries of ``ranks``.
        ranks: (P,) 1-based ranks, ascending within a query.
        n_positives: (Q,) R, unreachable positives included.
        n_gallery: (Q,) gallery size each query was ranked against.
        ties: (Q,) gallery items other than positives whose score equals that of a positive.
    """

    query_ids: IntArray
    indptr: IntArray
    ranks: IntArray
    n_positives: IntArray
    n_gallery: IntArray
    ties: IntArray

    @classmethod
    def of(cls, ranks: Sequence[Sequence[int]], n_positives: ArrayLike = (), n_gallery: int = 100) -> PositiveRanks:
        """Ranks written by hand, one ascending list per query; R is the list's length unless given.

        Example:
            >>> PositiveRanks.of([[2, 9], [1]]).best.tolist()
            [2, 1]
        """
        sizes, given = np.array([len(row) for row in ranks], dtype=np.int64), frozen_ints(n_positives)
        flat = np.array([rank for row in ranks for rank in row], dtype=np.int64)
        queries, gallery = np.arange(sizes.size), np.full(sizes.size, n_gallery)
        counts = given if given.size else sizes
        return cls(queries, np.append(0, np.cumsum(sizes)), flat, counts, gallery, np.zeros_like(sizes))

    @property
    def best(self) -> IntArray:
        """(Q,) rank of the best positive; gallery size + 1 where every positive is unreachable."""
        worst = self.n_gallery + 1
        has_any = np.diff(self.indptr) > 0
        worst[has_any] = self.ranks[self.indptr[:-1][has_any]]
        return worst
