"""Simultaneous confidence intervals for the ranks of models, and the groups of models that cannot be told apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from string import ascii_letters

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import DataError
from cxc_eccv.types import FloatArray, IntArray
from cxc_eccv.types.ids import check_confidence

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
            split = [part for column in columns for part in _split(column, first, second)]
            columns = [part for part in dict.fromkeys(split) if not any(part < other for other in split)]
        columns.sort(key=lambda column: sorted((int(self.low[place]), int(self.high[place])) for place in column))
        names = ascii_letters if len(columns) <= len(ascii_letters) else [f"{n}." for n in range(1, len(columns) + 1)]
        return [
            "".join(name for name, column in zip(names, columns, strict=False) if place in column)
            for place in range(self.low.size)
        ]


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
    centre, drawn = _check(values, samples, clusters, confidence)
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
        is_better, is_worse = better | (studentized > critical), worse | (-studentized > critical)
        if (is_better == better).all() and (is_worse == worse).all():
            return better, worse, critical
        better, worse = is_better, is_worse


def _stretch(normal: float, clusters: int, samples: int) -> float:
    """The quantile of Student's t at the level of a normal quantile."""
    from scipy.special import ndtr, stdtrit  # imported here, as it takes a third of the time of all imports

    return -float(stdtrit(1 / (1 / (clusters - 1) + 1 / (samples - 1)), ndtr(-float(normal))))


def _check(values: ArrayLike, samples: ArrayLike, clusters: int, confidence: float) -> tuple[FloatArray, FloatArray]:
    centre, drawn = np.asarray(values, dtype=np.float64), np.asarray(samples, dtype=np.float64)
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
