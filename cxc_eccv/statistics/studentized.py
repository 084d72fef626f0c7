"""Intervals of means over few images: Student's t over images, corrected for skewness, which a bootstrap misses."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cxc_eccv.statistics.intervals import interval, wilson
from cxc_eccv.types import FloatArray, IntArray

FEW_IMAGES = 1_000
"""From this number of images on, the percentile interval of the bootstrap covers a mean as often as it says."""


@dataclass(frozen=True, slots=True)
class NamedInterval:
    """A confidence interval, and how it was made: ``bootstrap``, ``studentized`` or ``binomial_images``."""

    low: float
    high: float
    method: str


def mean_interval(
    values: FloatArray,
    images: IntArray,
    samples: FloatArray,
    confidence: float,
    *,
    is_binary: bool = False,
    bounds: tuple[float, float | None] = (0.0, 1.0),
) -> NamedInterval:
    """The interval of a mean over queries, by the method that covers it with this number of images.

    A mean of 0 or 1 that no query differs from has Wilson's interval for as many queries as images, as no draw of
    images differs either; so has a mean over one image. The metric's values must lie from 0 to 1. Another mean over
    fewer than 1,000 images has the studentized interval, and one over more that of the bootstrap. Few hits or
    misses say little of the skewness, so the studentized interval of a share ends where Wilson's does at the
    latest, for queries that are all alike within an image.

    Args:
        values: (Q,) value of each query.
        images: (Q,) the image behind each query.
        samples: (S,) means of the samples of the cluster bootstrap.
        confidence: confidence level.
        is_binary: whether each value is 0 or 1.
        bounds: lowest and highest possible value; None where there is no bound.

    Example:
        >>> found = mean_interval(np.ones(10), np.arange(10) // 2, np.ones(100), 0.95, is_binary=True)
        >>> round(found.low, 3), found.high, found.method
        (0.566, 1.0, 'binomial_images')
    """
    sizes = np.unique(images, return_counts=True)[1]
    n_images = sizes.size
    lowest, highest = bounds
    is_at_end = values.min() == values.max() and values[0] in bounds
    if bounds == (0, 1) and (is_at_end or n_images == 1):
        return NamedInterval(*wilson(values, confidence, n_images), "binomial_images")
    if is_binary:
        # Kish's number of images: if all queries of an image are alike, these of unequal sizes are worth fewer.
        lowest, highest = wilson(values, confidence, int(values.size**2 / (sizes**2).sum()))
    if 1 < n_images < FEW_IMAGES:
        low, high = studentized_interval(values, images, confidence)
        return NamedInterval(max(low, lowest), high if highest is None else min(high, highest), "studentized")
    return NamedInterval(*interval(samples, confidence), "bootstrap")


def studentized_interval(values: FloatArray, clusters: IntArray, confidence: float) -> tuple[float, float]:
    r"""Interval of a mean over clusters of values, by Student's t with Hall's correction for skewness.

    With the mean :math:`\bar v` of Q values, the residual :math:`e_c = \sum_{i \in c} (v_i - \bar v) / Q` of each of
    n clusters, :math:`s^2 = \frac{n}{n - 1} \sum_c e_c^2` and the :math:`t` of n - 1 degrees of freedom, it reaches
    from :math:`\bar v - s g(t)` to :math:`\bar v - s g(-t)`, where

    .. math:: g(x) = \frac{3}{a} \Bigl( \sqrt[3]{1 + a (x - a / 6)} - 1 \Bigr), \quad
        a = \frac{\sum_c e_c^3}{(\sum_c e_c^2)^{3/2}}

    Args:
        values: (Q,) values.
        clusters: (Q,) the cluster of each value, of at least two.
        confidence: confidence level.

    References:
        Hall, On the Removal of Skewness by Transformation, Journal of the Royal Statistical Society B 1992.

    Example:
        >>> low, high = studentized_interval(np.array([0.0, 0.1, 0.1, 0.2, 0.2, 0.3, 0.4, 0.6]), np.arange(8), 0.95)
        >>> round(low, 2), round(high, 2)
        (0.1, 0.45)
    """
    members = np.unique(clusters, return_inverse=True)[1]
    mean = float(values.mean())
    residuals = np.bincount(members, values - mean) / values.size
    n_clusters = residuals.size
    below, above = hall_reach(residuals * math.sqrt(n_clusters / (n_clusters - 1)), n_clusters - 1, confidence)
    return mean - float(below), mean + float(above)


def student_quantile(freedom: int, confidence: float) -> float:
    """The upper end of the central interval of Student's t; at least one degree of freedom."""
    from scipy.special import stdtrit  # imported here, as it takes a third of the time of all imports

    return float(stdtrit(max(freedom, 1), 0.5 + confidence / 2))


def hall_reach(parts: FloatArray, freedom: int, confidence: float) -> FloatArray:
    """How far Hall's interval of a sum of independent parts reaches below and above: Student's, as skew as the sum."""
    variance = float((parts**2).sum())
    if not variance:
        return np.zeros(2)
    skewness = float((parts**3).sum()) / variance**1.5
    tails = student_quantile(freedom, confidence) * np.array([1.0, -1.0])
    if abs(skewness) > 1e-9:
        tails = 3 / skewness * (np.cbrt(1 + skewness * (tails - skewness / 6)) - 1)
    return np.asarray(math.sqrt(variance) * tails * [1, -1])
