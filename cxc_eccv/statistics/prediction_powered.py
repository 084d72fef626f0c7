r"""Means over many units from a machine's predictions for all and people's values for some of them.

A unit is whatever a number averages: an image-caption pair for a share of positives, a query for Recall@K. A machine
predicts the value of each; people give the values of a sample. The predictions narrow the interval as far as they are
right, and the sample corrects them as far as they are wrong. Two rules keep the interval true: the predictions are
fixed before people answer, and chance alone decides which units people see. A sure machine that errs rarely shows few
of its errors in a sample, or none: the interval of the corrections is then as wide as that of so few events.

- :func:`ppi_mean`: n labelled and N unlabelled units from one population, each equally likely (PPI++).
- :func:`estimate_mean`, :func:`estimate_ratio`: a fixed list of units, each drawn with a known probability (active
  inference). Strata are columns of ``predictions``; clusters add the uncertainty of drawing images.
- :func:`choose_probabilities`, :func:`draw`: the probabilities that give the narrowest interval, and the sample.

References:
    Angelopoulos, Duchi and Zrnic, PPI++: Efficient Prediction-Powered Inference, 2023, arXiv:2311.01453; Zrnic and
    Candès, Active Statistical Inference, ICML 2024, arXiv:2403.03208; Särndal, Swensson and Wretman, Model Assisted
    Survey Sampling, 1992, chapters 4, 6 and 11; Hájek, Asymptotic Theory of Rejective Sampling, 1964; Hall, On the
    Removal of Skewness by Transformation, 1992; Fay and Feuer, Confidence Intervals for Directly Standardized Rates: A
    Method Based on the Gamma Distribution, 1997; Zou and Donner, Construction of Confidence Limits about Effect
    Measures, 2008.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.statistics.intervals import Estimate
from cxc_eccv.statistics.studentized import hall_reach, student_quantile
from cxc_eccv.types import FloatArray, IntArray
from cxc_eccv.types.ids import check_confidence

UNIFORM_SHARE = 0.25
"""Share of the budget that is drawn whatever the machine predicts; it limits what a useless machine can cost."""

FEWEST_UNITS = 30
"""The fewest drawn units for an interval, which relies on the central limit theorem."""


def ppi_mean(labels: ArrayLike, predictions: ArrayLike, unlabelled: ArrayLike, *, confidence: float = 0.95) -> Estimate:
    r"""Mean of labels by PPI++, with the power tuning :math:`\lambda` in [0, 1] that gives the narrowest interval.

    .. math:: \hat\theta = \lambda \overline{f}_N + \overline{(y - \lambda f)}_n, \quad
        \lambda = \frac{\mathrm{cov}_n(y, f)}{(1 + n / N) \mathrm{var}_{n + N}(f)}

    Args:
        labels: (n,) labels y of units that are drawn at random, all equally likely.
        predictions: (n,) predictions f of the same units.
        unlabelled: (N,) predictions of further units of the same population.
        confidence: confidence level.

    Raises:
        DataError: arrays of unequal lengths, empty ones, numbers that are not finite, or labels that are all the same,
            so that nothing is known of their spread.

    References:
        Angelopoulos, Duchi and Zrnic, 2023, arXiv:2311.01453, section 6; equal to ``ppi_mean_ci`` of ppi-python.

    Example:
        >>> interval = ppi_mean([1, 0, 1, 1], [0.9, 0.2, 0.6, 0.8], [0.1, 0.9, 0.8, 0.3, 0.7, 0.4])
        >>> round(interval.value, 3), round(interval.low, 3), round(interval.high, 3)
        (0.684, 0.374, 0.995)
    """
    y = _check(labels, "labels")
    f = _check(predictions, "predictions")
    rest = _check(unlabelled, "unlabelled")
    if y.shape != f.shape:
        raise DataError(f"{y.size} labels, but {f.size} predictions of these units; give one for each")
    _check_varied(y)
    variance = np.var(np.append(f, rest), ddof=1) * (1 + y.size / rest.size)
    covariance = float(((y - y.mean()) * (f - f.mean())).mean())
    power = float(np.clip(covariance / variance, 0, 1)) if variance > 0 else 0.0
    value = power * rest.mean() + (y - power * f).mean()
    error = math.sqrt(np.var(power * rest) / rest.size + np.var(y - power * f) / y.size)
    half = NormalDist().inv_cdf(0.5 + check_confidence(confidence) / 2) * error
    return Estimate(float(value), float(value - half), float(value + half))


def choose_probabilities(
    deviations: ArrayLike, budget: float, *, costs: ArrayLike | None = None, uniform: float = UNIFORM_SHARE
) -> FloatArray:
    r"""Probabilities of being drawn, which spend a budget so that the interval of the mean is narrowest.

    :math:`\pi_u \propto s_u / \sqrt{c_u}` minimizes :math:`\sum_u s_u^2 / \pi_u` under :math:`\sum_u c_u \pi_u = B`
    (Neyman's allocation); a share of the budget is spread evenly. Probabilities above 1 are cut to 1, and what they
    leave is given to the other units.

    Args:
        deviations: (N,) standard deviation s of each unit's value about its prediction, in the machine's opinion: for
            a pair with probability p that moves a metric by g, g sqrt(p (1 - p)).
        budget: B, the number of questions.
        costs: (N,) number of questions c that each unit takes, at least 1; None for one.
        uniform: share of the budget that does not depend on the deviations, above 0.

    Returns:
        (N,) probabilities in (0, 1].

    Raises:
        InvalidOption: ``budget`` or ``uniform`` is not above 0, or ``uniform`` exceeds 1.
        DataError: a deviation is negative, a cost below 1.

    Example:
        >>> choose_probabilities([0.5, 0.5, 0.1, 0.1], 2, uniform=0.5).round(3).tolist()
        [0.667, 0.667, 0.333, 0.333]
    """
    spread = _check(deviations, "deviations")
    price = np.ones_like(spread) if costs is None else _check(costs, "costs")
    if not 0 < uniform <= 1 or not budget > 0:
        raise InvalidOption(f"budget {budget} and uniform {uniform}: both must be above 0, and uniform at most 1")
    if price.shape != spread.shape or (spread < 0).any() or (price < 1).any():
        raise DataError("every unit needs a deviation of at least 0 and a cost of at least 1")
    wanted = spread / np.sqrt(price)
    chances = np.zeros_like(spread)
    free = np.ones(spread.shape, dtype=bool)
    while free.any():
        left = budget - price[~free].sum()
        total = float((wanted * price)[free].sum())
        even = left / price[free].sum()
        steered = wanted[free] * (left / total) if total * 1e300 > left else even  # their quotient is finite
        chances[free] = (1 - uniform) * steered + uniform * even
        full = free & (chances >= 1)
        chances[full] = 1.0
        if not full.any():
            break
        free &= ~full
    return chances


def draw(probabilities: ArrayLike, seed: int | np.random.Generator, *, costs: ArrayLike | None = None) -> IntArray:
    """Draw units without replacement, each with exactly its probability, in a sample of fixed size.

    Systematic sampling along a random order: the number of drawn units is the sum of the probabilities, rounded down or
    up. With costs the order is that of the costs, at random among equal ones, so that the cost of the sample is at most
    the highest cost above its mean.

    Args:
        probabilities: (N,) as from :func:`choose_probabilities`.
        seed: seed or generator of the draw.
        costs: (N,) cost of each unit.

    Returns:
        (n,) places of the drawn units, ascending.

    Raises:
        DataError: a probability is not between 0 and 1.

    Example:
        >>> draw([0.5] * 6, 0).size, draw([1.0, 0.5, 0.5], 0)[0].item()
        (3, 0)
    """
    chances = _check(probabilities, "probabilities")
    random = np.random.default_rng(seed)
    if not ((chances >= 0) & (chances <= 1)).all():
        raise DataError("probabilities to draw with must lie between 0 and 1")
    order = random.permutation(chances.size)
    if costs is not None:
        order = order[np.argsort(np.asarray(costs)[order], kind="stable")]
    line = np.cumsum(chances[order])
    points = np.arange(random.random(), line[-1] - 1e-9, 1.0)  # 1e-9: a sum of 500 may be a little more
    return np.sort(order[np.searchsorted(line, points, side="right")])


def estimate_mean(
    predictions: ArrayLike,
    drawn: ArrayLike,
    values: ArrayLike,
    probabilities: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    confidence: float = 0.95,
) -> Estimate:
    r"""Mean of N units of which n were drawn with known probabilities.

    .. math:: \hat\theta = \frac{1}{N} \Bigl( \sum_{u=1}^N \hat f_u
        + \sum_{u \in S} \frac{v_u - \hat f_u}{\pi_u} \Bigr), \quad \hat f_u = b_0 + b \cdot f_u

    The coefficients, the power tuning of PPI++, minimize the estimated variance of independent draws, and guesses are
    cut to the range of the values, so useless predictions do no harm. Predictions that equal all values drawn by chance
    are left out (b = 0): the sample then says nothing of how often they err elsewhere.
    The variance is Hájek's for a sample of fixed size, :math:`\frac{n}{n - p} \sum_S (1 - \pi_u) (e_u - \bar e)^2 /
    N^2` with :math:`e = (v - \hat f) / \pi`. It is that of the mean over these N units; with ``clusters`` it is that
    over the population of clusters which the units come from, for example images, and includes both draws. Rare
    positives make the errors skewed, so the interval is Hall's, which is longer on the side of the long tail. Rare
    errors of the predictions are few events, or none, whose spread says little: on either side, the interval is at
    least as long as Fay and Feuer's for weighted sums of events, of guesses too low and of guesses too high. One more
    error, which the sample may have missed, counts as many units as a drawn one stands for on average.

    Args:
        predictions: (N,) or (N, P) predictions; any columns whose values are known for all units, such as strata.
        drawn: (n,) places of the units with values; those with probability 1 were certain to be.
        values: (n,) their values.
        probabilities: (n,) the probability with which each was drawn, in (0, 1].
        clusters: (N,) cluster of each unit, or None.
        confidence: confidence level.

    Raises:
        DataError: fewer than 30 units were drawn by chance, all of them have the same value, so that nothing is known
            of the spread, all units are of one cluster, or the arrays do not fit each other.

    Example:
        >>> random = np.random.default_rng(0)
        >>> truth = random.random(2_000) < (guess := random.random(2_000))
        >>> chances = choose_probabilities(np.sqrt(guess * (1 - guess)), 200)
        >>> drawn = draw(chances, random)
        >>> interval = estimate_mean(guess, drawn, truth[drawn], chances[drawn])
        >>> bool(interval.low < truth.mean() < interval.high), round(interval.high - interval.low, 2)
        (True, 0.12)
    """
    value, guesses, errors, rank = _estimate(predictions, drawn, values, probabilities)
    uncertain = 1 - np.asarray(probabilities, dtype=np.float64)
    n_free = int((uncertain > 0).sum())
    numbers = np.asarray(values, dtype=np.float64)
    if n_free:
        _check_varied(numbers[uncertain > 0])
    events = _spread_of_events(errors, uncertain, float(np.ptp(numbers)), check_confidence(confidence))
    if clusters is None:
        centred: FloatArray = errors - np.average(errors, weights=uncertain) if n_free else errors
        freedom = n_free - rank
        parts: FloatArray = np.sqrt(uncertain * (n_free / max(freedom, 1))) * centred
    else:
        groups = _check_clusters(clusters, guesses.size)
        n_clusters = int(groups.max()) + 1
        scale = math.sqrt(n_clusters / (n_clusters - 1))
        drawn_clusters = scale * float(np.linalg.norm(np.bincount(groups, guesses - guesses.mean())))
        guesses[np.asarray(drawn)] += errors
        parts = np.asarray(scale * np.bincount(groups, guesses - value))
        freedom = min(n_free or n_clusters, n_clusters) - 1
        events = np.hypot(events, student_quantile(n_clusters - 1, confidence) * drawn_clusters)
    below, above = np.maximum(hall_reach(parts, freedom, confidence), events) / guesses.size
    return Estimate(value, value - float(below), value + float(above))


def estimate_ratio(
    predictions: ArrayLike,
    drawn: ArrayLike,
    values: ArrayLike,
    divisors: ArrayLike,
    probabilities: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    confidence: float = 0.95,
) -> Estimate:
    r"""Ratio of two sums over N units, such as retrieved positives over all positives, by the delta method.

    With :math:`\hat\theta = \hat V / \hat W`, the interval is that of the mean of :math:`v - \hat\theta w`, divided by
    the mean of w. Arguments as in :func:`estimate_mean`; ``values`` are v and ``divisors`` w of the drawn units, and
    ``predictions`` best has a column for each.

    Raises:
        DataError: as :func:`estimate_mean`, or the sum of the divisors is estimated as 0 or less.

    Example:
        >>> drawn, share = np.arange(0, 200, 2), np.tile([0, 0, 1, 1, 1], 40)
        >>> interval = estimate_ratio(np.ones(200), drawn, share[drawn], np.ones(100), np.full(100, 0.5))
        >>> round(interval.value, 2), round(interval.low, 2), round(interval.high, 2)
        (0.6, 0.52, 0.67)
    """
    v = _check(values, "values")
    w = _check(divisors, "divisors")
    total, divisor = (_estimate(predictions, drawn, part, probabilities)[0] for part in (v, w))
    if divisor <= 0:
        raise DataError(f"the mean of the divisors is estimated as {divisor:.3g}, but must be above 0; draw more units")
    ratio = total / divisor
    rest = v - ratio * w
    if not rest.any() and np.min(probabilities) < 1:
        raise DataError(f"the ratio is {ratio:g} in all {v.size} drawn units, so how it varies is unknown; draw more")
    around = estimate_mean(predictions, drawn, rest, probabilities, clusters=clusters, confidence=confidence)
    return Estimate(ratio, ratio + around.low / divisor, ratio + around.high / divisor)


def _estimate(
    predictions: ArrayLike, drawn: ArrayLike, values: ArrayLike, probabilities: ArrayLike
) -> tuple[float, FloatArray, FloatArray, int]:
    """The mean, (N,) fitted predictions, (n,) errors of drawn units over their probabilities, fitted coefficients."""
    v = _check(values, "values")
    chances = _check(probabilities, "probabilities")
    places = np.asarray(drawn)
    known = np.asarray(predictions, dtype=np.float64)
    columns = np.column_stack([np.ones(len(known)), known])
    _check_sample(columns, places, v, chances)
    guesses, rank = _fit(columns, places, v, chances)
    if np.allclose(guesses[places][chances < 1], v[chances < 1], rtol=0, atol=1e-9 * np.ptp(v)):
        # A sample without errors does not show how many there are.
        guesses, rank = _fit(columns[:, :1], places, v, chances)
    errors = (v - guesses[places]) / chances
    return float((guesses.sum() + errors.sum()) / len(columns)), guesses, errors, rank


def _fit(columns: FloatArray, places: IntArray, values: FloatArray, chances: FloatArray) -> tuple[FloatArray, int]:
    """(N,) predictions of least variance, and the number of coefficients."""
    weights = np.sqrt(1 - chances) / chances
    coefficients, _, rank, _ = np.linalg.lstsq(columns[places] * weights[:, None], values * weights)
    # Predictions that hardly differ can get any slope, which would throw units that do differ far out.
    return np.clip(columns @ coefficients, values.min(), values.max()), int(rank)


def _check_sample(columns: FloatArray, places: IntArray, values: FloatArray, chances: FloatArray) -> None:
    if not np.isfinite(columns).all():
        raise DataError("predictions hold a number that is not finite")
    if not values.shape == chances.shape == places.shape or np.unique(places).size < places.size:
        raise DataError(f"{places.size} drawn units, {values.size} values, {chances.size} probabilities: one each")
    is_place = places.dtype.kind in "iu" and ((places >= 0) & (places < len(columns))).all()
    if not is_place or not ((chances > 0) & (chances <= 1)).all():
        raise DataError(f"drawn units must be places below {len(columns)}, with probabilities above 0 and at most 1")
    by_chance = values[chances < 1]
    if not by_chance.size and places.size < len(columns):
        raise DataError(
            "all drawn units were certain to be drawn, but not all units were; nothing is known of the rest"
        )
    if by_chance.size and by_chance.size < FEWEST_UNITS:
        raise DataError(f"{by_chance.size} units were drawn by chance; an interval needs {FEWEST_UNITS}: draw more")


def _check(numbers: ArrayLike, what: str) -> FloatArray:
    array = np.asarray(numbers, dtype=np.float64)
    if array.ndim != 1 or not array.size or not np.isfinite(array).all():
        raise DataError(f"{what} must be a list of finite numbers, at least one")
    return array


def _check_varied(values: FloatArray) -> None:
    if np.ptp(values) == 0:
        raise DataError(
            f"all {values.size} units drawn by chance have the value {values[0]:g}, which says nothing of how they "
            "vary; draw more units"
        )


def _check_clusters(clusters: ArrayLike, n_units: int) -> IntArray:
    """(N,) index of each unit's cluster."""
    groups = np.unique(np.asarray(clusters), return_inverse=True)[1]
    if groups.shape != (n_units,):
        raise DataError(f"clusters have shape {groups.shape}, but there are {n_units} units; give one for each")
    if not groups.any():
        raise DataError(
            f"all {n_units} units are of one cluster, which says nothing of how clusters vary; give several"
        )
    return groups


def _spread_of_events(errors: FloatArray, uncertain: FloatArray, largest: float, confidence: float) -> FloatArray:
    """How far the interval of the errors' sum reaches below and above, if errors are rare events.

    Guesses too low and guesses too high are two sums of weighted events (Fay and Feuer), whose difference has the
    interval of Zou and Donner. A sample of many of the units leaves less open: each weight is that share smaller.
    """
    shrink = np.sqrt(uncertain)
    if not shrink.any():
        return np.zeros(2)
    unseen = largest * float((shrink / (1 - uncertain))[shrink > 0].mean())
    (less, more), (less_high, more_high) = (
        _reach_of_events(np.maximum(sign * errors, 0) * shrink, unseen, confidence) for sign in (1, -1)
    )
    return np.array([math.hypot(less, more_high), math.hypot(more, less_high)])


def _reach_of_events(weights: FloatArray, unseen: float, confidence: float) -> tuple[float, float]:
    """How far Fay and Feuer's interval of a weighted sum of Poisson events reaches below and above it."""
    from scipy.special import gammaincinv  # imported here, as in student_quantile

    total = float(weights.sum())
    squares = float((weights**2).sum())
    tail = 0.5 - confidence / 2
    low = squares / total * float(gammaincinv(total**2 / squares, tail)) if squares else 0.0
    more = total + unseen
    square = squares + unseen**2
    return total - low, square / more * float(gammaincinv(more**2 / square, 1 - tail)) - total
