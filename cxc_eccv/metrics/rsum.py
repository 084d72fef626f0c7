"""RSUM."""

from __future__ import annotations

import numpy as np

from cxc_eccv.errors import MalformedRun
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.types import FloatArray

RECALLS = 6
ROUNDING = 1e-9
"""A mean of ones may come out this much above 1."""


def rsum(recalls: FloatArray) -> FloatArray:
    """RSUM: the sum of R@1, R@5 and R@10 of both directions of one task, in percent; 600 is perfect.

    Args:
        recalls: (..., 6) recalls as fractions in [0, 1], in any order.

    Returns:
        (...) sums in percent.

    Raises:
        MalformedRun: other than six recalls, or one that is no fraction in [0, 1].

    References:
        Chun et al., ECCV Caption, ECCV 2022, which reports it for COCO 1K; others report it for COCO 5K as well.

    Example:
        >>> float(rsum(np.array([0.5, 0.75, 1.0, 0.25, 0.5, 0.75])))
        375.0
    """
    given = np.asarray(recalls)
    if given.dtype.kind not in "fiu" or not given.ndim or given.shape[-1] != RECALLS:
        raise MalformedRun(f"rsum of {given.dtype} of shape {given.shape}: need six recalls, three of each direction")
    if not ((given >= 0) & (given <= 1 + ROUNDING)).all():
        raise MalformedRun(f"rsum of recalls from {given.min()} to {given.max()}: need fractions in [0, 1]")
    return np.asarray(100 * given.sum(axis=-1))


SPEC = Spec(
    function=rsum,
    title="RSUM",
    unit="number",
    needs="scores",
    citation="Chun et al., ECCV 2022, arXiv:2204.03359",
    bounds=(0.0, 600.0),
    aggregate="sum",
    inputs=("recall_at_1", "recall_at_5", "recall_at_10"),
)
