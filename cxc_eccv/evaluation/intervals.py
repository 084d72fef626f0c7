"""Intervals of proportions, as if queries were independent."""

from __future__ import annotations

from cxc_eccv.types import FloatArray

__all__ = ["wilson"]


def wilson(values: FloatArray, confidence: float) -> tuple[float, float]:
    """Wilson's score interval of a proportion, without continuity correction, as SciPy computes it.

    It takes queries to be independent, which captions of one image are not: the bootstrap over images is wider there.

    Args:
        values: (Q,) zeros and ones.
        confidence: for example 0.95.

    References:
        Wilson, Probable Inference, the Law of Succession, and Statistical Inference, JASA 1927.

    Example:
        >>> import numpy as np
        >>> tuple(round(bound, 3) for bound in wilson(np.array([1.0, 0.0, 0.0, 1.0]), 0.95))
        (0.15, 0.85)
    """
    from scipy.stats import binomtest  # half a second to import, and seldom asked for

    found = binomtest(round(float(values.sum())), values.size).proportion_ci(confidence, method="wilson")
    return float(found.low), float(found.high)
