"""Intervals of means over few images, against SciPy, Hall's transformation itself, and simulated data sets."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from cxc_eccv.statistics import FEW_IMAGES, ClusterBootstrap, Draws, interval, mean_interval, studentized_interval

TOOL = Path(__file__).parents[2] / "tools" / "experiments" / "interval_coverage.py"
SAMPLES = np.linspace(0.4, 0.6, 101)


def binary_values(n_images, hits):
    return (np.arange(n_images) < hits).astype(float)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_symmetric_values_have_students_interval(confidence):
    half = np.random.default_rng(0).normal(size=20)
    values = np.concatenate([half, -half]) + 3
    known = stats.ttest_1samp(values, 0).confidence_interval(confidence)
    found = studentized_interval(values, np.arange(40), confidence)
    assert found == pytest.approx([known.low, known.high])


@pytest.mark.parametrize("seed", range(5))
def test_ends_are_quantiles_of_halls_transformation(seed):
    """Hall 1992: T + a T^2 / 3 + a^2 T^3 / 27 + a / 6 has Student's distribution, with T the studentized mean."""
    random = np.random.default_rng(seed)
    clusters = np.repeat(random.permutation(30), random.integers(1, 6, 30))
    values = random.beta(0.3, 1.2, clusters.size)
    sums = np.array([(values[clusters == name] - values.mean()).sum() / values.size for name in range(30)])
    deviation = np.sqrt((sums**2).sum() * 30 / 29)
    skewness = (sums**3).sum() / (sums**2).sum() ** 1.5
    ends = np.array(studentized_interval(values, clusters, 0.9))
    t = (values.mean() - ends) / deviation
    transformed = t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6
    np.testing.assert_allclose(transformed, stats.t.ppf([0.95, 0.05], 29), rtol=1e-9)


@pytest.mark.parametrize("n_images", [1, 60, 2_500])
@pytest.mark.parametrize("share", [0, 1])
def test_share_of_none_or_all_has_wilsons_interval(n_images, share):
    values = np.full(5 * n_images, float(share))
    images = np.arange(values.size) // 5
    known = stats.binomtest(share * n_images, n_images).proportion_ci(0.95, method="wilson")
    for is_binary in (True, False):  # mAP@R of 1 for every query has no draws that differ either
        found = mean_interval(values, images, values[:9], 0.95, is_binary=is_binary)
        assert (found.low, found.high) == pytest.approx((known.low, known.high))
        assert found.method == "binomial_images"


def test_mean_over_one_image_has_wide_interval():
    found = mean_interval(np.array([1.0, 1, 0, 0, 0]), np.zeros(5, int), np.full(9, 0.4), 0.95, is_binary=True)
    assert found.low < 0.1
    assert found.high > 0.9
    assert found.method == "binomial_images"


@pytest.mark.parametrize("hits", [1, 2, 30, 58, 59])
def test_share_of_single_queries_stays_within_wilsons(hits):
    """Of one miss the transformation knows too little: alone it would reach from 0.88."""
    known = stats.binomtest(hits, 60).proportion_ci(0.95, method="wilson")
    found = mean_interval(binary_values(60, hits), np.arange(60), SAMPLES, 0.95, is_binary=True)
    assert known.low <= found.low <= hits / 60 <= found.high <= known.high
    assert found.method == "studentized"


@pytest.mark.parametrize("n_images", [FEW_IMAGES, 3 * FEW_IMAGES])
def test_bootstrap_stays_where_it_covers(n_images):
    values = np.random.default_rng(1).random(2 * n_images)
    found = mean_interval(values, np.arange(values.size) // 2, SAMPLES, 0.95)
    assert (found.low, found.high, found.method) == (*interval(SAMPLES, 0.95), "bootstrap")


def test_methods_agree_where_they_meet():
    random = np.random.default_rng(2)
    values = random.random(FEW_IMAGES - 1)
    images = np.arange(values.size)
    samples = ClusterBootstrap(images, Draws(0, 4_000)).means(values[:, None])[0]
    found = mean_interval(values, images, samples, 0.95)
    assert (found.low, found.high) == pytest.approx(interval(samples, 0.95), abs=0.002)
    assert found.method == "studentized"


def test_interval_ends_at_bounds_of_the_metric():
    values = np.array([0.0, 0.0, 0.0, 0.9])
    found = mean_interval(values, np.arange(4), SAMPLES, 0.95)
    assert (found.low, found.high) == (0.0, 1.0)
    assert mean_interval(values, np.arange(4), SAMPLES, 0.95, bounds=(0.0, None)).high > 1
    assert mean_interval(values, np.arange(4), SAMPLES, 0.95, bounds=(-1.0, None)).low < 0


@pytest.mark.thorough
def test_table_of_coverage_shows_what_it_is_for():
    """In 200 repetitions: where 95% hold, fewer than 91% are seen once in 100 times."""
    tool = runpy.run_path(str(TOOL))
    chosen = [one for one in tool["simulate"]() if one.name in ("R@1 i2t, 97%", "mAP@R, 5%", "median rank t2i, 40")]
    hits, precisions, ranks = tool["find_coverage"](chosen, 60, 200)
    assert hits[0] < 0.9 < hits[1]
    assert precisions[0] < precisions[1]
    assert precisions[1] > 0.91
    assert ranks[0] == ranks[1] > 0.91
