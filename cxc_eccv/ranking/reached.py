"""What counting in a block of scores finds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.types import IntArray

__all__ = ["NEAR_PER_PAIR", "Reached"]

NEAR_PER_PAIR = 100


@dataclass(frozen=True, slots=True, eq=False)
class Reached:
    """How many scores reach the thresholds of each pair.

    Attributes:
        low: scores of each segment that are at least the pair's ``low``.
        high: scores of each segment that are above its ``high``.
        pairs, places, scores: (E,) each score from ``low`` to ``high`` of pairs where these differ, with its pair and
            its column or row.
        complete: whether the last three hold all of these; they do not where there are too many.
    """

    low: IntArray
    high: IntArray
    pairs: IntArray
    places: IntArray
    scores: NDArray[np.float32]
    complete: bool
