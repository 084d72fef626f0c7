"""Draws, the cluster bootstrap, intervals of values and of ranks, and tests of differences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from string import ascii_letters
from threading import Lock

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import DataError, InvalidOption, UnknownName
from cxc_eccv.kernels import drawn_places, drawn_sums, times_drawn
from cxc_eccv.types import FloatArray, IntArray, check_whole
from cxc_eccv.types.ids import check_confidence, find_fold_rows
from cxc_eccv.types.provenance import Provenance

BOOTSTRAP_SAMPLES = 1_000
SAMPLES_PER_BATCH = 1_000
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


INTERVAL_KINDS = ("bootstrap", "binomial", "binomial_images", "none")


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
        if self.intervals not in INTERVAL_KINDS:
            raise UnknownName("kind of intervals", self.intervals, INTERVAL_KINDS)

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

    def __init__(self, seed: int, samples: int = BOOTSTRAP_SAMPLES, fold: int | None = None) -> None:
        self.seed = seed
        self.samples = samples
        self._fold = fold
        self._times: dict[int, NDArray[np.integer]] = {}
        self._lock = Lock()

    def times(self, count: int) -> NDArray[np.integer]:
        """(S, count) number of times each of ``count`` clusters is drawn in each sample, with replacement."""
        with self._lock:
            if count not in self._times:
                seed = self.seed if self._fold is None else [self.seed, self._fold]
                self._times[count] = times_drawn(np.random.default_rng(seed), self.samples, count)
            return self._times[count]

    def of_fold(self, fold: int) -> Draws:
        """As many draws of the clusters of a fold, which do not depend on those of other folds."""
        return Draws(self.seed, self.samples, fold)


def draw_batches(seed: int, samples: int) -> Iterator[Draws]:
    """Yield draws of ``samples`` samples in all, in batches, which bounds the memory."""
    starts = range(0, samples, SAMPLES_PER_BATCH)
    sizes = [min(SAMPLES_PER_BATCH, samples - start) for start in starts]
    seeds = np.random.SeedSequence(seed).generate_state(len(sizes)).tolist()
    yield from map(Draws, seeds, sizes)


class ClusterBootstrap:
    """Resamples clusters of queries with replacement and recomputes their mean or median.

    References:
        Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 8.
    """

    def __init__(self, clusters: IntArray, draws: Draws, among: IntArray | None = None) -> None:
        drawn = np.unique(clusters if among is None else among)
        self._clusters = clusters
        self._draws = draws
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

    def medians(self, values: FloatArray, folds: IntArray | None = None) -> FloatArray:
        """(S,) medians of every sample; with the (Q,) folds of the queries, means over folds of medians.

        With folds, the clusters of each fold are drawn from those of its queries, as many as there are.
        """
        if folds is None:
            return self._find_sample_medians(values)
        of_folds = []
        for fold, rows in enumerate(find_fold_rows(folds, values.size)):
            bootstrap = ClusterBootstrap(self._clusters[rows], self._draws.of_fold(fold))
            of_folds.append(bootstrap.medians(values[rows]))
        return np.asarray(np.mean(of_folds, axis=0))

    def _find_sample_medians(self, values: FloatArray) -> FloatArray:
        """(S,) medians of every sample.

        Only values in a window around the middle are looked at; the others are counted. Samples whose median falls
        outside the window are computed over all values.
        """
        order = np.argsort(values, kind="stable")
        margin = WINDOW_DEVIATIONS * np.sqrt(values.size * self._sizes.max()) / 2 + 1
        window = max(0, int(values.size / 2 - margin)), min(values.size, int(np.ceil(values.size / 2 + margin)))
        ordered = values[order]
        members = self._members[order]
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


def bootstrap_mean(values: ArrayLike, clusters: ArrayLike, draws: Draws, confidence: float = 0.95) -> Estimate:
    """The mean of values with the percentile interval of its cluster bootstrap.

    Args:
        values: (N,) numbers or booleans.
        clusters: (N,) the cluster of each value, such as its image; whole clusters are drawn.
        draws: the random draws.
        confidence: confidence level.

    References:
        Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 8.

    Example:
        >>> bootstrap_mean([1, 1, 0, 0], [7, 7, 8, 9], Draws(seed=0))
        Estimate(value=0.5, low=0.0, high=1.0)
    """
    numbers = np.asarray(values, dtype=np.float64)
    samples = ClusterBootstrap(np.asarray(clusters), draws).means(numbers[:, None])[0]
    low, high = interval(samples, confidence)
    return Estimate(float(numbers.mean()), low, high)


def wilson(values: FloatArray, confidence: float, trials: int | None = None) -> tuple[float, float]:
    """Wilson's score interval of a proportion, without continuity correction, equal to SciPy's.

    It assumes independent trials. Captions of one image are not independent; use the bootstrap over images for them.

    References:
        Wilson, Probable Inference, the Law of Succession, and Statistical Inference, JASA 1927.
    """
    from scipy.special import ndtri  # imported here, as it takes a third of the time of all imports

    n = trials or values.size
    share = float(values.mean())
    z = float(ndtri(0.5 + 0.5 * confidence))
    divisor = 2 * (n + z**2)
    centre = (2 * n * share + z**2) / divisor
    half = z / divisor * math.sqrt(4 * n * share * (1 - share) + z**2)
    low = 0.0 if share == 0 else centre - half
    high = 1.0 if share == 1 else centre + half
    return low, high


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


def randomization_test(differences: IntArray) -> float:
    """Exact two-sided p-value of "no difference" from N paired differences, whole numbers.

    If there is none, the sign of each difference is random: p is the chance that their sum is at least as far from 0.
    For differences of -1, 0 and 1 it is McNemar's exact test. It holds for few differences, where a bootstrap does not.

    Example:
        >>> [round(randomization_test(np.array(values)), 5) for values in ([1, 1, 1, 0, 1, 1, 1], [2, -1])]
        [0.03125, 1.0]

    References:
        Fisher, The Design of Experiments, 1935, section 21; McNemar, Psychometrika 1947.
    """
    from scipy.stats import binom

    sizes, numbers = np.unique(np.abs(differences[differences != 0]), return_counts=True)
    chances = np.ones(1)  # of every sum from -S to S
    for size, number in zip(sizes.tolist(), numbers.tolist(), strict=True):
        of_size = np.zeros(2 * size * number + 1)
        of_size[:: 2 * size] = binom.pmf(np.arange(number + 1), number, 0.5)
        chances = np.convolve(chances, of_size)
    sums = np.abs(np.arange(chances.size) - chances.size // 2)
    return float(min(1.0, chances[sums >= abs(int(differences.sum()))].sum()))


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


POWER = 0.8
"""Power of the minimum detectable difference."""

NOISE = 1e-10
"""Share of the largest sample below which a difference is rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class RankIntervals:
    """Ranks of M models that hold together with the chosen confidence.

    Attributes:
        low, high: (M,) best and worst rank, from 1; models of equal true value share all their ranks.
        tied: (M, M) whether two models cannot be told apart; true on the diagonal.
        detectable: (M, M) difference that would tell two models apart with 80% power; infinite with too few samples.
    """

    low: IntArray
    high: IntArray
    tied: NDArray[np.bool_]
    detectable: FloatArray

    @property
    def groups(self) -> list[str]:
        """A letter display: two models share a letter if and only if they cannot be told apart.

        References:
            Piepho, An Algorithm for a Letter-Based Representation of All-Pairwise Comparisons, Journal of Computational
            and Graphical Statistics 2004 (insert and absorb).
        """
        columns = [frozenset(range(self.low.size))]
        for first, second in np.argwhere(np.triu(~self.tied)).tolist():
            parts: list[frozenset[int]] = []
            for column in columns:
                parts += _split(column, first, second)
            columns = _absorb(parts)
        ranks = list(zip(self.low.tolist(), self.high.tolist(), strict=True))
        columns.sort(key=lambda column: sorted(ranks[model] for model in column))
        if len(columns) <= len(ascii_letters):
            names = list(ascii_letters[: len(columns)])
        else:
            names = [f"{number}." for number in range(1, len(columns) + 1)]
        groups = [""] * self.low.size
        for name, column in zip(names, columns, strict=True):
            for model in column:
                groups[model] += name
        return groups


