"""The four numbers of many failures: plain, of what the query mentions, and against the best other candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.types import FloatArray
from cxc_eccv.types.seen import ConceptPairs, Similarity

__all__ = ["keep_mentioned", "measure_failures", "subtract_best"]

Measured = Mapping[str, FloatArray]
"""Name of a metric to the values of F failures, NaN where it is not defined."""


def measure_failures(pairs: ConceptPairs, similarity: Similarity, *, counted: bool = True) -> dict[str, FloatArray]:
    """Name to (F,) values of all metrics that explain failures; without those of instances where none were counted."""
    raise NotImplementedError


def keep_mentioned(pairs: ConceptPairs, mentions: Sequence[AbstractSet[str]]) -> tuple[ConceptPairs, NDArray[np.bool_]]:
    """The failures whose query mentions a concept of the ground truth, cut to what it mentions; and (F,) which."""
    raise NotImplementedError


def subtract_best(retrieved: Measured, others: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """(F,) values of the retrieved images minus the best of (F, K) values of other candidates, per metric."""
    raise NotImplementedError
