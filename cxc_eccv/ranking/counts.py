"""Counting, not sorting: how many items of each segment score at least, and above, a positive's score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.types import IntArray

__all__ = ["Counts", "ScoresTooAlike"]


class ScoresTooAlike(Exception):
    """So many scores are alike that a short cut does not pay or does not settle them: count row by row instead."""


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Scores of positive pairs and how many gallery items reach them.

    Attributes:
        scores: (P,) float32 score of each pair.
        at_least: (P, S) items of each segment that score as high or higher, the positive itself included.
        above: (P, S) items of each segment that score higher.
    """

    scores: NDArray[np.float32]
    at_least: IntArray
    above: IntArray

    @classmethod
    def zeros(cls, n_pairs: int, n_segments: int) -> Counts:
        """Zero counts, to be filled.

        Example:
            >>> Counts.zeros(3, 2).at_least.shape
            (3, 2)
        """
        shape = n_pairs, n_segments
        return cls(np.zeros(n_pairs, np.float32), np.zeros(shape, np.int64), np.zeros(shape, np.int64))

    def take(self, pairs: IntArray) -> Counts:
        """The counts of some pairs, in their order."""
        return Counts(self.scores[pairs], self.at_least[pairs], self.above[pairs])
