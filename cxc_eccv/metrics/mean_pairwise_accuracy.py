"""Mean pairwise accuracy, over the parts of a benchmark."""

from __future__ import annotations

import numpy as np

from cxc_eccv.errors import MalformedRun
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.types import FloatArray


def mean_pairwise_accuracy(accuracies: FloatArray) -> FloatArray:
    """Mean of the pairwise accuracies of all parts, each part counting the same whatever its number of items.

    Args:
        accuracies: (..., K) pairwise accuracies of K parts, fractions in [0, 1].

    Returns:
        (...) means.

    Raises:
        MalformedRun: no part, or an accuracy that is no fraction in [0, 1].

    References:
        Hsieh et al., SugarCrepe: Fixing Hackable Benchmarks for Vision-Language Compositionality, NeurIPS 2023, which
        prints the seven accuracies, and no mean of them.

    Example:
        >>> float(mean_pairwise_accuracy(np.array([0.5, 0.75, 1.0])))
        0.75
    """
    given = np.asarray(accuracies)
    if given.dtype.kind not in "fiu" or not given.ndim or not given.shape[-1]:
        raise MalformedRun(f"mean of accuracies that are {given.dtype} of shape {given.shape}: need one of each part")
    if not ((given >= 0) & (given <= 1 + ROUNDING)).all():
        raise MalformedRun(f"mean of accuracies from {given.min()} to {given.max()}: need fractions in [0, 1]")
    return np.asarray(given.mean(axis=-1))


ROUNDING = 1e-9
"""A mean of ones may come out this much above 1."""

SPEC = Spec(
    function=mean_pairwise_accuracy,
    title="mean accuracy",
    long_title="Mean pairwise accuracy",
    needs="scores",
    citation="Hsieh et al., NeurIPS 2023, arXiv:2306.14610",
    inputs=("pairwise_accuracy",),
)
