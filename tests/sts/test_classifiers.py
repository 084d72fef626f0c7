"""The classifiers of grades: SentEval's step by step against torch, the other against plain descent."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")

from cxc_eccv.sts import classifiers  # noqa: E402 - after the check for torch
from cxc_eccv.sts.classifiers import CrossEntropyClassifier, SentEvalClassifier, grade_distribution  # noqa: E402
from cxc_eccv.sts.correlations import pair_features  # noqa: E402

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize(("lowest", "highest"), [(0, 5), (1, 5)])
def test_the_expected_grade_is_the_score(lowest, highest):
    scores = np.linspace(lowest, highest, 23)
    targets = grade_distribution(scores, lowest, highest)
    np.testing.assert_allclose(targets.sum(axis=1), 1)
    np.testing.assert_allclose(targets @ np.arange(lowest, highest + 1), scores)
    assert ((targets > 0).sum(axis=1) <= 2).all()


def scored_pairs(count, seed):
    """Vectors whose absolute difference in the first place tells the score."""
    random = np.random.default_rng(seed)
    left, right = random.standard_normal((2, count, 6)).astype("f4")
    scores = np.clip(5 - 2 * np.abs(left - right)[:, 0] + 0.2 * random.standard_normal(count), 1, 5)
    return pair_features(left, right), scores


def test_classifier_reaches_the_minimum_of_plain_descent(monkeypatch):
    monkeypatch.setattr(classifiers, "PENALTIES", (1e-2,))  # with less, descent takes far too long
    train = scored_pairs(120, 0)
    dev = scored_pairs(60, 1)
    model = CrossEntropyClassifier.fit(train, dev, 1, 5)
    inputs = np.hstack([train[0] / model.scales, np.ones((120, 1))])
    targets = grade_distribution(train[1], 1, 5)
    weights = np.zeros((inputs.shape[1], 5))
    for _ in range(3_000):
        powers = np.exp(inputs @ weights)
        slope = inputs.T @ (powers / powers.sum(axis=1, keepdims=True) - targets) / 120
        slope[:-1] += model.penalty * weights[:-1]
        weights -= 0.3 * slope
    powers = np.exp(np.hstack([dev[0] / model.scales, np.ones((60, 1))]) @ weights)
    expected = (powers / powers.sum(axis=1, keepdims=True)) @ np.arange(1, 6)
    np.testing.assert_allclose(model.predict(dev[0]), expected, atol=0.02)
    assert np.corrcoef(model.predict(dev[0]), dev[1])[0, 1] > 0.9


def test_the_length_of_the_vectors_does_not_matter():
    train = scored_pairs(120, 0)
    dev = scored_pairs(60, 1)
    left, right = np.random.default_rng(2).standard_normal((2, 8, 6)).astype("f4")

    def stretched(features, factor):
        return np.concatenate([factor * features[:, :6], factor**2 * features[:, 6:]], axis=1).astype("f4")

    plain = CrossEntropyClassifier.fit(train, dev, 1, 5)
    longer = CrossEntropyClassifier.fit((stretched(train[0], 8), train[1]), (stretched(dev[0], 8), dev[1]), 1, 5)
    features = pair_features(left, right)
    np.testing.assert_allclose(plain.predict(features), longer.predict(stretched(features, 8)), atol=1e-3)


@pytest.mark.parametrize("best", range(5))
def test_best_penalty_on_dev_is_chosen(monkeypatch, best):
    qualities = iter([0.9 if place == best else 0.1 * place for place in range(5)])
    monkeypatch.setattr(classifiers, "_pearson", lambda *_: next(qualities))
    model = CrossEntropyClassifier.fit(scored_pairs(20, 0), scored_pairs(9, 1), 1, 5)
    assert model.penalty == classifiers.PENALTIES[best]


def senteval_targets(scores):
    """Each score between two whole grades from 1 to 5, in the words of the paper; a part below 1 is lost."""
    targets = np.zeros((len(scores), 5), dtype=np.float32)
    for row, score in enumerate(scores):
        below = int(np.floor(score))
        for grade, share in ((below, below + 1 - score), (below + 1, score - below)):
            if 1 <= grade <= 5:
                targets[row, grade - 1] = share
    return targets


@pytest.mark.parametrize("scores", [np.linspace(0, 5, 51), np.array([0.0, 0.4, 1.0, 3.25, 5.0])])
def test_senteval_targets_lose_what_lies_below_grade_one(scores):
    found = grade_distribution(scores, *classifiers.SENTEVAL_GRADES)
    np.testing.assert_allclose(found, senteval_targets(scores), atol=1e-6)


def torch_training(inputs, scores, start, order, checks):
    """Weights after each 50 epochs of torch's Adam on the mean squared error, from the same start and order."""
    layer = torch.nn.Linear(inputs.shape[1], 5)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(start[:-1].T.copy()))
        layer.bias.copy_(torch.from_numpy(start[-1].copy()))
    optimizer = torch.optim.Adam(layer.parameters())
    targets = torch.from_numpy(senteval_targets(scores))
    for _ in range(checks):
        for _ in range(50):
            for batch in torch.from_numpy(order.permutation(len(inputs))).split(64):
                loss = torch.nn.functional.mse_loss(layer(torch.from_numpy(inputs)[batch]).softmax(-1), targets[batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        yield np.vstack([layer.weight.detach().numpy().T, layer.bias.detach().numpy()])


def test_senteval_training_is_that_of_torch():
    features, scores = scored_pairs(150, 0)
    scores = np.clip(scores - 1, 0, 5)
    inputs = np.hstack([features, np.ones((150, 1), dtype=np.float32)])
    targets = grade_distribution(scores, *classifiers.SENTEVAL_GRADES).astype(np.float32)
    weights = np.random.default_rng(5).uniform(-0.3, 0.3, (13, 5)).astype(np.float32)
    expected = torch_training(features, scores, weights.copy(), np.random.default_rng(7), checks=3)
    steps = classifiers._adam_steps(weights, inputs, targets, np.random.default_rng(7))
    for ours, theirs in zip(steps, expected, strict=False):
        assert ours is None
        np.testing.assert_allclose(weights, theirs, atol=2e-4)


@pytest.mark.parametrize(
    ("pearsons", "best", "checks"),
    [
        ([0.1, 0.2, 0.3, 0.1, 0.4, 0.1, 0.1, 0.1, 0.9], 4, 8),  # failures count though they are not in a row
        ([0.5, 0.1, 0.1, 0.1, 0.1, 0.9], 0, 5),
        (list(np.arange(40) / 40), 20, 21),
    ],
    ids=["some", "none", "all"],
)
def test_senteval_stops_after_four_checks_without_gain(monkeypatch, pearsons, best, checks):
    seen = []
    values = iter(pearsons)
    monkeypatch.setattr(classifiers, "_pearson", lambda *_: seen.append(1) or next(values))
    monkeypatch.setattr(classifiers, "_adam_steps", lambda weights, *_: _count_in(weights))
    model = SentEvalClassifier.fit(scored_pairs(20, 0), scored_pairs(9, 1))
    assert model.weights[0, 0] == best
    assert len(seen) == checks


def _count_in(weights):
    """Steps that write their number into the weights."""
    for number in range(40):
        weights[:] = number
        yield


def test_senteval_classifier_learns_and_repeats_itself():
    train, dev, test = (scored_pairs(count, seed) for seed, count in enumerate((300, 80, 80)))
    first, second = (SentEvalClassifier.fit(train, dev).predict(test[0]) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert np.corrcoef(first, test[1])[0, 1] > 0.85
    assert (first >= 1).all()
    assert (first <= 5).all()
