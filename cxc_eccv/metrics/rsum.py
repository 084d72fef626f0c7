"""RSUM."""

from __future__ import annotations

import numpy as np

from cxc_eccv.errors import MalformedRun
from cxc_eccv.metrics.kinds import MEAN_ROUNDING, WholeMetric
from cxc_eccv.metrics.recall_at_k import SPEC as RECALL
from cxc_eccv.types import FloatArray

RECALLS_PER_TASK = 6


def rsum(recalls: FloatArray) -> FloatArray:
    """Sum of R@1, R@5 and R@10 over both directions of a task (RSUM), in percent; 600 is perfect.

    Args:
        recalls: (..., 6) recalls as fractions in [0, 1], in any order.

    Returns:
        (...) sums in percent.

    Raises:
        MalformedRun: there are not six recalls, or one is not in [0, 1].

    References:
        Chun et al., ECCV Caption, ECCV 2022, which reports it for COCO 1K; other papers also report it for COCO 5K.

    Example:
        >>> float(rsum(np.array([0.5, 0.75, 1.0, 0.25, 0.5, 0.75])))
        375.0
    """
    values = np.asarray(recalls)
    if values.dtype.kind not in "fiu" or not values.ndim or values.shape[-1] != RECALLS_PER_TASK:
        raise MalformedRun(f"rsum: recalls have type {values.dtype} and shape {values.shape}; need six per task")
    if not ((values >= 0) & (values <= 1 + MEAN_ROUNDING)).all():
        raise MalformedRun(f"rsum: recalls range from {values.min()} to {values.max()}; need fractions in [0, 1]")
    return np.asarray(100 * values.sum(axis=-1))


SPEC = WholeMetric(
    rsum,
    "RSUM",
    unit="number",
    citation="Chun et al., ECCV 2022, arXiv:2204.03359",
    bounds=(0.0, 600.0),
    of=RECALL,
)
