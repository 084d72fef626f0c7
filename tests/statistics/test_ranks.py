"""Rank intervals: equal to loops over ordered pairs, letters that say who is tied, and coverage in simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.statistics import (
    ClusterBootstrap,
    Draws,
    RankIntervals,
    detectable_difference,
    queries_to_detect,
    rank_intervals,
)


def slow_intervals(values, samples, clusters, confidence):
    """Every ordered pair is one hypothesis, "the first is not better"; rejected ones leave the family."""
    count, draws = samples.shape
    spread = {
        (j, k): np.std(samples[j] - samples[k], ddof=1) * math.sqrt(clusters / (clusters - 1))
        for j in range(count)
        for k in range(count)
        if j != k
    }
    freedom = 1 / (1 / (clusters - 1) + 1 / (draws - 1))
    rejected = set()
    while True:
        largest = sorted(
            max(
                (samples[j][s] - samples[k][s] - values[j] + values[k]) / spread[j, k]
                for j, k in spread
                if (j, k) not in rejected
            )
            for s in range(draws)
        )
        critical = stats.t.isf(stats.norm.sf(largest[math.ceil(confidence * (draws + 1)) - 1]), freedom)
        more = {(j, k) for (j, k), s in spread.items() if (values[j] - values[k]) / s > critical} - rejected
        if not more:
            break
        rejected |= more
    low = [1 + sum((k, j) in rejected for k in range(count)) for j in range(count)]
    high = [count - sum((j, k) in rejected for k in range(count)) for j in range(count)]
    return low, high, critical, spread


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("higher", [True, False])
def test_intervals_equal_loops_over_ordered_pairs(seed, higher):
    random = np.random.default_rng(seed)
    of_queries = random.normal(random.choice([0, 0.1, 0.25, 0.6], 6), 0.5, (80, 6)) + random.normal(0, 1, (80, 1))
    values = of_queries.mean(axis=0)
    samples = ClusterBootstrap(np.arange(80), Draws(seed, 150)).means(of_queries)
    found = rank_intervals(values, samples, 80, 0.9, higher_is_better=higher)
    sign = 1 if higher else -1
    low, high, critical, spread = slow_intervals(sign * values, sign * samples, 80, 0.9)
    assert (found.low.tolist(), found.high.tolist()) == (low, high)
    assert found.detectable[0, 1] == pytest.approx((critical + stats.norm.ppf(0.8)) * spread[0, 1], rel=1e-5)
    assert found.low.min() == 1
    assert found.high.max() == 6


def test_second_step_decides_a_pair_left_open():
    """Once clear pairs are decided, only the directions that they exclude stay in the family."""
    noise = np.random.default_rng(0).standard_normal((6, 4000))
    values = np.array([0.0, 3.95, 100, 200, 300, 400])
    found = rank_intervals(values, values[:, None] + noise, 10**6)
    assert np.quantile(np.ptp(noise, axis=0), 0.95) > 4
    assert found.low.tolist() == found.high.tolist() == [6, 5, 4, 3, 2, 1]


def test_models_share_a_letter_exactly_if_tied():
    random = np.random.default_rng(0)
    for count in (1, 2, 5, 9):
        for share in (0.2, 0.5, 0.9):
            tied = np.triu(random.random((count, count)) < share, 1)
            tied = tied | tied.T | np.eye(count, dtype=bool)
            letters = RankIntervals(np.ones(count, int), np.ones(count, int), tied, np.zeros_like(tied, float)).groups
            assert [[bool(set(a) & set(b)) for b in letters] for a in letters] == tied.tolist()


def test_equal_models_tie_and_different_ones_do_not():
    values = np.array([0.3, 0.3, 0.9])
    times = np.random.default_rng(0).normal(0, 0.01, 500)
    found = rank_intervals(values, np.stack([0.3 + times, 0.3 + times, 0.9 + times]), 100)
    assert (found.low.tolist(), found.high.tolist(), found.groups) == ([2, 2, 1], [3, 3, 1], ["b", "b", "a"])
    assert found.detectable[0, 1] == 0


def test_too_few_samples_decide_nothing():
    values = np.arange(3.0)
    samples = values[:, None] + np.random.default_rng(0).normal(0, 1e-3, (3, 18))
    assert rank_intervals(values, samples, 100, 0.95).high.tolist() == [3, 3, 3]
    assert rank_intervals(values, samples, 100, 0.9).high.tolist() == [3, 2, 1]


@pytest.mark.thorough
def test_ranks_are_covered_if_clusters_are_resampled():
    """Five equal models, five captions per image: the experiment rank_coverage.py in small."""
    right = {True: 0, False: 0}
    images = np.repeat(np.arange(100), 5)
    for seed in range(300):
        random = np.random.default_rng(seed)
        values = random.standard_normal((100, 5))[images] + 0.5 * random.standard_normal((500, 5))
        for clustered in right:
            clusters = images if clustered else np.arange(500)
            samples = ClusterBootstrap(clusters, Draws(seed, 400)).means(values)
            found = rank_intervals(values.mean(axis=0), samples, np.unique(clusters).size)
            right[clustered] += (found.low == 1).all() and (found.high == 5).all()
    assert right[True] / 300 > 0.92
    assert right[False] / 300 < 0.6


def test_detectable_difference_has_80_percent_power():
    level = 0.05 / 60
    true = detectable_difference(2.0, level)
    drawn = np.random.default_rng(0).normal(true, 2.0, 20_000)
    assert np.mean(2 * stats.norm.sf(np.abs(drawn) / 2) < level) == pytest.approx(0.8, abs=0.01)
    needed = queries_to_detect(true / 3, true, 1000)
    assert needed == 9000
    assert detectable_difference(2.0 * math.sqrt(1000 / needed), level) == pytest.approx(true / 3)
    assert queries_to_detect(0.0, true, 1000) is None


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([0.1, 0.2], np.zeros((3, 9)), 5), DataError, r"not \(2,\) and \(3, 9\)"),
        (([], np.zeros((0, 9)), 5), DataError, "at least one model"),
        (([0.1], np.zeros((1, 1)), 5), DataError, "not 1 and 5"),
        (([0.1], np.zeros((1, 9)), 1), DataError, "not 9 and 1"),
        (([0.1, np.nan], np.zeros((2, 9)), 5), DataError, "not finite"),
        (([0.1], np.full((1, 9), np.inf), 5), DataError, "not finite"),
        (([0.1], np.zeros((1, 9)), 5, 95), InvalidOption, "between 0 and 1"),
    ],
)
def test_what_has_no_ranks_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        rank_intervals(*arguments)
