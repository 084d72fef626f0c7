"""Correlations of a model's similarities with human scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import pearsonr, spearmanr

from cxc_eccv.errors import MalformedRun
from cxc_eccv.statistics import fisher_interval
from cxc_eccv.statistics.agreement import GUARD_DIGITS
from cxc_eccv.sts.classifiers import Vectors
from cxc_eccv.types import FloatArray


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a task's table."""

    name: str  # subtask or aggregate: mean, weighted_mean, all, cosine, classifier
    pearson: float  # in [-1, 1]
    spearman: float
    pairs: int  # pairs with a human score
    low: float | None = None  # interval of ``pearson``; None for means of correlations
    high: float | None = None
    unscored: int = 0  # pairs without a human score, which are left out


def cosines(left: Vectors, right: Vectors) -> FloatArray:
    """(N,) cosines of pairs of nonzero rows."""
    a = left.astype(np.float64)
    b = right.astype(np.float64)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.asarray((a * b).sum(axis=1) / norms)


def correlate(name: str, predicted: FloatArray, scores: FloatArray, confidence: float = 0.95, unscored: int = 0) -> Row:
    """Correlations of (N,) predictions of a model with (N,) human scores.

    Predictions are ranked by ``GUARD_DIGITS`` decimals, as equal cosines of different vectors differ in their last bit.
    """
    if not np.isfinite(predicted).all():
        raise MalformedRun("the model's similarities contain NaN or infinite values; check its output")
    ordered = np.round(predicted, GUARD_DIGITS)
    if np.ptp(ordered) == 0:
        raise MalformedRun(f"the model gave all {predicted.size} pairs the same similarity; correlation is undefined")
    r = min(1.0, max(-1.0, float(pearsonr(predicted, scores).statistic)))
    low, high = fisher_interval(r, predicted.size, confidence)
    spearman = float(spearmanr(ordered, scores).statistic)
    return Row(name, r, spearman, predicted.size, low, high, unscored)


def pair_features(left: Vectors, right: Vectors) -> Vectors:
    """(N, 2 D) ``|u - v|`` and ``u * v``, side by side."""
    return np.concatenate([np.abs(left - right), left * right], axis=1, dtype=np.float32)
