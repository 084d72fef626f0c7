"""Classifiers of the grade that people gave a pair of sentences, from features of its two frozen vectors.

Each is one linear layer with a softmax over whole grades, and predicts the expected grade. They differ in training.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from scipy.stats import pearsonr

from cxc_eccv.types import FloatArray

Vectors = NDArray[np.float32]
Scored = tuple[Vectors, FloatArray]
"""(N, F) features of pairs and their (N,) scores."""

SENTEVAL_GRADES = (1, 5)
"""Lowest and highest grade of every task in SentEval."""

SENTEVAL_SEED = 1111
BATCH_SIZE = 64
LEARNING_RATE = 1e-3
EPOCHS_PER_CHECK = 50
MAX_EPOCHS = 1_000
PATIENCE = 3

PENALTIES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
ITERATIONS = 100


def grade_distribution(scores: FloatArray, lowest: int, highest: int) -> FloatArray:
    """(N, grades) probabilities over whole grades whose expected value is the score (arXiv:1503.00075, equation 16).

    The probabilities of a score below the lowest grade sum to less than 1.
    """
    grades = np.arange(lowest, highest + 1)
    return np.asarray(np.clip(1 - np.abs(scores[:, None] - grades), 0, 1))


@dataclass(frozen=True, slots=True, eq=False)
class SentEvalClassifier:
    """SentEval's procedure (arXiv:1803.05449): Adam on squared errors, stopped early on the development part.

    SentEval gives every task the grades 1 to 5. Of the STS Benchmark, where scores begin at 0, the targets of a score
    of 0.4 are 0.4 for grade 1 and 0 for the others.
    """

    weights: Vectors  # (F + 1, grades), the last row is the bias

    @classmethod
    def fit(cls, train: Scored, dev: Scored) -> Self:
        """Train on one part until the Pearson correlation on another stops rising."""
        random = np.random.default_rng(SENTEVAL_SEED)
        inputs = _with_bias(train[0])
        targets = grade_distribution(train[1], *SENTEVAL_GRADES).astype(np.float32)
        bound = train[0].shape[1] ** -0.5
        weights = random.uniform(-bound, bound, (inputs.shape[1], targets.shape[1])).astype(np.float32)
        best = cls(weights)
        highest = -np.inf
        failed_checks = 0
        steps = _adam_steps(weights, inputs, targets, random)
        for _ in range(0, MAX_EPOCHS + 1, EPOCHS_PER_CHECK):
            next(steps)
            model = cls(weights.copy())
            pearson = _pearson(model.predict(dev[0]), dev[1])
            if pearson > highest:
                best = model
                highest = pearson
            elif failed_checks == PATIENCE:  # SentEval counts all checks that failed, not those in a row
                break
            else:
                failed_checks += 1
        return best

    def predict(self, features: Vectors) -> FloatArray:
        """(N,) expected grades."""
        return _expected_grades(_with_bias(features), self.weights, SENTEVAL_GRADES[0])


def _adam_steps(weights: Vectors, inputs: Vectors, targets: Vectors, random: np.random.Generator) -> Iterator[None]:
    """Train ``weights`` in place by Adam (arXiv:1412.6980, algorithm 1); yields after the epochs between two checks."""
    mean = np.zeros_like(weights)
    square = np.zeros_like(weights)
    step = 0
    while True:
        for _ in range(EPOCHS_PER_CHECK):
            for batch in np.split(order := random.permutation(len(inputs)), range(BATCH_SIZE, len(order), BATCH_SIZE)):
                step += 1
                gradient = _squared_error_gradient(weights, inputs[batch], targets[batch])
                mean += np.float32(0.1) * (gradient - mean)
                square += np.float32(0.001) * (gradient * gradient - square)
                rate = np.float32(LEARNING_RATE / (1 - 0.9**step))
                weights -= rate * mean / (np.sqrt(square / np.float32(1 - 0.999**step)) + np.float32(1e-8))
        yield


def _squared_error_gradient(weights: Vectors, inputs: Vectors, targets: Vectors) -> Vectors:
    """Gradient of the mean squared error of the probabilities."""
    probabilities = softmax(inputs @ weights, axis=1)
    slopes = 2 / targets.size * (probabilities - targets) * probabilities
    return np.asarray(inputs.T @ (slopes - probabilities * slopes.sum(axis=1, keepdims=True)))


@dataclass(frozen=True, slots=True, eq=False)
class CrossEntropyClassifier:
    """Cross-entropy plus an L2 penalty, which has one minimum and needs no seed.

    The penalty maximises the Pearson correlation on the development part.
    """

    weights: FloatArray  # (F + 1, grades), the last row is the bias
    scales: Vectors  # (F,) root mean square of each block of training features
    lowest: int
    penalty: float

    @classmethod
    def fit(cls, train: Scored, dev: Scored, lowest: int, highest: int) -> Self:
        """Train on one part and select the penalty on another."""
        scales = _block_scales(train[0])
        inputs = _with_bias(train[0] / scales)
        targets = grade_distribution(train[1], lowest, highest)
        weights = np.zeros((inputs.shape[1], targets.shape[1]))
        candidates: list[tuple[float, Self]] = []
        for penalty in PENALTIES:  # from strong to weak, each starting from the previous weights
            weights = _minimum(inputs, targets.astype(np.float32), penalty, weights)
            model = cls(weights, scales, lowest, penalty)
            candidates.append((_pearson(model.predict(dev[0]), dev[1]), model))
        return max(candidates, key=lambda pair: pair[0])[1]

    def predict(self, features: Vectors) -> FloatArray:
        """(N,) expected grades."""
        return _expected_grades(_with_bias(features / self.scales), self.weights, self.lowest)


def _expected_grades(inputs: Vectors, weights: NDArray[np.floating[Any]], lowest: int) -> FloatArray:
    probabilities = softmax(inputs @ weights.astype(np.float64), axis=1)
    return np.asarray(probabilities @ np.arange(lowest, lowest + weights.shape[1]))


def _block_scales(features: Vectors) -> Vectors:
    """One scale per block, so that a penalty means the same for vectors of any length."""
    halves = np.split(features, 2, axis=1)
    return np.concatenate(
        [np.full(half.shape[1], max(float(np.sqrt(np.mean(half**2))), 1e-12), dtype=np.float32) for half in halves]
    )


def _with_bias(features: Vectors) -> Vectors:
    return np.concatenate([features, np.ones((len(features), 1), dtype=np.float32)], axis=1)


def _minimum(inputs: Vectors, targets: Vectors, penalty: float, start: FloatArray) -> FloatArray:
    def loss(flat: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        weights = flat.reshape(start.shape)
        logs = log_softmax(inputs @ weights.astype(np.float32), axis=1)
        gradient = inputs.T @ (np.exp(logs) - targets) / len(inputs)
        decay = penalty * weights
        decay[-1] = 0
        value = -float((targets * logs).sum()) / len(inputs) + 0.5 * float((decay * weights).sum())
        return value, (gradient + decay).ravel().astype(np.float64)

    minimum = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": ITERATIONS})
    return np.asarray(minimum.x.reshape(start.shape))


def _pearson(predicted: FloatArray, scores: FloatArray) -> float:
    """Pearson's correlation, or -1 if all predictions are equal, as under a strong penalty."""
    return float(pearsonr(predicted, scores).statistic) if np.ptp(predicted) > 0 else -1.0