def _absorb(parts: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """The distinct sets that no other set contains."""

    def is_contained(part: frozenset[int]) -> bool:
        return any(part < other for other in parts)

    return [part for part in dict.fromkeys(parts) if not is_contained(part)]


def _split(column: frozenset[int], first: int, second: int) -> list[frozenset[int]]:
    both = first in column and second in column
    return [column - {first}, column - {second}] if both else [column]


def rank_intervals(
    values: ArrayLike,
    samples: ArrayLike,
    clusters: int,
    confidence: float = 0.95,
    *,
    higher_is_better: bool = True,
) -> RankIntervals:
    r"""Intervals that contain the ranks of all models together with the chosen confidence.

    The difference of models j and k is studentized, :math:`t_{jk} = (v_j - v_k) / s_{jk}`, where :math:`s_{jk}` is the
    standard deviation of its bootstrap samples. Model j is better than k if

    .. math:: t_{jk} > c, \quad c = \text{the quantile at the confidence of}\;
        \max_{(j, k) \in H} \frac{(v^*_j - v^*_k) - (v_j - v_k)}{s_{jk}}

    over the samples. H has first all ordered pairs, then those not yet decided, until no further pair is decided. As
    :math:`s_{jk}` is estimated from n clusters and S samples, c is stretched from a quantile of the normal distribution
    to that of Student's t with :math:`1 / (1 / (n - 1) + 1 / (S - 1))` degrees of freedom. The best rank of a model is
    1 plus the number of better models; its worst rank is M less the number of worse models. As no pair is decided
    wrongly with the confidence, all intervals hold together.

    Args:
        values: (M,) values of the models, means over queries for example.
        samples: (M, S) values on S bootstrap samples, the same draws for all models.
        clusters: number of clusters, the images behind the queries, that were resampled.
        confidence: probability that every interval contains its rank.
        higher_is_better: whether the largest value has rank 1.

    Raises:
        DataError: the shapes differ, there is no model, fewer than two samples or clusters, or a number is not finite.
        InvalidOption: the confidence is not between 0 and 1.

    References:
        Mogstad, Romano, Shaikh and Wilhelm, Inference for Ranks with Applications to Mobility across Neighbourhoods and
        Academic Achievement across Countries, Review of Economic Studies 2024. Romano and Wolf, Exact and Approximate
        Stepdown Methods for Multiple Hypothesis Testing, JASA 2005.

    Example:
        >>> from cxc_eccv.statistics import ClusterBootstrap, Draws
        >>> random = np.random.default_rng(0)
        >>> of_queries = random.normal([0.5, 0.5, 0.7], 0.2, (100, 3))
        >>> samples = ClusterBootstrap(np.arange(100), Draws(seed=0)).means(of_queries)
        >>> ranks = rank_intervals(of_queries.mean(axis=0), samples, clusters=100)
        >>> ranks.low.tolist(), ranks.high.tolist(), ranks.groups
        ([2, 2, 1], [3, 3, 1], ['b', 'b', 'a'])
    """
    centre, drawn = _check_ranks(values, samples, clusters, confidence)
    sign = 1 if higher_is_better else -1
    first, second = np.triu_indices(centre.size, 1)
    differences = sign * (centre[first] - centre[second])
    deviations = np.empty((first.size, drawn.shape[1]), dtype=np.float32)
    spreads = np.empty(first.size)
    for place, (j, k) in enumerate(zip(first, second, strict=True)):
        deviation = sign * (drawn[j] - drawn[k])
        spreads[place] = deviation.std(ddof=1) * math.sqrt(clusters / (clusters - 1))
        deviations[place] = deviation - differences[place]
    least = NOISE * np.abs(drawn).max()
    spreads[spreads <= least] = 0
    differences[np.abs(differences) <= least] = 0
    with np.errstate(divide="ignore", invalid="ignore"):
        studentized = np.nan_to_num(differences / spreads, nan=0.0, posinf=np.inf, neginf=-np.inf)
        deviations /= np.where(spreads, spreads, np.inf).astype(np.float32)[:, None]
    better, worse, critical = _decide(studentized, deviations, clusters, confidence)
    above = np.zeros((centre.size, centre.size), dtype=bool)  # above[j, k]: j is better than k
    above[first, second], above[second, first] = better, worse
    detectable = np.zeros(above.shape)
    with np.errstate(invalid="ignore"):
        detectable[first, second] = np.where(spreads, spreads * (critical + NormalDist().inv_cdf(POWER)), 0)
    return RankIntervals(
        1 + above.sum(axis=0), centre.size - above.sum(axis=1), ~(above | above.T), detectable + detectable.T
    )


def _decide(
    studentized: FloatArray, deviations: NDArray[np.float32], clusters: int, confidence: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], float]:
    """Pairs whose first model is better, pairs whose second model is, and the last critical value."""
    samples = deviations.shape[1]
    place = math.ceil(round(confidence * (samples + 1), 6)) - 1
    better = worse = np.zeros(studentized.size, dtype=bool)
    while True:
        largest = np.maximum(
            deviations[~better].max(axis=0, initial=-np.inf), -deviations[~worse].min(axis=0, initial=np.inf)
        )
        critical = _stretch(np.partition(largest, place)[place], clusters, samples) if place < samples else math.inf
        is_better = better | (studentized > critical)
        is_worse = worse | (-studentized > critical)
        if (is_better == better).all() and (is_worse == worse).all():
            return better, worse, critical
        better = is_better
        worse = is_worse


