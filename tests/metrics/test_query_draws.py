"""query_draws: half of the queries without replacement, one row each, all equally likely."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chisquare

from cxc_eccv.metrics.bootstrap_spearman import query_draws
from cxc_eccv.types import RatedPairs

LEAST_P = 1e-3
"""The seeds are fixed: these tests pass or fail for good."""


def pairs_of(sizes):
    queries = np.repeat(np.arange(len(sizes)) * 3 + 50, sizes)
    order = np.random.default_rng(8).permutation(queries.size)
    return RatedPairs(queries[order], order, order * 0.5)


@pytest.mark.parametrize("n_queries", [4, 5, 10, 11, 25_000])
def test_each_sample_has_half_of_the_queries_once_each(n_queries):
    pairs = pairs_of(np.random.default_rng(0).integers(1, 5, n_queries))
    draws = list(query_draws(pairs, 6))
    assert len(draws) == 6
    for rows in draws:
        assert rows.size == n_queries // 2
        assert np.unique(pairs.query_ids[rows]).size == rows.size


def test_every_half_is_equally_likely():
    pairs = pairs_of([1, 2, 3, 4, 5])
    halves = [tuple(sorted(pairs.query_ids[rows].tolist())) for rows in query_draws(pairs, 5000)]
    counts = [halves.count(half) for half in combinations(range(50, 65, 3), 2)]
    assert sum(counts) == 5000
    assert chisquare(counts).pvalue > LEAST_P


def test_every_row_of_a_query_is_equally_likely():
    sizes = np.array([1, 2, 3, 5, 8, 13])
    pairs = pairs_of(sizes)
    counts = np.bincount(np.concatenate(list(query_draws(pairs, 6000, seed=4))), minlength=sizes.sum())
    for query in np.unique(pairs.query_ids):
        of_query = counts[pairs.query_ids == query]
        assert of_query.sum() == pytest.approx(3000, abs=5 * np.sqrt(1500))
        assert of_query.size == 1 or chisquare(of_query).pvalue > LEAST_P


def test_draws_follow_the_seed():
    pairs = pairs_of([2] * 30)
    first, again, other = (np.stack(list(query_draws(pairs, 5, seed=seed))) for seed in (1, 1, 2))
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()


def test_draws_do_not_depend_on_the_order_of_the_rows():
    pairs = pairs_of([3] * 20)
    order = np.random.default_rng(1).permutation(60)
    moved = RatedPairs(pairs.query_ids[order], pairs.item_ids[order], pairs.ratings[order])
    for rows, moved_rows in zip(query_draws(pairs, 5), query_draws(moved, 5), strict=True):
        assert rows.tolist() == order[moved_rows].tolist()


def test_draws_do_not_depend_on_the_order_of_two_ratings_of_one_pair():
    queries, items = np.repeat(np.arange(6), 2), np.repeat(np.arange(6), 2)
    ratings = np.arange(12.0)
    swapped = np.arange(12) ^ 1
    there = [ratings[rows].tolist() for rows in query_draws(RatedPairs(queries, items, ratings), 9)]
    moved = RatedPairs(queries, items, ratings[swapped])
    assert there == [moved.ratings[rows].tolist() for rows in query_draws(moved, 9)]
