"""Mean pairwise accuracy, over the parts of a benchmark."""

from __future__ import annotations

import numpy as np

from cxc_eccv.errors import MalformedRun
from cxc_eccv.metrics.spec import ROUNDING, Spec
from cxc_eccv.types import FloatArray


def mean_pairwise_accuracy(accuracies: FloatArray) -> FloatArray:
    """Mean of the pairwise accuracies of all parts of a benchmark, each part with the same weight.

    Args:
        accuracies: (..., K) pairwise accuracies of K parts, fractions in [0, 1].

    Returns:
        (...) means.

    Raises:
        MalformedRun: there is no part, or an accuracy is not in [0, 1].

    References:
        Hsieh et al., SugarCrepe: Fixing Hackable Benchmarks for Vision-Language Compositionality, NeurIPS 2023, which
        reports the seven accuracies without their mean.

    Example:
        >>> float(mean_pairwise_accuracy(np.array([0.5, 0.75, 1.0])))
        0.75
    """
    values = np.asarray(accuracies)
    if values.dtype.kind not in "fiu" or not values.ndim or not values.shape[-1]:
        raise MalformedRun(f"accuracies have type {values.dtype} and shape {values.shape}; need one number per part")
    if not ((values >= 0) & (values <= 1 + ROUNDING)).all():
        raise MalformedRun(f"accuracies range from {values.min()} to {values.max()}; need fractions in [0, 1]")
    return np.asarray(values.mean(axis=-1))


SPEC = Spec(
    function=mean_pairwise_accuracy,
    title="mean accuracy",
    long_title="Mean pairwise accuracy",
    needs="scores",
    citation="Hsieh et al., NeurIPS 2023, arXiv:2306.14610",
    inputs=("pairwise_accuracy",),
)