def _stretch(normal: float, clusters: int, samples: int) -> float:
    """The quantile of Student's t at the level of a normal quantile."""
    from scipy.special import ndtr, stdtrit  # imported here, as it takes a third of the time of all imports

    if normal == 0 or math.isinf(normal):  # where versions of SciPy differ
        return float(normal)
    return -float(stdtrit(1 / (1 / (clusters - 1) + 1 / (samples - 1)), ndtr(-float(normal))))


def _check_ranks(
    values: ArrayLike, samples: ArrayLike, clusters: int, confidence: float
) -> tuple[FloatArray, FloatArray]:
    centre = np.asarray(values, dtype=np.float64)
    drawn = np.asarray(samples, dtype=np.float64)
    if centre.ndim != 1 or drawn.ndim != 2 or drawn.shape[0] != centre.size or not centre.size:
        raise DataError(
            f"ranks need (M,) values and (M, S) samples of at least one model, not {centre.shape} and {drawn.shape}"
        )
    if min(drawn.shape[1], clusters) < 2:
        raise DataError(
            f"ranks need at least two samples and two clusters, such as images, not {drawn.shape[1]} and {clusters}"
        )
    if not (np.isfinite(centre).all() and np.isfinite(drawn).all()):
        raise DataError("a value or a sample of the models is not finite, so they have no ranks")
    check_confidence(confidence)
    return centre, drawn


def detectable_difference(deviation: float, level: float) -> float:
    r"""Smallest true difference that a two-sided test finds with 80% power: :math:`(z_{1-level/2} + z_{0.8}) s`.

    Args:
        deviation: standard error of the difference.
        level: level of the test, after correction for others.
    """
    return (NormalDist().inv_cdf(1 - level / 2) + NormalDist().inv_cdf(POWER)) * deviation


def queries_to_detect(difference: float, detectable: float, n_queries: int) -> int | None:
    """Number of like queries at which a true ``difference`` is detectable: n (detectable / difference)^2; None for 0.

    Example:
        >>> queries_to_detect(0.01, 0.03, 5_000)
        45000
    """
    needed = n_queries * (detectable / difference) ** 2 if difference else math.inf
    return math.ceil(round(needed, 6)) if math.isfinite(needed) else None
