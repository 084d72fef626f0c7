"""Draws, the cluster bootstrap, intervals of samples, proportions and correlations, and tests of differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.kernels import drawn_places, drawn_sums, times_drawn
from cxc_eccv.types import FloatArray, IntArray

SAMPLES = 1_000
WINDOW_DEVIATIONS = 5.0
FEWEST_SAMPLES = 10_000
ROOM = 5
"""How many times smaller than the level the smallest corrected p-value is, so that a clear difference shows as one."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its interval."""

    value: float
    low: float
    high: float


class Draws:
    """The random draws behind every interval of a report."""

    def __init__(self, seed: int, samples: int = SAMPLES) -> None:
        self.seed, self.samples = seed, samples
        self._times: dict[int, NDArray[np.integer]] = {}
        self._lock = Lock()

    def times(self, count: int) -> NDArray[np.integer]:
        """(S, count) how often each of ``count`` clusters is drawn, with replacement, in each sample."""
        with self._lock:
            if count not in self._times:
                self._times[count] = times_drawn(np.random.default_rng(self.seed), self.samples, count)
            return self._times[count]


class ClusterBootstrap:
    """Resamples clusters of queries with replacement and recomputes their mean or median.

    References:
        Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 8.
    """

    def __init__(self, clusters: IntArray, draws: Draws, among: IntArray | None = None) -> None:
        drawn = np.unique(clusters if among is None else among)
        self._members = np.searchsorted(drawn, clusters)
        self._sizes = np.bincount(self._members, minlength=drawn.size)
        self._times = draws.times(self._sizes.size)
        self._totals = drawn_sums(self._times, self._sizes)
        if not self._totals.all():
            raise DataError(
                f"{np.unique(clusters).size} of {drawn.size} images have queries: too few for an interval, as a sample "
                "of the images may hold none of them. Ask for no intervals (--intervals none, intervals='none')."
            )

    def means(self, values: FloatArray) -> FloatArray:
        """(M, S) means of every sample."""
        sums = np.stack([np.bincount(self._members, column, self._sizes.size) for column in values.T])
        return drawn_sums(self._times, sums) / self._totals

    def medians(self, values: FloatArray) -> FloatArray:
        """(S,) medians of every sample.

        Only values near the middle can be a sample's median; the rest enters as a count. A sample whose median falls
        outside that window is computed over all values.
        """
        order = np.argsort(values, kind="stable")
        margin = WINDOW_DEVIATIONS * np.sqrt(values.size * self._sizes.max()) / 2 + 1
        window = max(0, int(values.size / 2 - margin)), min(values.size, int(np.ceil(values.size / 2 + margin)))
        ordered, members = values[order], self._members[order]
        medians = self._find_medians(ordered, members, window, self._times, self._totals)
        outside = np.flatnonzero(np.isnan(medians))
        if outside.size:
            medians[outside] = self._find_medians(
                ordered, members, (0, values.size), self._times[outside], self._totals[outside]
            )
        return medians

    def _find_medians(
        self,
        values: FloatArray,
        members: IntArray,
        window: tuple[int, int],
        times: NDArray[np.integer],
        totals: FloatArray,
    ) -> FloatArray:
        """Weighted medians of sorted values, NaN where one lies outside the window."""
        start, stop = window
        below = drawn_sums(times, np.bincount(members[:start], minlength=self._sizes.size))
        ranks = np.stack([(totals - 1) // 2, totals // 2]).astype(np.int64)
        lower, upper = drawn_places(times, members[start:stop], below.astype(np.int64), ranks)
        inside = (below <= ranks[0]) & (upper < stop - start)
        lower, upper = (np.minimum(index, stop - start - 1) for index in (lower, upper))
        return np.where(inside, (values[start + lower] + values[start + upper]) / 2, np.nan)


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
