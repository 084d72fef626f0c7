"""Draws, the cluster bootstrap, confidence intervals, and tests of differences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, InvalidOption, UnknownName
from cxc_eccv.kernels import drawn_places, drawn_sums, times_drawn
from cxc_eccv.types import FloatArray, IntArray, check_whole
from cxc_eccv.types.ids import check_confidence
from cxc_eccv.types.provenance import Provenance

SAMPLES = 1_000
BATCH = 1_000
WINDOW_DEVIATIONS = 5.0
FEWEST_SAMPLES = 10_000
ROOM = 5
"""The smallest corrected p-value is this many times smaller than the level, so that clear differences show."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its confidence interval."""

    value: float
    low: float
    high: float

    @property
    def as_share(self) -> Estimate:
        """The estimate, cut to the range of a share, 0 to 1."""
        return Estimate(*(min(max(number, 0.0), 1.0) for number in (self.value, self.low, self.high)))


KINDS = ("bootstrap", "binomial", "binomial_images", "none")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Intervals:
    """Options of intervals: their kind, their confidence level (None for no intervals), and the seed of the draws.

    Example:
        >>> Intervals(intervals="none").level is None
        True
    """

    intervals: str = "bootstrap"
    confidence: float | None = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole("seed", self.seed, least=0)
        if self.confidence is not None:
            check_confidence(self.confidence)
        if self.intervals not in KINDS:
            raise UnknownName("kind of intervals", self.intervals, KINDS)

    @property
    def level(self) -> float | None:
        """The confidence level, or None without intervals."""
        return None if self.intervals == "none" else self.confidence

    def record(self, provenance: Provenance) -> Provenance:
        """The provenance with these options."""
        kind = "none" if self.level is None else self.intervals
        return replace(provenance, seed=self.seed, confidence=self.level, intervals=kind)


class Draws:
    """The random draws behind every interval of a report."""

    def __init__(self, seed: int, samples: int = SAMPLES) -> None:
        self.seed, self.samples = seed, samples
        self._times: dict[int, NDArray[np.integer]] = {}
        self._lock = Lock()

    def times(self, count: int) -> NDArray[np.integer]:
        """(S, count) number of times each of ``count`` clusters is drawn in each sample, with replacement."""
        with self._lock:
            if count not in self._times:
                self._times[count] = times_drawn(np.random.default_rng(self.seed), self.samples, count)
            return self._times[count]


def draw_batches(seed: int, samples: int) -> Iterator[Draws]:
    """Yield draws of ``samples`` samples in all, in batches, which bounds the memory."""
    sizes = [BATCH] * (samples // BATCH) + [samples % BATCH] * bool(samples % BATCH)
    seeds = np.random.SeedSequence(seed).generate_state(len(sizes)).tolist()
    yield from map(Draws, seeds, sizes)


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
                f"{np.unique(clusters).size} of {drawn.size} images have queries, which is too few for an interval: a "
                "sample of images may have no query. Turn intervals off (--intervals none, intervals='none')."
            )

    def means(self, values: FloatArray) -> FloatArray:
        """(M, S) means of every sample."""
        sums = np.stack([np.bincount(self._members, column, self._sizes.size) for column in values.T])
        return drawn_sums(self._times, sums) / self._totals

    def medians(self, values: FloatArray) -> FloatArray:
        """(S,) medians of every sample.

        Only values in a window around the middle are looked at; the others are counted. Samples whose median falls
        outside the window are computed over all values.
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
        """Weighted medians of sorted values, NaN for those outside the window."""
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
    """Wilson's score interval of a proportion, without continuity correction, equal to SciPy's.

    It assumes independent trials. Captions of one image are not independent; use the bootstrap over images for them.

    References:
        Wilson, Probable Inference, the Law of Succession, and Statistical Inference, JASA 1927.
    """
    from scipy.special import ndtri  # imported here, as it takes a third of the time of all imports

    n, share, z = trials or values.size, float(values.mean()), float(ndtri(0.5 + 0.5 * confidence))
    divisor = 2 * (n + z**2)
    centre = (2 * n * share + z**2) / divisor
    half = z / divisor * math.sqrt(4 * n * share * (1 - share) + z**2)
    return 0.0 if share == 0 else centre - half, 1.0 if share == 1 else centre + half


def fisher_interval(r: float, pairs: int, confidence: float = 0.95) -> tuple[float, float]:
    """Confidence interval of a Pearson correlation over n pairs: ``tanh(atanh(r) -+ z / sqrt(n - 3))``.

    References:
        Fisher, On the probable error of a coefficient of correlation deduced from a small sample, Metron 1921.
    """
    if pairs < 4 or not 0 < confidence < 1:
        raise InvalidOption(
            f"an interval needs at least four pairs and a confidence in (0, 1), got {pairs} and {confidence}"
        )
    if abs(r) >= 1:
        return r, r
    half = NormalDist().inv_cdf(0.5 + confidence / 2) / math.sqrt(pairs - 3)
    return math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)


def two_sided_p_value(differences: FloatArray) -> float:
    """Two-sided p-value of "no difference" from S resampled differences.

    p = min(1, 2 (1 + min(#{d <= 0}, #{d >= 0})) / (S + 1)), the smallest level at which the percentile interval
    excludes zero: p < 0.05 and a 95% interval without zero agree. Zero differences count on both sides, which is
    conservative for medians. The 1 counts the observed sample, so p is never 0.

    References:
        Efron and Tibshirani, An Introduction to the Bootstrap, 1993, section 15.4; Davison and Hinkley, Bootstrap
        Methods and their Application, 1997, equation 4.11 (for the 1).
    """
    fewer = min(np.count_nonzero(differences <= 0), np.count_nonzero(differences >= 0))
    return min(1.0, 2 * (1 + int(fewer)) / (differences.size + 1))


def least_p_value(samples: int) -> float:
    """The smallest p-value possible with this number of samples."""
    return 2 / (samples + 1)


def enough_samples(tests: int, level: float) -> int:
    """Number of samples, at least 10,000, whose smallest p-value is below the level after correction for all tests."""
    return max(FEWEST_SAMPLES, 1_000 * math.ceil(round(2 * ROOM * tests / level, 6) / 1_000))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values after Holm's step-down correction for multiple tests.

    The i-th smallest of m p-values becomes max over j <= i of min(1, (m - j + 1) p_j). The tests may depend on each
    other, as metrics of one model do.

    References:
        Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 1979.
    """
    values = np.asarray(p_values, dtype=float)
    order = np.argsort(values, kind="stable")
    stepped = np.minimum(1.0, values[order] * np.arange(values.size, 0, -1))
    adjusted = np.empty_like(values)
    adjusted[order] = np.maximum.accumulate(stepped)
    return [float(value) for value in adjusted]
