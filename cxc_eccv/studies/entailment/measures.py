"""Measures, thresholds and calibration of a classifier of entailment.

All take (N,) labels, 1 if the premise entails the hypothesis and else 0, and (N,) scores. A pair is predicted to be
entailed if its score reaches the threshold. Intervals resample images with all their pairs, since the pairs of one
image are not independent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cxc_eccv.errors import DataError, InvalidOption, UnknownName
from cxc_eccv.statistics import BOOTSTRAP_SAMPLES, ClusterBootstrap, Draws, interval, wilson
from cxc_eccv.types import FloatArray, IntArray

RATES = ("accuracy", "precision", "recall", "f_half")
"""The measures of the entailment paper, in its order."""

BINS = 10

NEAREST = 1e-6
"""Probabilities are clipped to this distance from 0 and 1, so that their log-odds are finite, in float32 too."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A measure with its interval: ``name`` is one of :data:`RATES`, all numbers are fractions."""

    name: str
    value: float
    low: float
    high: float


def f_half(precision: ArrayLike, recall: ArrayLike) -> Any:  # noqa: ANN401 - a number of numbers, an array of arrays
    """F0.5 (Yan et al., 2022, section 6.3): ``1.25 P R / (0.25 P + R)``; 0 where both are 0, NaN where one is NaN.

    Example:
        >>> round(float(f_half(0.802, 0.743)), 3)
        0.789
    """
    precision = np.asarray(precision, dtype=np.float64)
    recall = np.asarray(recall, dtype=np.float64)
    below = 0.25 * precision + recall
    return np.divide(1.25 * precision * recall, below, out=np.zeros_like(below), where=below != 0)[()]


