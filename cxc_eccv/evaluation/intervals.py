"""Intervals of proportions, as if queries were independent."""

from __future__ import annotations

import math

from scipy.special import ndtri

from cxc_eccv.types import FloatArray

__all__ = ["wilson"]


def wilson(values: FloatArray, confidence: float, trials: int | None = None) -> tuple[float, float]:
    """Wilson's score interval of a proportion, without continuity correction, as SciPy computes it.

    It takes trials to be independent, which captions of one image are not: the bootstrap over images is wider there.

    Args:
        values: (Q,) zeros and ones.
        confidence: for example 0.95.
        trials: number that the proportion is of; None for Q. The number of images gives an interval for captions that
            counts the captions of an image as one.

    References:
        Wilson, Probable Inference, the Law of Succession, and Statistical Inference, JASA 1927.

    Example:
        >>> import numpy as np
        >>> found = np.array([1.0, 0.0, 0.0, 1.0])
        >>> tuple(round(bound, 3) for bound in wilson(found, 0.95))
        (0.15, 0.85)
        >>> tuple(round(bound, 3) for bound in wilson(found, 0.95, trials=2))
        (0.095, 0.905)
    """
    n, share, z = trials or values.size, float(values.mean()), float(ndtri(0.5 + 0.5 * confidence))
    divisor = 2 * (n + z**2)
    centre = (2 * n * share + z**2) / divisor
    half = z / divisor * math.sqrt(4 * n * share * (1 - share) + z**2)
    return 0.0 if share == 0 else centre - half, 1.0 if share == 1 else centre + half
