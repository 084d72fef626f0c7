"""The bootstrap behind the intervals: equal to repeating queries, clustered, seeded, of the right width."""

import numpy as np
import oracles
import pytest

from cxc_eccv.statistics import ClusterBootstrap, Draws


def random_queries(seed, n_clusters=40, largest=6):
    random = np.random.default_rng(seed)
    clusters = np.repeat(random.permutation(1000)[:n_clusters], random.integers(1, largest, n_clusters))
    return random, random.permutation(clusters)


@pytest.mark.usefixtures("counted_by")
@pytest.mark.parametrize("seed", range(3))
def test_samples_equal_repeating_the_queries_of_drawn_images(seed):
    random, clusters = random_queries(seed)
    values = random.integers(1, 30, clusters.size).astype(float)
    draws = Draws(seed, samples=200)
    bootstrap = ClusterBootstrap(clusters, draws)
    times = draws.times(np.unique(clusters).size)
    means = oracles.bootstrap_statistics(values.tolist(), clusters.tolist(), times, np.mean)
    medians = oracles.bootstrap_statistics(values.tolist(), clusters.tolist(), times, np.median)
    np.testing.assert_allclose(bootstrap.means(np.stack([values, 2 * values], axis=1)), [means, 2 * means], rtol=1e-13)
    np.testing.assert_array_equal(bootstrap.medians(values), medians)


@pytest.mark.usefixtures("counted_by")
def test_medians_far_from_the_middle_are_found_too(monkeypatch):
    monkeypatch.setattr("cxc_eccv.statistics.intervals.WINDOW_DEVIATIONS", 0.0)
    random, clusters = random_queries(seed=5)
    values = random.permutation(clusters.size).astype(float)
    draws = Draws(0, samples=200)
    medians = oracles.bootstrap_statistics(
        values.tolist(), clusters.tolist(), draws.times(np.unique(clusters).size), np.median
    )
    np.testing.assert_array_equal(ClusterBootstrap(clusters, draws).medians(values), medians)


def test_draws_are_with_replacement_seeded_and_shared():
    draws = Draws(seed=3, samples=500)
    times = draws.times(100)
    assert set(times.sum(axis=1).tolist()) == {100}
    assert abs((times == 0).mean() - 0.99**100) < 0.01
    np.testing.assert_array_equal(times, Draws(seed=3, samples=500).times(100))
    assert (times != Draws(seed=4, samples=500).times(100)).any()


def test_many_clusters_are_drawn_as_well():
    times = Draws(0, samples=2).times(70_000)
    assert times.sum(axis=1).tolist() == [70_000, 70_000]
    assert times[:, 66_000:].sum() > 0


@pytest.mark.usefixtures("counted_by")
@pytest.mark.parametrize("largest", [1, 40, 5_000, 10_000])
def test_whole_numbers_are_summed_as_in_double_precision(largest):
    """Small ones in single precision, which is exact up to 2 ** 24."""
    random = np.random.default_rng(largest)
    clusters = np.sort(random.integers(0, 3_000, 9_000))
    values = random.integers(0, largest + 1, (9_000, 3)).astype(float)
    draws = Draws(seed=0, samples=150)
    times = draws.times(np.unique(clusters).size).astype(float)
    members = np.unique(clusters, return_inverse=True)[1]
    sums = np.stack([np.bincount(members, weights=column) for column in values.T])
    expected = (sums @ times.T) / (np.bincount(members) @ times.T)
    np.testing.assert_array_equal(ClusterBootstrap(clusters, draws).means(values), expected)