def measure_classifier(
    labels: ArrayLike,
    scores: ArrayLike,
    threshold: float,
    images: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[Rate, ...]:
    """Accuracy, precision, recall and F0.5 of the predictions ``scores >= threshold``.

    The interval is a bootstrap over (N,) images; without images all pairs are independent. Samples in which a measure
    is undefined, because no pair in them is predicted or labelled 1, are left out for that measure.

    Example:
        >>> for rate in measure_classifier([1, 1, 0, 0], [0.9, 0.4, 0.6, 0.1], 0.5)[:2]:
        ...     print(rate.name, rate.value)
        accuracy 0.5
        precision 0.5
    """
    truth, values = _check_pairs(labels, scores)
    if not (values >= threshold).any():
        raise InvalidOption(
            f"no pair reaches the threshold {threshold:g}, so precision is undefined; the highest score is "
            f"{values.max():g}. Choose a lower threshold."
        )
    predicted = (values >= threshold).astype(np.float64)
    # Columns: predicted correctly, predicted and labelled 1, predicted, labelled 1.
    outcomes = np.stack([predicted == truth, predicted * truth, predicted, truth], axis=1).astype(np.float64)
    clusters = np.arange(truth.size) if images is None else np.unique(np.asarray(images), return_inverse=True)[1]
    bootstrap = ClusterBootstrap(clusters, Draws(seed, BOOTSTRAP_SAMPLES))
    estimates = _rates(outcomes.mean(axis=0))
    drawn = _rates(bootstrap.means(outcomes))
    rates = []
    for name in RATES:
        defined = drawn[name][~np.isnan(drawn[name])]
        rates.append(Rate(name, float(estimates[name]), *interval(defined, confidence)))
    return tuple(rates)


def choose_threshold(
    scores: ArrayLike,
    labels: ArrayLike,
    *,
    for_: str = "f_half",
    precision: float | None = None,
    share: float | None = None,
) -> float:
    """The threshold, among all distinct scores, that maximises a measure, or reaches a precision with the best recall.

    Of equally good thresholds the highest is chosen. The measure is ``f_half`` or ``accuracy``. ``share`` is that of
    entailed pairs in the data for which a threshold is to reach ``precision``; None for that of these pairs.

    Example:
        >>> choose_threshold([0.9, 0.8, 0.8, 0.3, 0.1], [1, 1, 0, 1, 0], precision=0.6)
        0.3
        >>> choose_threshold([0.9, 0.8, 0.8, 0.3, 0.1], [1, 1, 0, 1, 0], precision=0.9)
        0.9
    """
    truth, values = _check_pairs(labels, scores)
    levels, predicted, hits = _count_from_the_top(truth, values)
    shares = hits / predicted if share is None else _at_share(hits, predicted, truth, share)
    if precision is None:
        # A single division of integers, so that equal values are equal in floating point too.
        by_measure = {
            "f_half": 5 * hits / (4 * predicted + truth.sum()),
            "accuracy": (truth.size - truth.sum() - predicted + 2 * hits),
        }
        if for_ not in by_measure:
            raise UnknownName("measure to choose a threshold for", for_, by_measure)
        return float(levels[np.argmax(by_measure[for_])])
    check_precision(precision)
    reached = np.flatnonzero(shares >= precision)
    if not reached.size:
        best = int(np.argmax(shares))
        raise InvalidOption(
            f"no threshold reaches a precision of {precision:g} on these {truth.size:,} pairs; the highest is "
            f"{shares[best]:.3f}, at {levels[best]:g}. Ask for a lower precision, or use a better classifier."
        )
    return float(levels[reached[np.argmax(hits[reached])]])


def area_under_curve(labels: ArrayLike, scores: ArrayLike) -> float:
    """Area under the ROC curve: the share of pairs of both labels that the scores order rightly, ties counting half.

    Example:
        >>> area_under_curve([1, 1, 0, 0], [0.9, 0.4, 0.4, 0.1])
        0.875
    """
    from scipy.stats import rankdata

    truth, values = _check_pairs(labels, scores)
    positives = truth.sum()
    if positives == truth.size:
        raise DataError(f"all {truth.size} pairs are labelled 1: the ROC curve needs pairs of both labels")
    above = rankdata(values) @ truth - positives * (positives + 1) / 2
    return float(above / positives / (truth.size - positives))


def average_precision(labels: ArrayLike, scores: ArrayLike, *, share: float | None = None) -> float:
    """The mean of the precision at each entailed pair's score, reweighted to ``share`` of entailed pairs."""
    truth, values = _check_pairs(labels, scores)
    _, predicted, hits = _count_from_the_top(truth, values)
    return float(np.diff(hits, prepend=0) @ _at_share(hits, predicted, truth, share) / truth.sum())


def precision_of_best(labels: ArrayLike, scores: ArrayLike, pairs: int, *, share: float | None = None) -> float:
    """The expected precision of the ``pairs`` with the highest scores, with ties broken at random."""
    truth, values = _check_pairs(labels, scores)
    _, predicted, hits = _count_from_the_top(truth, values)
    hits_of_best = np.interp([pairs], np.append(0, predicted), np.append(0, hits))
    return float(_at_share(hits_of_best, np.array([pairs]), truth, share)[0])


def _count_from_the_top(truth: FloatArray, values: FloatArray) -> tuple[FloatArray, IntArray, FloatArray]:
    """The distinct scores in descending order, the number of pairs that reach each, and of those labelled 1."""
    levels, places = np.unique(-values, return_inverse=True)
    return -levels, np.cumsum(np.bincount(places)), np.cumsum(np.bincount(places, weights=truth))


def _at_share(hits: FloatArray, predicted: IntArray, truth: FloatArray, share: float | None) -> FloatArray:
    """Precisions of predicted pairs, reweighted to this share of entailed pairs."""
    if share is None:
        return np.asarray(hits / predicted)
    positives = truth.sum()
    weight = share / (1 - share) * (truth.size - positives) / positives
    return np.asarray(weight * hits / (weight * hits + predicted - hits))


def check_threshold(threshold: float) -> None:
    """Raise InvalidOption unless a threshold is in [0, 1]."""
    if not 0 <= threshold <= 1:
        raise InvalidOption(f"threshold {threshold:g}: probabilities run from 0 to 1")


def check_precision(precision: float) -> None:
    """Raise InvalidOption unless a precision is in (0, 1]."""
    if not 0 < precision <= 1:
        raise InvalidOption(f"precision {precision:g}: give a fraction above 0 and at most 1")


def log_odds(probabilities: ArrayLike) -> FloatArray:
    """The logits of probabilities."""
    clipped = np.clip(np.asarray(probabilities, dtype=np.float64), NEAREST, 1 - NEAREST)
    return np.asarray(np.log(clipped / (1 - clipped)))


def fit_calibration(scores: ArrayLike, labels: ArrayLike) -> tuple[float, float]:
    """Scale and offset of Platt's calibration: ``p = 1 / (1 + exp(-(scale score + offset)))``.

    A logistic regression of the label on the score, which keeps the order of the scores. The targets are Platt's (Lin,
    Lin and Weng, Machine Learning 2007), (N1 + 1) / (N1 + 2) and 1 / (N0 + 2), in place of 1 and 0, so that the scale
    is finite even for separable labels. DataError for equal labels, and scores that do not rise with the labels.

    Example:
        >>> scale, offset = fit_calibration([-2.0, -1.0, 0.5, 2.0], [0, 0, 1, 1])
        >>> scale > 0
        True
    """
    (scale,), offset = fit_logistic([scores], labels)
    if scale <= 0:
        raise DataError("calibration failed: pairs labelled 1 do not score higher than pairs labelled 0")
    return scale, offset


def fit_logistic(
    features: Sequence[ArrayLike], labels: ArrayLike, *, rising: bool = False
) -> tuple[tuple[float, ...], float]:
    """Weights of (K, N) features, none below 0 if ``rising``, and offset: logistic regression on Platt's targets."""
    from scipy.optimize import minimize

    truth = _check_pairs(labels, features[0])[0]
    columns = [_check_pairs(labels, feature)[1] for feature in features]
    positives = int(truth.sum())
    if positives == truth.size:
        raise DataError(f"all {truth.size} pairs are labelled 1: calibration needs pairs of both labels")
    centres = [float(values.mean()) for values in columns]
    spreads = [float(values.std()) for values in columns]
    for values in columns:
        if values.min() == values.max():  # their standard deviation may round to more than 0
            raise DataError(f"calibration failed: all {truth.size} scores are {values[0]:g}")
    inputs = [(values - centre) / spread for values, centre, spread in zip(columns, centres, spreads, strict=True)]
    high = (positives + 1) / (positives + 2)
    low = 1 / (truth.size - positives + 2)
    targets = np.where(truth == 1, high, low)

    def loss(weights: FloatArray) -> tuple[float, FloatArray]:
        logits = sum(weight * values for weight, values in zip(weights, inputs, strict=False)) + weights[-1]
        value = np.logaddexp(0, logits) - targets * logits
        slope = np.exp(-np.logaddexp(0, -logits)) - targets
        return float(value.mean()), np.array([*((slope * values).mean() for values in inputs), slope.mean()])

    options = {"maxiter": 1_000, "ftol": 1e-15, "gtol": 1e-10}
    start = np.append(np.ones(len(inputs)), 0.0)
    bounds = [(0.0 if rising else None, None)] * len(inputs)
    fitted = minimize(loss, start, jac=True, method="L-BFGS-B", options=options, bounds=[*bounds, (None, None)]).x
    offset = float(fitted[-1])
    for weight, centre, spread in zip(fitted, centres, spreads, strict=False):
        offset -= float(weight * centre / spread)
    return tuple(float(weight / spread) for weight, spread in zip(fitted, spreads, strict=False)), offset


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """The pairs with a probability in [low, high), the last bin including 1; ``share`` of them are labelled 1."""

    low: float
    high: float
    pairs: int
    probability: float
    share: float
    share_low: float
    share_high: float


@dataclass(frozen=True, slots=True)
class Reliability:
    """The bins that are not empty, ascending, and the expected calibration error."""

    bins: tuple[ReliabilityBin, ...]
    expected_error: float


def measure_reliability(labels: ArrayLike, probabilities: ArrayLike, *, confidence: float = 0.95) -> Reliability:
    """Compare (N,) probabilities with the share labelled 1, in bins of equal width (Guo et al., ICML 2017, eq. 3)."""
    truth, values = _check_pairs(labels, probabilities)
    outside = np.flatnonzero((values < 0) | (values > 1))
    if outside.size:
        raise DataError(f"probability {values[outside[0]]:g} of pair {outside[0]}: expected a number in [0, 1]")
    edges = np.arange(BINS + 1) / BINS  # linspace would give 0.30000000000000004 for 0.3
    places = np.minimum(np.searchsorted(edges, values, side="right") - 1, BINS - 1)
    filled = []
    for place in np.unique(places).tolist():
        inside = places == place
        share_low, share_high = wilson(truth[inside], confidence)
        filled.append(
            ReliabilityBin(
                low=float(edges[place]),
                high=float(edges[place + 1]),
                pairs=int(inside.sum()),
                probability=float(values[inside].mean()),
                share=float(truth[inside].mean()),
                share_low=share_low,
                share_high=share_high,
            )
        )
    gaps = [row.pairs * abs(row.probability - row.share) for row in filled]
    return Reliability(tuple(filled), math.fsum(gaps) / truth.size)


def _check_pairs(labels: ArrayLike, scores: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """(N,) labels and scores as float64, or DataError."""
    truth = np.asarray(labels)
    values = np.asarray(scores)
    if truth.ndim != 1 or truth.shape != values.shape or not truth.size:
        raise DataError(f"labels have shape {truth.shape}, scores {values.shape}: give one of each for every pair")
    wrong = np.flatnonzero((truth != 0) & (truth != 1))
    if wrong.size:
        raise DataError(
            f"{wrong.size:,} of {truth.size:,} pairs have a label other than 1 (entailed) and 0, the first: "
            f"{truth[wrong[0]]!s} of pair {wrong[0]}"
        )
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise DataError(f"score {values[bad[0]]!s} of pair {bad[0]}: expected a finite number")
    if not truth.any():
        raise DataError(f"none of {truth.size:,} pairs is labelled 1: recall is undefined")
    return truth.astype(np.float64), values.astype(np.float64)


def _rates(means: Sequence[Any] | FloatArray) -> Mapping[str, Any]:
    """Measures from the means of the four outcomes; NaN if nothing is predicted or labelled 1."""
    accuracy, both, predicted, positive = (np.asarray(mean) for mean in means)
    with np.errstate(invalid="ignore"):
        precision = both / predicted
        recall = both / positive
    return {"accuracy": accuracy, "precision": precision, "recall": recall, "f_half": f_half(precision, recall)}
