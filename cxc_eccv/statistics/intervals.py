"""Intervals: of bootstrap samples, of a proportion, of a correlation."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from cxc_eccv.errors import InvalidOption
from cxc_eccv.types import FloatArray

__all__ = ["fisher_interval", "interval", "wilson"]


def interval(samples: FloatArray, confidence: float) -> tuple[float, float]:
    """Percentile interval of bootstrap samples."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(samples, [tail, 1 - tail])
    return float(low), float(high)


def wilson(values: FloatArray, confidence: float, trials: int | None = None) -> tuple[float, float]:
    """Wilson's score interval of a proportion, without continuity correction, as SciPy computes it.

    It takes trials to be independent, which captions of one image are not: the bootstrap over images is wider there.

    References:
        Wilson, Probable Inference, the Law of Succession, and Statistical Inference, JASA 1927.
    """
    from scipy.special import ndtri  # a third of all imports, for this one number

    n, share, z = trials or values.size, float(values.mean()), float(ndtri(0.5 + 0.5 * confidence))
    divisor = 2 * (n + z**2)
    centre = (2 * n * share + z**2) / divisor
    half = z / divisor * math.sqrt(4 * n * share * (1 - share) + z**2)
    return 0.0 if share == 0 else centre - half, 1.0 if share == 1 else centre + half


def fisher_interval(r: float, pairs: int, confidence: float = 0.95) -> tuple[float, float]:
    """Interval of a Pearson correlation over n pairs: ``tanh(atanh(r) -+ z / sqrt(n - 3))``.

    References:
        Fisher, On the probable error of a coefficient of correlation deduced from a small sample, Metron 1921.
    """
    if pairs < 4 or not 0 < confidence < 1:
        raise InvalidOption(f"an interval needs four pairs and a confidence in (0, 1); got {pairs} and {confidence}")
    if abs(r) >= 1:
        return r, r
    half = NormalDist().inv_cdf(0.5 + confidence / 2) / math.sqrt(pairs - 3)
    return math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)
