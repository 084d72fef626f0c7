"""The classifier on top of sentence embeddings: from two vectors to a score between grades."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from scipy.stats import pearsonr

from cxc_eccv.types import FloatArray

__all__ = ["GradeClassifier", "grade_distribution", "pair_features"]

Features = NDArray[np.float32]

PENALTIES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
ITERATIONS = 100


def pair_features(left: NDArray[np.float32], right: NDArray[np.float32]) -> Features:
    """(N, 2 D) ``|u - v|`` and ``u * v``, side by side.

    Example:
        >>> pair_features(np.array([[1, 2]], dtype="f4"), np.array([[3, 2]], dtype="f4")).tolist()
        [[2.0, 0.0, 3.0, 4.0]]
    """
    return np.concatenate([np.abs(left - right), left * right], axis=1, dtype=np.float32)


def grade_distribution(scores: FloatArray, lowest: int, highest: int) -> FloatArray:
    """(N, grades) probabilities over whole grades whose expected value is the score.

    A score between two grades is shared between them: 3.6 is 0.4 of grade 3 and 0.6 of grade 4.

    References:
        Tai, Socher and Manning, Improved semantic representations from tree-structured long short-term memory
        networks, ACL 2015, arXiv:1503.00075, equation 16.

    Example:
        >>> grade_distribution(np.array([3.6, 5.0]), 1, 5).round(2).tolist()
        [[0.0, 0.0, 0.4, 0.6, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]]
    """
    grades = np.arange(lowest, highest + 1)
    return np.asarray(np.clip(1 - np.abs(scores[:, None] - grades), 0, 1))


@dataclass(frozen=True, slots=True, eq=False)
class GradeClassifier:
    """Softmax over grades from a linear layer; the prediction is the expected grade.

    SentEval trains the same layer by Adam on squared errors of the probabilities and stops early on the development
    part. Here the layer minimises the cross-entropy to the same targets plus an L2 penalty, which has one minimum and
    needs no seed; the penalty is the one with the highest Pearson correlation on the development part.

    Attributes:
        weights: (F + 1, grades), the last row the bias.
        scales: (F,) root mean square of each feature block in training.
        lowest: the lowest grade.
        penalty: the one selected.

    References:
        Conneau and Kiela, SentEval: An evaluation toolkit for universal sentence representations, LREC 2018,
        arXiv:1803.05449.
    """

    weights: FloatArray
    scales: Features
    lowest: int
    penalty: float

    @classmethod
    def fit(
        cls, train: tuple[Features, FloatArray], dev: tuple[Features, FloatArray], lowest: int, highest: int
    ) -> GradeClassifier:
        """Train on one part, select the penalty on another.

        Args:
            train: (N, F) features of :func:`pair_features` and (N,) scores.
            dev: likewise.
            lowest: lowest grade.
            highest: highest grade.

        Example:
            >>> random = np.random.default_rng(0)
            >>> features, scores = random.random((60, 2)).astype("f4"), np.arange(60) % 6
            >>> features[:, 0] = scores / 5
            >>> model = GradeClassifier.fit((features, scores), (features, scores), 0, 5)
            >>> float(np.corrcoef(model.predict(features), scores)[0, 1]) > 0.9
            True
        """
        scales = _block_scales(train[0])
        inputs, targets = _with_bias(train[0] / scales), grade_distribution(train[1], lowest, highest)
        weights = np.zeros((inputs.shape[1], targets.shape[1]))
        found: list[tuple[float, GradeClassifier]] = []
        for penalty in PENALTIES:  # from strong to weak, each starting where the one before ended
            weights = _minimum(inputs, targets.astype(np.float32), penalty, weights)
            model = cls(weights, scales, lowest, penalty)
            found.append((_pearson(model.predict(dev[0]), dev[1]), model))
        return max(found, key=lambda pair: pair[0])[1]

    def predict(self, features: Features) -> FloatArray:
        """(N,) expected grades."""
        probabilities = softmax(_with_bias(features / self.scales) @ self.weights, axis=1)
        return np.asarray(probabilities @ np.arange(self.lowest, self.lowest + probabilities.shape[1]))


def _block_scales(features: Features) -> Features:
    """One scale per block keeps the penalty meaning the same for any length of the vectors."""
    halves = np.split(features, 2, axis=1)
    return np.concatenate(
        [np.full(half.shape[1], max(float(np.sqrt(np.mean(half**2))), 1e-12), dtype=np.float32) for half in halves]
    )


def _with_bias(features: Features) -> Features:
    return np.concatenate([features, np.ones((len(features), 1), dtype=np.float32)], axis=1)


def _minimum(inputs: Features, targets: Features, penalty: float, start: FloatArray) -> FloatArray:
    def loss(flat: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        weights = flat.reshape(start.shape)
        logs = log_softmax(inputs @ weights.astype(np.float32), axis=1)
        gradient = inputs.T @ (np.exp(logs) - targets) / len(inputs)
        decay = penalty * weights
        decay[-1] = 0
        value = -float((targets * logs).sum()) / len(inputs) + 0.5 * float((decay * weights).sum())
        return value, (gradient + decay).ravel().astype(np.float64)

    found = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": ITERATIONS})
    return np.asarray(found.x.reshape(start.shape))


def _pearson(predicted: FloatArray, scores: FloatArray) -> float:
    """-1 where the strongest penalty left all predictions equal."""
    return float(pearsonr(predicted, scores).statistic) if np.ptp(predicted) > 0 else -1.0
