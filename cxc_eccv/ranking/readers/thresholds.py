"""The score at a given depth of a ranking, by selection instead of sorting."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.types import IntArray

__all__ = ["GROUPS_PER_DEPTH", "best_candidates", "score_at_depth"]

GROUPS_PER_DEPTH = 4
FEWEST_PER_GROUP = 8


def score_at_depth(scores: NDArray[Any], depth: int) -> NDArray[Any]:
    """(B,) the score of the item at one depth in every row of (B, N) scores.

    Example:
        >>> score_at_depth(np.array([[0.5, 0.1, 0.9, 0.7]]), 3).tolist()
        [0.5]
    """
    place = scores.shape[1] - depth
    return np.asarray(np.partition(scores, place, axis=1)[:, place])


def best_candidates(scores: NDArray[Any], depth: int) -> tuple[NDArray[Any], IntArray]:
    """Few scores of each row, among which are the best ``depth`` and whatever ties with the last of these.

    The best of many groups of columns are found quickly. So many of them reach the ``depth``-th best of these that
    nothing below it can be among the best ``depth`` of the row.

    Args:
        scores: (B, N).
        depth: at least 1.

    Returns:
        (B, C) scores, filled up with minus infinity, and (B, C) their columns, filled up with -1.

    Example:
        >>> values, columns = best_candidates(np.array([[0.5, 0.1, 0.9, 0.7]]), 3)
        >>> values.tolist(), columns.tolist()
        ([[0.5, 0.1, 0.9, 0.7]], [[0, 1, 2, 3]])
    """
    n_groups = GROUPS_PER_DEPTH * depth
    size = scores.shape[1] // n_groups
    if size < FEWEST_PER_GROUP:
        return scores, np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
    best = scores[:, : n_groups * size].reshape(len(scores), size, n_groups).max(axis=1)
    bound = np.partition(best, n_groups - depth, axis=1)[:, n_groups - depth, None]
    rows, columns = np.divmod(np.flatnonzero(scores >= bound), scores.shape[1])
    counts = np.bincount(rows, minlength=len(scores))
    within = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = len(scores), counts.max()
    values, places = np.full(shape, -np.inf, dtype=scores.dtype), np.full(shape, -1)
    values[rows, within], places[rows, within] = scores[rows, columns], columns
    return values, places
