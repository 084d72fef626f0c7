"""Intervals and tests of differences, on cases worked out by hand."""

import numpy as np
import pytest

from cxc_eccv.statistics import Draws, bootstrap_mean, enough_samples, interval, two_sided_p_value


def test_percentile_interval_has_equal_tails():
    assert interval(np.arange(101.0), 0.5) == (25, 75)


@pytest.mark.parametrize(
    ("differences", "p"), [([0.1, 0.2, 0.3, -0.1] * 25, 52 / 101), ([1.0] * 9, 0.2), ([0.0] * 9, 1.0)]
)
def test_p_value_counts_observed_sample_and_zeros(differences, p):
    assert two_sided_p_value(np.array(differences)) == pytest.approx(p)


def test_more_tests_and_lower_levels_need_more_samples():
    assert [enough_samples(*wanted) for wanted in ((14, 0.05), (54, 0.05), (54, 0.01))] == [10_000, 11_000, 54_000]


def test_bootstrap_mean_equals_plain_loop():
    random = np.random.default_rng(5)
    values = random.random(40)
    clusters = random.integers(0, 12, 40) * 10
    draws = Draws(seed=3, samples=200)
    names = np.unique(clusters)
    means = []
    for times in draws.times(names.size):
        drawn = []
        for name, number in zip(names, times.tolist(), strict=True):
            drawn += number * values[clusters == name].tolist()
        means.append(sum(drawn) / len(drawn))
    estimate = bootstrap_mean(values, clusters, draws, confidence=0.9)
    assert estimate.value == pytest.approx(values.mean())
    assert [estimate.low, estimate.high] == pytest.approx(np.quantile(means, [0.05, 0.95]))


def test_bootstrap_mean_takes_booleans():
    draws = Draws(seed=0, samples=50)
    assert bootstrap_mean([True, False], [1, 2], draws) == bootstrap_mean([1.0, 0.0], [1, 2], draws)
