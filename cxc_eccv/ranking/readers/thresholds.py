"""The score at a given depth of a ranking, by selection instead of sorting."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.types import IntArray

__all__ = ["GROUPS_PER_DEPTH", "best_candidates", "score_at_depth", "scores_at_depths"]

GROUPS_PER_DEPTH = 4
FEWEST_PER_GROUP = 8
SHORT = 1024


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


def scores_at_depths(scores: NDArray[Any], depths: IntArray) -> NDArray[Any]:
    """The score that the item at each depth has: so many items of the row score at least as high.

    Short rows are sorted. A long one is partitioned at its largest depth, what is above again at the next, and so on.

    Args:
        scores: (B, N), left as they are.
        depths: (B, L) depths, 1 to N.

    Returns:
        (B, L) scores.

    Example:
        >>> scores_at_depths(np.array([[0.5, 0.1, 0.9, 0.7]]), np.array([[1, 3]])).tolist()
        [[0.9, 0.5]]
    """
    if scores.shape[1] <= SHORT:
        return np.take_along_axis(np.sort(scores, axis=1), scores.shape[1] - depths, axis=1)
    found = np.empty(depths.shape, dtype=scores.dtype)
    order = np.argsort(-depths, axis=1)
    rest = scores.copy()
    for row, (top, places, wanted) in enumerate(zip(rest, order.tolist(), depths.tolist(), strict=True)):
        above = top
        for place in places:
            if wanted[place] < above.size or above is top:
                above.partition(above.size - wanted[place])
                above = above[above.size - wanted[place] :]
            found[row, place] = above[0]
    return found
