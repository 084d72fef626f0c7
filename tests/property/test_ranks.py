"""Ranks equal a plain sort with the tie rule, and depend on nothing but the scores."""

import numpy as np
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from plain_ranks import by_query, by_sorting

from cxc_eccv.ranking import Options, ranked

DIRECTIONS = ("i2t", "t2i", "t2t", "i2i")


@pytest.mark.parametrize("direction", DIRECTIONS)
@given(data=st.data(), block_size=st.integers(1, 13))
def test_ranks_equal_a_plain_sort(direction, data, block_size):
    run, judgments = data.draw(strategies.judged_runs(direction))
    ranks = ranked(run, Options(similarity="dot", block_size=block_size)).rank(judgments, direction)
    assert by_query(ranks) == by_sorting(run, judgments, direction)
    np.testing.assert_array_equal(ranks.n_positives, judgments.n_positives)


@given(data=st.data(), block_size=st.integers(1, 13))
def test_one_product_for_both_directions_equals_two(data, block_size):
    run, i2t = data.draw(strategies.judged_runs("i2t"))
    more = data.draw(strategies.judgments_of(run, "i2t")), data.draw(strategies.judgments_of(run, "t2i"))
    requests = {
        "a": ("i2t", i2t),
        "b": ("t2i", more[1]),
        "c": ("i2t", more[0]),
        "d": ("t2t", data.draw(strategies.judgments_of(run, "t2t"))),
    }
    together = ranked(run, Options(similarity="dot", block_size=block_size)).rank_all(requests)
    for name, (direction, judgments) in requests.items():
        alone = ranked(run, Options(similarity="dot")).rank(judgments, direction)
        assert by_query(together[name]) == by_query(alone)
