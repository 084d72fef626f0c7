"""Correlations against slow formulas and the paper's printed intervals."""

import math

import numpy as np
import pytest
from scipy.stats import spearmanr

from cxc_eccv.errors import InvalidOption, MalformedRun
from cxc_eccv.statistics import fisher_interval
from cxc_eccv.sts.correlations import correlate, cosines, pair_features

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
        a = a - a.mean()
        b = b - b.mean()
        return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(a * a) * sum(b * b))

    def ranks(values):
        return np.array([(values < one).sum() + (1 + (values == one).sum()) / 2 for one in values])

    found = correlate("all", predicted, scores)
    assert found.pearson == pytest.approx(pearson(predicted, scores), abs=1e-12)
    assert found.spearman == pytest.approx(pearson(ranks(predicted), ranks(scores)), abs=1e-12)
    assert found.low < found.pearson < found.high
    assert found.pairs == 40


def test_cosines_equal_but_for_rounding_tie():
    random = np.random.default_rng(3)
    exact = random.integers(0, 5, 60) / 8
    rounded = exact * (1 + random.integers(-1, 2, 60) * 2.0**-52)
    human = random.integers(0, 6, 60).astype(float)
    assert np.unique(rounded).size > np.unique(exact).size
    assert correlate("all", rounded, human).spearman == pytest.approx(spearmanr(exact, human).statistic, abs=1e-12)
    with pytest.raises(MalformedRun, match="the same similarity"):
        correlate("all", 0.5 + np.arange(5) * 2.0**-52, np.arange(5.0))


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


def test_pair_features_are_difference_and_product():
    left = np.array([[1, 2]], dtype="f4")
    right = np.array([[3, 2]], dtype="f4")
    np.testing.assert_array_equal(pair_features(left, right), [[2, 0, 3, 4]])
