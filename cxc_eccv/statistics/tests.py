"""Tests of differences between bootstrap samples: p-values, and their correction for many tests."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cxc_eccv.types import FloatArray

__all__ = ["FEWEST_SAMPLES", "enough_samples", "holm", "least_p_value", "two_sided_p_value"]

FEWEST_SAMPLES = 10_000

ROOM = 5
"""How many times smaller than the level the smallest corrected p-value is, so that a clear difference shows as one."""


def two_sided_p_value(differences: FloatArray) -> float:
    """Achieved significance level of "no difference", two-sided.

    p = min(1, 2 (1 + min(#{d <= 0}, #{d >= 0})) / (S + 1)) over the S resampled differences d: the smallest level at
    which the percentile interval leaves zero out. So a p-value under 0.05 and a 95% interval without zero say the
    same, which a test that first shifts the samples to a mean of zero does not promise. A difference of exactly zero
    counts for both sides, which keeps medians, with their few possible values, on the safe side. The 1 counts the
    observed sample, so that p is never 0.

    References:
        Efron and Tibshirani, An Introduction to the Bootstrap, 1993, section 15.4; Davison and Hinkley, Bootstrap
        Methods and their Application, 1997, equation 4.11 (the 1).
    """
    fewer = min(np.count_nonzero(differences <= 0), np.count_nonzero(differences >= 0))
    return min(1.0, 2 * (1 + int(fewer)) / (differences.size + 1))


def least_p_value(samples: int) -> float:
    """The smallest p-value that so many samples can give."""
    return 2 / (samples + 1)


def enough_samples(tests: int, level: float) -> int:
    """Samples whose smallest p-value, corrected for all tests, is well under the level: by default a round 10,000."""
    return max(FEWEST_SAMPLES, 1_000 * math.ceil(round(2 * ROOM * tests / level, 6) / 1_000))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction, which keeps the chance of any false finding among all tests at the level.

    The i-th smallest of m p-values becomes max over j <= i of min(1, (m - j + 1) p_j). It holds whatever the
    dependence between the tests, and metrics of one model depend on each other heavily.

    References:
        Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 1979.
    """
    values = np.asarray(p_values, dtype=float)
    order = np.argsort(values, kind="stable")
    stepped = np.minimum(1.0, values[order] * np.arange(values.size, 0, -1))
    adjusted = np.empty_like(values)
    adjusted[order] = np.maximum.accumulate(stepped)
    return [float(value) for value in adjusted]
