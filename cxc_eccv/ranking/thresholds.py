"""The score at a given depth of a ranking, by selection instead of sorting."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.types import IntArray

__all__ = ["scores_at_depths"]


def scores_at_depths(scores: NDArray[Any], depths: IntArray) -> NDArray[Any]:
    """The score that the item at each depth has: so many items of the row score at least as high.

    Each row is partitioned at its largest depth, what is above again at the next, and so on.

    Args:
        scores: (B, N), left as they are.
        depths: (B, L) depths, 1 to N.

    Returns:
        (B, L) scores.

    Example:
        >>> scores_at_depths(np.array([[0.5, 0.1, 0.9, 0.7]]), np.array([[1, 3]])).tolist()
        [[0.9, 0.5]]
    """
    found = np.empty(depths.shape, dtype=scores.dtype)
    if np.all(depths == depths[0, 0]):
        place = scores.shape[1] - int(depths[0, 0])
        found[:] = np.partition(scores, place, axis=1)[:, place, None]
        return found
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
