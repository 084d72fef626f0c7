"""The tie rule on ranked lists that come with scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.types import FloatArray, IntArray

__all__ = ["positives_last"]


def positives_last(
    queries: IntArray, scores: FloatArray, positive: NDArray[np.bool_], n_queries: int
) -> tuple[IntArray, IntArray]:
    """Order that puts positives behind the items they tie with, and the number of such items.

    Args:
        queries: (P,) query of each item, 0 to ``n_queries - 1``, ascending.
        scores: (P,) not rising within a query.
        positive: (P,) whether the item is a positive of its query.
        n_queries: Q.

    Returns:
        (P,) positions in the new order, and (Q,) items other than positives whose score equals that of a positive.

    Example:
        >>> scores, positive = np.array([0.9, 0.5, 0.5, 0.1]), np.array([False, True, False, True])
        >>> order, ties = positives_last(np.zeros(4, dtype=int), scores, positive, 1)
        >>> order.tolist(), ties.tolist()
        ([0, 2, 1, 3], [1])
    """
    if not queries.size:
        return np.empty(0, dtype=np.int64), np.zeros(n_queries, dtype=np.int64)
    new = np.append(True, (queries[1:] != queries[:-1]) | (scores[1:] != scores[:-1]))
    group = np.cumsum(new) - 1
    reached = np.logical_or.reduceat(positive, np.flatnonzero(new))
    ties = np.bincount(queries[reached[group] & ~positive], minlength=n_queries)
    return np.lexsort((positive, group)), ties
