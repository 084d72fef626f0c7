"""Probabilities of how many independent events happen, for expected values of metrics."""

from __future__ import annotations

import numpy as np

from cxc_eccv.types import FloatArray


def add_event(chances: FloatArray, probability: FloatArray) -> FloatArray:
    """(..., N) chances of 0 to N - 1 events after adding one event of (...) probability."""
    happens = chances * probability[..., None]
    after = chances - happens
    after[..., 1:] += happens[..., :-1]
    return after


def count_chances(probabilities: FloatArray) -> FloatArray:
    """(..., M + 1) chances that 0 to M of (..., M) independent events happen (Poisson binomial distribution)."""
    chances = np.zeros((*probabilities.shape[:-1], probabilities.shape[-1] + 1))
    chances[..., 0] = 1
    for place in range(probabilities.shape[-1]):
        chances = add_event(chances, probabilities[..., place])
    return chances
