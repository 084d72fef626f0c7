"""Dawid and Skene's model: their own example, a slow loop, and workers of known quality."""

import math

import numpy as np
import pytest

from cxc_eccv.errors import DataError
from cxc_eccv.studies.asking.settling import RIGHT, WRONG, estimate_truth


def simulate(seed, items=400, qualities=(0.95, 0.9, 0.8, 0.6, 0.5)):
    random = np.random.default_rng(seed)
    truth = random.random(items) < 0.3
    right = random.random((items, len(qualities))) < qualities
    answers = np.where(right, truth[:, None], ~truth[:, None]).astype(int)
    item, worker = (grid.ravel() for grid in np.mgrid[:items, : len(qualities)])
    return truth, item, worker, answers.ravel()


def estimate_slowly(item, worker, answer, classes, rounds):
    """Expectation maximisation in plain Python."""
    items, workers = range(max(item) + 1), range(max(worker) + 1)
    own = {i: [(w, a) for j, w, a in zip(item, worker, answer, strict=True) if j == i] for i in items}
    truth = {i: [sum(a == c for _, a in own[i]) / len(own[i]) for c in range(classes)] for i in items}
    for _ in range(rounds):
        prior = [sum(truth[i][c] for i in items) / len(items) for c in range(classes)]
        cells = [(w, c, k) for w in workers for c in range(classes) for k in range(classes)]
        table = {(w, c, k): RIGHT if c == k else WRONG for w, c, k in cells}
        for i, w, a in zip(item, worker, answer, strict=True):
            for c in range(classes):
                table[w, c, a] += truth[i][c]
        total = {(w, c): sum(table[w, c, k] for k in range(classes)) for w in workers for c in range(classes)}
        for i in items:
            weights = [prior[c] * math.prod(table[w, c, a] / total[w, c] for w, a in own[i]) for c in range(classes)]
            truth[i] = [weight / sum(weights) for weight in weights]
    return [truth[i] for i in items]


def test_a_slow_loop_agrees():
    random = np.random.default_rng(1)
    item, worker = (grid.ravel() for grid in np.mgrid[:12, :3])
    answer = random.integers(0, 3, item.size)
    answer[: 2 * 3] = 0
    slow = estimate_slowly(item.tolist(), worker.tolist(), answer.tolist(), 3, 2_000)
    assert estimate_truth(item, worker, answer, 3).probabilities == pytest.approx(np.array(slow), abs=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_it_finds_who_is_reliable_and_beats_the_majority(seed):
    truth, item, worker, answer = simulate(seed)
    found = estimate_truth(item, worker, answer, 2)
    majority = answer.reshape(-1, 5).mean(axis=1) > 0.5
    assert (found.probabilities.argmax(axis=1) == truth).mean() > (majority == truth).mean()
    assert found.quality == pytest.approx([0.95, 0.9, 0.8, 0.6, 0.5], abs=0.06)


def test_one_worker_is_believed():
    found = estimate_truth([0, 1, 2], [0, 0, 0], [1, 0, 1], 2)
    assert found.probabilities.argmax(axis=1).tolist() == [1, 0, 1]


def test_what_has_not_settled_is_no_answer(monkeypatch):
    monkeypatch.setattr("cxc_eccv.studies.asking.settling.PATIENCE", 1)
    with pytest.raises(DataError, match="did not converge in 1 steps; use the rule majority"):
        estimate_truth([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2], [1, 1, 0, 0, 0, 1], 2)
