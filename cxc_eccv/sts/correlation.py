"""Pearson's r with its interval, Spearman's rho, and the cosines they are taken of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy.stats import pearsonr, spearmanr

from cxc_eccv.errors import InvalidOption, MalformedRun
from cxc_eccv.types import FloatArray

__all__ = ["Correlation", "correlate", "cosines", "fisher_interval"]


@dataclass(frozen=True, slots=True)
class Correlation:
    """Agreement of a model with people on n pairs.

    Attributes:
        pearson: Pearson's r.
        low, high: its interval by Fisher's z.
        spearman: Spearman's rho, average ranks for ties.
        pairs: n.
    """

    pearson: float
    low: float
    high: float
    spearman: float
    pairs: int


def fisher_interval(r: float, pairs: int, confidence: float = 0.95) -> tuple[float, float]:
    """Interval of a Pearson correlation: ``tanh(atanh(r) -+ z / sqrt(n - 3))``.

    Args:
        r: the correlation.
        pairs: n, at least 4.
        confidence: of the interval.

    Raises:
        InvalidOption: fewer than four pairs, or a confidence outside (0, 1).

    References:
        Fisher, On the probable error of a coefficient of correlation deduced from a small sample, Metron 1921.

    Example:
        >>> [round(bound, 3) for bound in fisher_interval(0.423, 750)]
        [0.362, 0.48]
    """
    if pairs < 4 or not 0 < confidence < 1:
        raise InvalidOption(f"an interval needs four pairs and a confidence in (0, 1); got {pairs} and {confidence}")
    if abs(r) >= 1:
        return r, r
    half = NormalDist().inv_cdf(0.5 + confidence / 2) / math.sqrt(pairs - 3)
    return math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)


def correlate(predicted: FloatArray, scores: FloatArray, confidence: float = 0.95) -> Correlation:
    """How well predictions agree with human scores.

    Args:
        predicted: (N,) of a model.
        scores: (N,) of people.
        confidence: of the interval.

    Raises:
        MalformedRun: predictions that are not finite, or all equal: they have no correlation.

    Example:
        >>> correlate(np.array([0.1, 0.4, 0.5, 0.9]), np.array([1.0, 2.0, 2.0, 5.0])).pairs
        4
    """
    if not np.isfinite(predicted).all():
        raise MalformedRun("the model gave similarities that are NaN or infinite")
    if np.ptp(predicted) == 0:
        raise MalformedRun(
            f"the model gave all {predicted.size} pairs the same similarity; a correlation needs several"
        )
    r = min(1.0, max(-1.0, float(pearsonr(predicted, scores).statistic)))
    low, high = fisher_interval(r, predicted.size, confidence)
    return Correlation(r, low, high, float(spearmanr(predicted, scores).statistic), predicted.size)


def cosines(left: NDArray[np.float32], right: NDArray[np.float32]) -> FloatArray:
    """(N,) cosine of each pair of rows, none of which is zero.

    Example:
        >>> cosines(np.array([[1, 0], [0, 2]], dtype="f4"), np.array([[1, 1], [1, 0]], dtype="f4")).round(3).tolist()
        [0.707, 0.0]
    """
    a, b = left.astype(np.float64), right.astype(np.float64)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.asarray((a * b).sum(axis=1) / norms)
