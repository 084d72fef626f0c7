"""Metrics on cases worked out by hand, and their declarations."""

import numpy as np
import pytest

from cxc_eccv import registry
from cxc_eccv.errors import InvalidOption, MalformedRun
from cxc_eccv.metrics.map_at_r import map_at_r
from cxc_eccv.metrics.recall_at_k import recall_at_k
from cxc_eccv.metrics.rsum import rsum
from cxc_eccv.types import JudgedRanks, PositiveRanks


@pytest.mark.parametrize(
    ("ranks", "percent"),
    [
        ([2, 3, 4, 5, 6, 7, 8, 20], 66.0),
        ([1, 30, 31, 32, 33, 34, 35, 36], 12.5),
        ([6, 7, 8, 20, 21, 22, 23, 24], 10.3),
        ([5, 20, 21, 22, 23, 24, 25, 26], 2.5),
        ([1, 2, 3, 4, 5, 6, 7, 8], 100.0),
        ([9, 10, 11, 12, 13, 14, 15, 16], 0.0),
    ],
)
def test_map_at_r_equals_eccv_captions_worked_cases(ranks, percent):
    assert round(100 * map_at_r(PositiveRanks.of([ranks])).item(), 1) == percent


@pytest.mark.parametrize("k", [0, -1, 1.0, True, "5", None])
def test_k_is_a_positive_whole_number(k):
    with pytest.raises(InvalidOption, match="whole number of at least 1"):
        recall_at_k(PositiveRanks.of([[1]]), k)


MUST_RISE = r"; the ranks of its positives must increase, from 1 to at most 100, the size of its gallery"
BAD_RANKS = [
    ([[0]], [], f"query 0 has rank 0{MUST_RISE}"),
    ([[2], [-3]], [], f"query 1 has rank -3{MUST_RISE}"),
    ([[2, 2]], [], f"query 0 has rank 2{MUST_RISE}"),
    ([[5, 2]], [], f"query 0 has rank 2{MUST_RISE}"),
    ([[101]], [], f"query 0 has rank 101{MUST_RISE}"),
    ([[1.7]], [], "ranks have type float64 for 1 queries; need integers"),
    ([[float("nan")]], [], "ranks have type float64 for 1 queries; need integers"),
    ([[True]], [], "ranks have type bool for 1 queries; need integers"),
    ([[1, 2]], [1], "query 0 has R = 1 and 2 ranks; R counts every positive"),
    ([[]], [0], "query 0 has R = 0 and 0 ranks"),
    ([], [], "for 0 queries"),
]


@pytest.mark.parametrize(("ranks", "n_positives", "words"), BAD_RANKS)
def test_ranks_that_cannot_be_are_named(ranks, n_positives, words):
    with pytest.raises(MalformedRun, match=words):
        PositiveRanks.of(ranks, n_positives=n_positives)


def test_first_and_last_places_are_valid_ranks():
    assert PositiveRanks.of([[1, 100], [1]]).best.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("recalls", "words"),
    [
        ([float("nan")] * 6, "from nan to nan; need fractions"),
        ([2.0] * 6, "from 2.0 to 2.0; need fractions"),
        ([0.5] * 5 + [-0.1], "from -0.1 to 0.5; need fractions"),
        ([0.5] * 5, r"and shape \(5,\); need six per task"),
        ([], r"and shape \(0,\); need six per task"),
        (0.5, "need six per task"),
        (["a"] * 6, "need six per task"),
    ],
)
def test_rsum_refuses_what_is_not_six_recalls(recalls, words):
    with pytest.raises(MalformedRun, match=words):
        rsum(np.array(recalls))


def test_rsum_is_600_for_a_perfect_run():
    assert rsum(np.ones(6)) == 600
    assert rsum(np.array([[0.1] * 6, [0.2] * 6])).round(9).tolist() == [60, 120]


@pytest.mark.parametrize("name", ["map_at_r", "r_precision", "recall_at_k", "ndcg_at_k"])
def test_judged_only_option_must_fit_the_ranks(name):
    function = registry.metric(name).function
    with pytest.raises(InvalidOption, match="judged_only"):
        function(PositiveRanks.of([[1]]), judged_only=True)
    with pytest.raises(InvalidOption, match="judged_only"):
        function(JudgedRanks.of([[(1, 1)]]))
