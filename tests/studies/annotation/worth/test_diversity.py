"""Diversity of annotators, against loops over pairs of items."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import kendalltau

from cxc_eccv.studies.annotation.worth.bias import correlate_tops, place_first
from cxc_eccv.types import TopK


def tops(seed, depth=6, items=9, queries=40):
    random = np.random.default_rng(seed)
    return TopK(np.arange(queries), np.stack([random.permutation(items)[:depth] for _ in range(queries)]))


def test_orders_of_common_items_are_compared_pair_by_pair():
    one, other = tops(1), tops(2)
    found = correlate_tops(one, other)
    for value, left, right in zip(found, one.ids.tolist(), other.ids.tolist(), strict=True):
        signs = [
            np.sign((left.index(a) - left.index(b)) * (right.index(a) - right.index(b)))
            for a, b in combinations(sorted(set(left) & set(right)), 2)
        ]
        assert value == pytest.approx(np.mean(signs))
    assert correlate_tops(one, one) == pytest.approx(1)


def test_correlations_are_those_of_scipy():
    """Over more queries than are in memory together, as tau-b of the ranks of the common items."""
    one, other = tops(5, depth=25, items=60, queries=5_000), tops(6, depth=25, items=60, queries=5_000)
    found = correlate_tops(one, other)
    for query in (0, 1, 4_095, 4_096, 4_999):
        common = sorted(set(one.ids[query].tolist()) & set(other.ids[query].tolist()))
        ranks = [[own.ids[query].tolist().index(item) for item in common] for own in (one, other)]
        assert found[query] == pytest.approx(kendalltau(*ranks).statistic)
    assert not np.isnan(found).any()
    assert correlate_tops(other, one).tolist() == found.tolist()


def test_lists_with_less_than_two_common_items_have_no_correlation():
    one, other = TopK(np.array([1]), np.array([[1, 2]])), TopK(np.array([1]), np.array([[2, 3]]))
    assert np.isnan(correlate_tops(one, other)).all()


def test_where_another_places_the_first():
    one, other = tops(3), tops(4)
    expected = [
        right.index(left[0]) + 1 if left[0] in right else np.nan
        for left, right in zip(one.ids.tolist(), other.ids.tolist(), strict=True)
    ]
    assert np.array_equal(place_first(one, other), expected, equal_nan=True)
    assert np.isnan(expected).any()
