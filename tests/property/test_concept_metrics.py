"""The metrics that explain failures equal brute force over all matchings, and keep their bounds."""

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cxc_eccv.metrics.concept_agreement import concept_agreement
from cxc_eccv.metrics.concept_enumeration import concept_enumeration
from cxc_eccv.metrics.non_common_similarity import non_common_similarity
from cxc_eccv.metrics.size_disagreement import RELATIVE_TO, size_disagreement
from cxc_eccv.types.concept_pairs import ConceptPairs

NAMES = "abcdefgh"
ROUND = st.integers(1, 20).map(lambda share: share / 20)
"""Areas that make equal sums of other pairs."""
AREAS = st.lists(st.one_of(ROUND, st.floats(0.001, 1)), min_size=1, max_size=4).map(np.array)


def images(least):
    return st.dictionaries(st.sampled_from(NAMES), AREAS, min_size=least, max_size=5)


FAILURES = st.lists(st.tuples(images(1), images(0)), min_size=1, max_size=5)


def pair(failures):
    truths, retrieved = zip(*failures, strict=True)
    return ConceptPairs(np.arange(len(failures)), truths, retrieved)


def assert_same(values, expected):
    np.testing.assert_allclose(values, [np.nan if value is None else value for value in expected], atol=1e-8)


@given(failures=FAILURES)
def test_agreement_and_enumeration_equal_plain_counts(failures):
    assert concept_agreement(pair(failures)).tolist() == [oracles.concept_agreement(*both) for both in failures]
    assert concept_enumeration(pair(failures)).tolist() == [oracles.concept_enumeration(*both) for both in failures]


@given(failures=FAILURES, seed=st.integers(0, 99), steps=st.sampled_from([3, 1000]))
def test_similarity_equals_the_best_of_all_matchings(failures, seed, steps):
    """With few steps many matchings are equally good."""
    half = np.random.default_rng(seed).integers(0, steps, (len(NAMES), len(NAMES))) / steps
    table = np.maximum(half, half.T)
    places = {name: place for place, name in enumerate(NAMES)}

    def similarity(names):
        rows = [places[name] for name in names]
        return table[np.ix_(rows, rows)]

    expected = [
        oracles.non_common_similarity(*both, lambda one, other: table[places[one], places[other]]) for both in failures
    ]
    assert_same(non_common_similarity(pair(failures), similarity), expected)


@pytest.mark.parametrize("relative_to", RELATIVE_TO)
@given(failures=FAILURES, threshold=st.sampled_from([None, 1.0, 0.25]))
def test_sizes_equal_the_best_of_all_matchings(relative_to, failures, threshold):
    values = size_disagreement(pair(failures), relative_to, threshold)
    assert_same(values, [oracles.size_disagreement(*both, relative_to, threshold) for both in failures])
    assert threshold is None or not (values > 1).any()


def test_equal_matchings_prefer_fewer_large_differences():
    """1 to 4 and 3 to 6 differ by as much as 1 to 6 and 3 to 4; the paper's metric is an optimistic one."""
    failure = ({"dog": np.array([0.1, 0.3])}, {"dog": np.array([0.4, 0.6])})
    assert size_disagreement(pair([failure]), "image", 0.4).tolist() == [0.0]
    assert size_disagreement(pair([failure]), "image", 0.2).tolist() == [0.5]
