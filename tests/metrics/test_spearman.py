"""bootstrap_spearman and spearman_all_pairs: worked cases, equality with scipy on the same draws, and bad input."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from cxc_eccv.errors import DataError, InvalidOption, MalformedRun
from cxc_eccv.metrics.bootstrap_spearman import CodedPairs, bootstrap_spearman, query_draws
from cxc_eccv.metrics.spearman_all_pairs import spearman_all_pairs
from cxc_eccv.types import RatedPairs

N_ROWS = 300


@pytest.fixture
def random():
    return np.random.default_rng(5)


def some_pairs(random, n_queries=40, levels=None):
    queries = np.concatenate([np.arange(n_queries), random.integers(0, n_queries, N_ROWS - n_queries)]) + 700
    ratings = random.random(N_ROWS) * 5 if levels is None else random.integers(0, levels, N_ROWS) / 2
    return RatedPairs(queries, np.arange(N_ROWS), ratings)


def rated(ratings, queries=None):
    ratings = np.asarray(ratings)
    queries = np.arange(ratings.size) if queries is None else np.asarray(queries)
    return RatedPairs(queries, np.arange(queries.size), ratings)


def test_perfect_order_gives_one_and_reversed_minus_one(random):
    pairs = some_pairs(random)
    assert set(bootstrap_spearman(pairs, pairs.ratings**3, n_samples=20).tolist()) == {1.0}
    assert set(bootstrap_spearman(pairs, -pairs.ratings, n_samples=20).tolist()) == {-1.0}


@pytest.mark.usefixtures("counted_by")
@pytest.mark.parametrize("levels", [None, 2, 3, 11])
@pytest.mark.parametrize("score_levels", [None, 2, 7])
def test_equal_to_scipy_on_the_same_draws(levels, score_levels, random):
    pairs = some_pairs(random, levels=levels)
    noisy = pairs.ratings + random.normal(size=pairs.ratings.size)
    scores = noisy if score_levels is None else np.floor(noisy * score_levels / 8)
    expected = [spearmanr(pairs.ratings[rows], scores[rows]).statistic for rows in query_draws(pairs, 50, seed=3)]
    np.testing.assert_allclose(bootstrap_spearman(pairs, scores, 50, seed=3), expected, rtol=0, atol=1e-12)
    everything = spearmanr(pairs.ratings, scores).statistic
    assert float(spearman_all_pairs(pairs, scores)) == pytest.approx(everything, abs=1e-12)


def test_seed_fixes_the_samples(random):
    pairs = some_pairs(random)
    scores = random.random(N_ROWS)
    first, again, other = (bootstrap_spearman(pairs, scores, 10, seed=seed) for seed in (1, 1, 2))
    assert first.tobytes() == again.tobytes()
    assert not np.any(first == other)
    assert bootstrap_spearman(pairs, scores).shape == (1000,)


def test_fewer_samples_are_the_first_of_more(random):
    pairs = some_pairs(random)
    scores = random.random(N_ROWS)
    assert bootstrap_spearman(pairs, scores, 5).tolist() == bootstrap_spearman(pairs, scores, 50)[:5].tolist()


def test_score_types_do_not_change_the_samples(random):
    pairs = some_pairs(random)
    scores = random.integers(0, 9, N_ROWS)
    wide = bootstrap_spearman(pairs, scores.astype(np.float64), 5)
    assert bootstrap_spearman(pairs, scores, 5).tolist() == wide.tolist()
    assert bootstrap_spearman(pairs, scores.astype(np.float16), 5).tolist() == wide.tolist()


@pytest.mark.parametrize("metric", [bootstrap_spearman, spearman_all_pairs])
@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([0.1, 0.2, np.nan, 0.4, 0.5], "similarities hold 1 NaN or infinite values, the first in row 2"),
        ([0.1, 0.2, 0.3, 0.4, np.inf], "the first in row 4"),
        ([0.1, 0.2, 0.3, 0.4], r"similarities have shape \(4,\) for rated pairs of shape \(5,\)"),
        ([[0.1, 0.2, 0.3, 0.4, 0.5]], r"shape \(1, 5\)"),
        ([0.3] * 5, "similarities are all 0.3"),
        (["a", "b", "c", "d", "e"], "need real numbers"),
        (np.array([None, 1, 2, 3, 4]), "type object"),
    ],
)
def test_unusable_similarities_raise(metric, scores, message):
    with pytest.raises(MalformedRun, match=message):
        metric(rated([1.0, 2.0, 3.0, 4.0, 5.0]), np.asarray(scores))


@pytest.mark.parametrize("metric", [bootstrap_spearman, spearman_all_pairs])
@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (rated([1.0, np.nan, 3.0, 4.0]), "ratings hold 1 NaN"),
        (rated([2.5] * 4), "ratings are all 2.5"),
        (rated([1.0, 2.0, 3.0], queries=[1, 2, 3, 4]), r"ratings have shape \(3,\)"),
        (rated([]), "ratings are empty"),
        (RatedPairs(np.arange(4), np.arange(3), np.arange(4.0)), "item_ids"),
    ],
)
def test_unusable_ratings_raise(metric, pairs, message):
    with pytest.raises(DataError, match=message):
        metric(pairs, np.linspace(0, 1, pairs.query_ids.size))


def test_sample_with_equal_ratings_is_refused():
    pairs = rated([3.0] * 39 + [4.0])
    with pytest.raises(DataError, match=r"bootstrap_spearman, sample \d+: the ratings of all 20 chosen pairs"):
        bootstrap_spearman(pairs, np.arange(40.0))


def test_sample_with_equal_similarities_is_refused():
    with pytest.raises(MalformedRun, match=r"sample \d+: the similarities of all 20 chosen pairs are equal"):
        bootstrap_spearman(rated(np.arange(40.0)), np.array([0.5] * 39 + [0.6]))


def test_fewer_than_four_queries_raise():
    with pytest.raises(DataError, match="rated pairs of 3 queries"):
        bootstrap_spearman(rated([1.0, 2.0, 3.0, 4.0], queries=[1, 1, 2, 3]), np.arange(4.0))


@pytest.mark.parametrize("options", [{"n_samples": 1}, {"n_samples": 2.0}, {"n_samples": True}, {"n_samples": -1},
                                     {"seed": -1}, {"seed": None}, {"seed": 0.5}])  # fmt: skip
def test_options_outside_their_range_raise(options):
    with pytest.raises(InvalidOption, match=next(iter(options))):
        bootstrap_spearman(rated(np.arange(8.0)), np.arange(8.0), **options)


def test_repeated_row_counts_as_often_as_drawn(random):
    pairs = some_pairs(random)
    scores = random.random(N_ROWS)
    rows = np.array([5, 5, 9, 200, 5, 17])
    expected = spearmanr(pairs.ratings[rows], scores[rows]).statistic
    assert CodedPairs.of(pairs, scores).spearman([rows[None]])[0] == pytest.approx(expected, abs=1e-12)


LEAST_P = 1e-3
"""The seeds are fixed: these tests pass or fail for good."""


def pairs_of(sizes):
    queries = np.repeat(np.arange(len(sizes)) * 3 + 50, sizes)
    order = np.random.default_rng(8).permutation(queries.size)
    return RatedPairs(queries[order], order, order * 0.5)


@pytest.mark.parametrize("n_queries", [4, 5, 10, 11, 25_000])
def test_each_sample_draws_half_the_queries_once(n_queries):
    pairs = pairs_of(np.random.default_rng(0).integers(1, 5, n_queries))
    draws = list(query_draws(pairs, 6))
    assert len(draws) == 6
    for rows in draws:
        assert rows.size == n_queries // 2
        assert np.unique(pairs.query_ids[rows]).size == rows.size


def test_draws_ignore_the_order_of_rows():
    pairs = pairs_of([3] * 20)
    order = np.random.default_rng(1).permutation(60)
    moved = RatedPairs(pairs.query_ids[order], pairs.item_ids[order], pairs.ratings[order])
    for rows, moved_rows in zip(query_draws(pairs, 5), query_draws(moved, 5), strict=True):
        assert rows.tolist() == order[moved_rows].tolist()


def test_draws_ignore_the_order_of_repeated_ratings():
    queries = np.repeat(np.arange(6), 2)
    items = np.repeat(np.arange(6), 2)
    ratings = np.arange(12.0)
    swapped = np.arange(12) ^ 1
    there = [ratings[rows].tolist() for rows in query_draws(RatedPairs(queries, items, ratings), 9)]
    moved = RatedPairs(queries, items, ratings[swapped])
    assert there == [moved.ratings[rows].tolist() for rows in query_draws(moved, 9)]
