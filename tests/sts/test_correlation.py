"""Correlations against slow formulas and the paper's printed intervals; the classifier against plain descent."""

import math

import numpy as np
import pytest

from cxc_eccv import sts
from cxc_eccv.errors import InvalidOption, MalformedRun
from cxc_eccv.statistics import fisher_interval
from cxc_eccv.sts import GradeClassifier, correlate, cosines, grade_distribution, pair_features

PRINTED = [(42.3, 5.7, 6.1, 750), (34.5, 12.0, 13.2, 189), (86.2, 0.7, 0.7, 4927), (88.2, 1.5, 1.7, 750)]
"""Table 5 of the paper: r, upper and lower part of its interval, pairs."""


@pytest.mark.reference
@pytest.mark.parametrize(("r", "above", "below", "pairs"), PRINTED)
def test_intervals_are_the_papers(r, above, below, pairs):
    low, high = fisher_interval(r / 100, pairs)
    assert 100 * high - r == pytest.approx(above, abs=0.1)
    assert r - 100 * low == pytest.approx(below, abs=0.1)


@pytest.mark.parametrize(("pairs", "half"), [(12, 1.959964 / 3), (4, 1.959964)])
def test_an_interval_by_hand(pairs, half):
    """Fisher's z of r = 0.6 is ln(4) / 2; of n pairs its deviation is 1 / sqrt(n - 3): a third of 12, and 1 of 4."""
    low, high = fisher_interval(0.6, pairs)
    assert low == pytest.approx(math.tanh(math.log(4) / 2 - half), abs=1e-7)
    assert high == pytest.approx(math.tanh(math.log(4) / 2 + half), abs=1e-7)


def test_pearson_and_spearman_equal_loops():
    random = np.random.default_rng(0)
    scores = random.integers(0, 6, 40).astype(float)
    predicted = np.round(scores + random.standard_normal(40), 1)

    def pearson(a, b):
        a, b = a - a.mean(), b - b.mean()
        return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(a * a) * sum(b * b))

    def ranks(values):
        return np.array([(values < one).sum() + (1 + (values == one).sum()) / 2 for one in values])

    found = correlate("all", predicted, scores)
    assert found.pearson == pytest.approx(pearson(predicted, scores), abs=1e-12)
    assert found.spearman == pytest.approx(pearson(ranks(predicted), ranks(scores)), abs=1e-12)
    assert found.low < found.pearson < found.high
    assert found.pairs == 40


def test_perfect_agreement_has_a_point_for_an_interval():
    found = correlate("all", np.arange(5.0), 2 * np.arange(5.0))
    assert found.low == found.pearson == found.high == pytest.approx(1)


@pytest.mark.parametrize(
    ("predicted", "words"),
    [(np.ones(5), "all 5 pairs the same similarity"), (np.array([1, 2, np.nan, 4, 5]), "NaN or infinite")],
    ids=["constant", "nan"],
)
def test_no_number_without_a_correlation(predicted, words):
    with pytest.raises(MalformedRun, match=words):
        correlate("all", predicted, np.arange(5.0))


@pytest.mark.parametrize(("pairs", "confidence"), [(3, 0.95), (10, 1.0), (10, 0.0)])
def test_no_interval(pairs, confidence):
    with pytest.raises(InvalidOption, match=rf"got {pairs} and {confidence}"):
        fisher_interval(0.5, pairs, confidence)


def test_cosines_equal_a_loop():
    left, right = np.random.default_rng(1).standard_normal((2, 6, 4)).astype("f4")
    for row, value in enumerate(cosines(left, right)):
        norms = math.hypot(*map(float, left[row])) * math.hypot(*map(float, right[row]))
        assert value == pytest.approx(float(left[row] @ right[row]) / norms, abs=1e-6)


def test_features_of_a_pair_are_its_difference_and_its_product():
    left, right = np.array([[1, 2]], dtype="f4"), np.array([[3, 2]], dtype="f4")
    np.testing.assert_array_equal(pair_features(left, right), [[2, 0, 3, 4]])


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


def test_the_classifier_finds_the_same_minimum_as_plain_descent(monkeypatch):
    monkeypatch.setattr(sts, "PENALTIES", (1e-2,))  # with less, descent takes far too long
    train, dev = scored_pairs(120, 0), scored_pairs(60, 1)
    model = GradeClassifier.fit(train, dev, 1, 5)
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
    train, dev = scored_pairs(120, 0), scored_pairs(60, 1)
    left, right = np.random.default_rng(2).standard_normal((2, 8, 6)).astype("f4")

    def stretched(features, factor):
        return np.concatenate([factor * features[:, :6], factor**2 * features[:, 6:]], axis=1).astype("f4")

    plain = GradeClassifier.fit(train, dev, 1, 5)
    longer = GradeClassifier.fit((stretched(train[0], 8), train[1]), (stretched(dev[0], 8), dev[1]), 1, 5)
    features = pair_features(left, right)
    np.testing.assert_allclose(plain.predict(features), longer.predict(stretched(features, 8)), atol=1e-3)


@pytest.mark.parametrize("best", range(5))
def test_the_penalty_that_does_best_on_the_development_part_wins_wherever_it_stands(monkeypatch, best):
    qualities = iter([0.9 if place == best else 0.1 * place for place in range(5)])
    monkeypatch.setattr(sts, "_pearson", lambda *_: next(qualities))
    model = GradeClassifier.fit(scored_pairs(20, 0), scored_pairs(9, 1), 1, 5)
    assert model.penalty == sts.PENALTIES[best]
