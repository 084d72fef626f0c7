"""What holds for every set of rated pairs and similarities, against an oracle that counts pair by pair."""

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cxc_eccv.errors import DataError, MalformedRun
from cxc_eccv.metrics.bootstrap_spearman import bootstrap_spearman, query_draws
from cxc_eccv.metrics.spearman_all_pairs import spearman_all_pairs
from cxc_eccv.types import RatedPairs

SAMPLES = 4
MONOTONE = [lambda x: 3 * x - 40, lambda x: x**3, lambda x: np.exp(x / 4), lambda x: 1 / (1 + np.exp(-x / 8))]


@st.composite
def rated_with_scores(draw):
    """At least four queries; few distinct values, so that ties are common."""
    n_queries = draw(st.integers(4, 9))
    n_rows = draw(st.integers(n_queries, 30))
    queries = list(range(n_queries)) + draw(
        st.lists(st.integers(0, n_queries - 1), min_size=n_rows - n_queries, max_size=n_rows - n_queries)
    )
    values = st.lists(st.integers(-6, 6), min_size=n_rows, max_size=n_rows)
    ratings = draw(values)
    scores = draw(values)
    return RatedPairs(np.array(queries), np.arange(n_rows), np.array(ratings, float)), np.array(scores, float)


def exact_ranks(values):
    return [
        Fraction(2 * sum(other < value for other in values) + sum(other == value for other in values) + 1, 2)
        for value in values
    ]


def oracle(first, second):
    """Pearson's correlation of average ranks in exact fractions, or None where it is undefined."""
    x = exact_ranks(first.tolist())
    y = exact_ranks(second.tolist())
    middle = Fraction(len(x) + 1, 2)
    x = [rank - middle for rank in x]
    y = [rank - middle for rank in y]
    spread = sum(rank * rank for rank in x) * sum(rank * rank for rank in y)
    return float(sum(a * b for a, b in zip(x, y, strict=True))) / sqrt(spread) if spread else None


def bootstrapped(pairs, scores):
    """The samples, or nothing where one is undefined; the next test shows when that is."""
    try:
        return bootstrap_spearman(pairs, scores, SAMPLES)
    except (DataError, MalformedRun):
        return None


@given(rated_with_scores())
def test_samples_equal_the_oracle_or_raise(case):
    pairs, scores = case
    expected = [oracle(pairs.ratings[rows], scores[rows]) for rows in query_draws(pairs, SAMPLES)]
    if None in expected:
        with pytest.raises((DataError, MalformedRun)):
            bootstrap_spearman(pairs, scores, SAMPLES)
    else:
        np.testing.assert_allclose(bootstrap_spearman(pairs, scores, SAMPLES), expected, rtol=0, atol=1e-14)


@given(rated_with_scores())
def test_correlation_of_all_pairs_equals_the_oracle(case):
    """It raises where the correlation is undefined."""
    pairs, scores = case
    expected = oracle(pairs.ratings, scores)
    if expected is None:
        with pytest.raises((DataError, MalformedRun)):
            spearman_all_pairs(pairs, scores)
    else:
        assert float(spearman_all_pairs(pairs, scores)) == pytest.approx(expected, abs=1e-14)


@given(rated_with_scores(), st.sampled_from(MONOTONE))
def test_monotone_similarities_give_identical_bits(case, transform):
    pairs, scores = case
    values = bootstrapped(pairs, scores)
    assume(values is not None)
    assert bootstrap_spearman(pairs, transform(scores), SAMPLES).tobytes() == values.tobytes()


@given(rated_with_scores(), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_changes_no_bit(case, random):
    pairs, scores = case
    values = bootstrapped(pairs, scores)
    assume(values is not None)
    order = np.array(random.sample(range(scores.size), scores.size))
    moved = RatedPairs(pairs.query_ids[order], pairs.item_ids[order], pairs.ratings[order])
    assert bootstrap_spearman(moved, scores[order], SAMPLES).tobytes() == values.tobytes()
