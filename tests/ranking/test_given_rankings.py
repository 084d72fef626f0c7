"""Given rankings: ranks equal a plain search, a metric is known exactly where no continuation could change it."""

import itertools

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cxc_eccv import registry
from cxc_eccv.errors import DataError, InvalidOption, MalformedRun, RunTooShallow
from cxc_eccv.evaluate_modules.ranking_modules import GivenRankings
from cxc_eccv.metrics.kinds import RankMetric
from cxc_eccv.ranking import ranked
from cxc_eccv.ranking.cut_rankings import BEYOND_GALLERIES, needed_depth, values_at_known_depth
from cxc_eccv.runs import RankingsRun
from cxc_eccv.types import Judgments

pytestmark = pytest.mark.thorough

RANK_METRICS = {
    spec.label(**variant): (spec, variant)
    for spec in registry.metrics().values()
    if isinstance(spec, RankMetric)
    for variant in spec.variants()
}
SPARSE = 10**15
"""Ids this far apart do not fit a table."""


def given_ranks(rankings, positives, gallery_size=None):
    return GivenRankings(rankings, positives).rank_references(gallery_size)


@st.composite
def rankings(draw, scale=1):
    """Whole rankings of a gallery, positives of each query (some outside the gallery), a depth to cut at."""
    gallery = [scale * item for item in draw(st.lists(st.integers(-50, 50), min_size=1, max_size=9, unique=True))]
    n_queries = draw(st.integers(1, 4))
    ranked = [draw(st.permutations(gallery)) for _ in range(n_queries)]
    known = st.lists(st.sampled_from([*gallery, scale * 77, scale * 78]), min_size=1, max_size=6, unique=True)
    return ranked, [draw(known) for _ in range(n_queries)], draw(st.integers(1, len(gallery)))


def by_hand(ranked, positives):
    return [oracles.positive_ranks(row, set(own)) for row, own in zip(ranked, positives, strict=True)]


def rows(ranks):
    return [row.tolist() for row in np.split(ranks.ranks, ranks.indptr[1:-1])]


@given(case=st.one_of(rankings(), rankings(scale=SPARSE)))
def test_ranks_equal_a_plain_search(case):
    ranked, positives, depth = case
    cut = [row[:depth] for row in ranked]
    found = given_ranks(cut, positives)
    assert rows(found) == by_hand(cut, positives)
    assert found.n_positives.tolist() == [len(row) for row in positives]
    assert found.depths.tolist() == [depth] * len(ranked)
    assert not found.complete.any()
    assert given_ranks(ranked, positives, gallery_size=len(ranked[0])).complete.all()


def continuations(known, positives, size):
    """Every whole ranking that may follow: positives that are not known yet may be anywhere, or outside the gallery."""
    others = range(-size, 0)
    unseen = [*others, *(item for item in positives if item not in known)]
    return [[*known, *rest] for rest in itertools.permutations(unseen, size - len(known))]


@pytest.mark.parametrize("label", RANK_METRICS)
@given(data=st.data())
def test_short_ranking_has_a_value_where_unambiguous(label, data):
    """Given where it is known; refused where two continuations differ, or where a cut-off reaches below the ranking."""
    spec, variant = RANK_METRICS[label]
    size = data.draw(st.integers(1, 4))
    known = data.draw(st.permutations(range(size)))[: data.draw(st.integers(1, size))]
    positives = data.draw(st.lists(st.integers(0, size), min_size=1, max_size=3, unique=True))
    possible = {
        float(spec.function(given_ranks([row], [positives], gallery_size=size), **variant)[0])
        for row in continuations(known, positives, size)
    }
    stated = given_ranks([known], [positives], gallery_size=data.draw(st.sampled_from([size, None])))
    try:
        value = values_at_known_depth(spec.function, stated, **variant)
    except RunTooShallow:
        limit = needed_depth(spec.function, np.array([len(positives)]), **variant)[0]
        assert not stated.complete[0]
        assert len(known) < limit
        assert limit < BEYOND_GALLERIES or len(possible) > 1 or len(known) == size
    else:
        assert possible == {float(value[0])}


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("recall_at_10", [10, 10]),
        ("mrr_at_10", [10, 10]),
        ("map_at_r", [1, 48]),
        ("r_precision", [1, 48]),
        ("mrr", [BEYOND_GALLERIES, BEYOND_GALLERIES]),
        ("median_rank", [BEYOND_GALLERIES, BEYOND_GALLERIES]),
        ("mean_rank", [BEYOND_GALLERIES, BEYOND_GALLERIES]),
    ],
)
def test_needed_depths(label, expected):
    spec, variant = RANK_METRICS[label]
    assert needed_depth(spec.function, np.array([1, 48]), **variant).tolist() == expected


def test_shallow_ranking_error_names_query_and_depth():
    """The error names the largest R, to whose depth every ranking should go."""
    run = RankingsRun.from_dicts({70: [1, 2, 3], 80: [4, 5], 90: [6, 7]})
    positives = [1, 9, 8, 4, 6, 7, 6, 1, 2, 3, 4]
    qrels = Judgments.from_pairs([70, 80, 90], range(1, 10), np.repeat([70, 80, 90], [3, 3, 5]), positives)
    known = ranked(run).rank_all({"": ("i2t", qrels)})[""]
    with pytest.raises(RunTooShallow) as caught:
        values_at_known_depth(registry.metric("map_at_r").function, known)
    assert str(caught.value) == (
        "map_at_r of query 80 (R = 3) looks at the top 3, but its ranking ends at rank 2. Rank at least 5 items (the "
        "largest R is 5), or the whole gallery of 9 items."
    )


@pytest.mark.parametrize(
    ("gallery_size", "advice"), [(None, "the whole gallery and state its size"), (9, "the whole gallery of 9 items")]
)
def test_error_asks_only_for_unknown_gallery_size(gallery_size, advice):
    known = given_ranks([[2]], [[1, 3]], gallery_size=gallery_size)
    for name in ("map_at_r", "mean_rank"):
        with pytest.raises(RunTooShallow, match=advice):
            values_at_known_depth(registry.metric(name).function, known)


@pytest.mark.parametrize("name", ["median_rank", "mean_rank", "mrr"])
def test_best_rank_needs_positive_or_whole_ranking(name):
    function = registry.metric(name).function
    found = given_ranks([[5, 6]], [[6, 99]])
    assert values_at_known_depth(function, found).tolist() == [0.5 if name == "mrr" else 2.0]
    with pytest.raises(RunTooShallow, match=r"query 0 \(R = 1\) is unknown: its ranking ends at rank 2 with 0 of its"):
        values_at_known_depth(function, given_ranks([[5, 6]], [[99]]))
    whole = given_ranks([[5, 6]], [[99]], gallery_size=2)
    assert values_at_known_depth(function, whole).tolist() == [0.0 if name == "mrr" else 3.0]
    recall = registry.metric("recall_at_k").function
    assert values_at_known_depth(recall, whole, k=5).tolist() == [0.0]  # also where K exceeds the gallery


def rbp(ranks):
    """Rank-biased precision (Moffat and Zobel, TOIS 2008), whose terms underflow only at rank 3,333."""
    terms = 0.2 * 0.8 ** (ranks.ranks - 1.0)
    return np.bincount(ranks.rows, weights=terms, minlength=ranks.query_ids.size)


@pytest.mark.parametrize("n_positives", [1, 3])
def test_long_tail_needs_no_invisible_items(n_positives):
    positives = [[-1, *range(1000, 999 + n_positives)]]
    tail = 0.2 * sum(0.8**place for place in range(n_positives))  # of all positives just below a depth of 0
    needed = next(depth for depth in range(1000) if tail * 0.8**depth <= 1e-12)
    assert needed_depth(rbp, np.array([n_positives])).tolist() == [needed]
    ranking = [-1, *range(200)]
    for depth in (needed, 200):
        found = given_ranks([ranking[:depth]], positives, gallery_size=300)
        assert values_at_known_depth(rbp, found).tolist() == [pytest.approx(0.2, abs=1e-12)]
    with pytest.raises(RunTooShallow, match=f"looks at the top {needed}, .* Rank at least {needed} items"):
        values_at_known_depth(rbp, given_ranks([ranking[: needed - 1]], positives, gallery_size=300))


def test_required_depth_never_exceeds_the_gallery():
    """The second query needs a depth of 10 in a gallery of 9."""
    recall = registry.metric("recall_at_k").function
    shallow = given_ranks([[1, 2], [3, 4]], [[5], [5]], gallery_size=[90, 9])
    with pytest.raises(RunTooShallow, match=r"query 0 .* looks at the top 10, .* Rank at least 10 items"):
        values_at_known_depth(recall, shallow, k=10)
    with pytest.raises(RunTooShallow, match=r"with 0 of its positives\. Rank the whole gallery of 9 items"):
        values_at_known_depth(recall, given_ranks([[3, 4]], [[5]], gallery_size=9), k=10)
    with pytest.raises(RunTooShallow, match=r"Rank the whole gallery of 90 items"):
        values_at_known_depth(rbp, given_ranks([[1, 2]], [[5]], gallery_size=90))


def test_gains_stay_with_their_items():
    qrels = Judgments.from_pairs([5, 6], [30, 20, 10], [6, 5, 5], [20, 10, 30], gains=[1, 2, 3])
    assert qrels.indices.tolist() == [0, 2, 1]
    assert qrels.gains.tolist() == [3.0, 2.0, 1.0]


def test_galleries_may_differ_in_size():
    known = given_ranks([[1, 2], [3, 4]], [[1], [3]], gallery_size=[2, 9])
    assert known.complete.tolist() == [True, False]
    assert known.n_gallery.tolist() == [2, 9]


@pytest.mark.parametrize(
    ("ranked", "positives", "gallery_size", "error", "message"),
    [
        ([], [], None, MalformedRun, "predictions: holds no query"),
        ([[1], []], [[1], [2]], None, MalformedRun, "predictions: the ranking of query 1 is empty"),
        ([[1], [5, 3, 5]], [[1], [3]], None, MalformedRun, "query 1 lists item 5 twice, at ranks 1 and 3"),
        ([[1]], [[]], None, DataError, "query 0 has no positive"),
        ([[1]], [[2, 2]], None, DataError, "query 0 and item 2 occurs twice"),
        ([["a"]], [[1]], None, MalformedRun, r"ranking of query 0 is \['a'\]; need a list of whole-number ids"),
        ([[1.0]], [[1]], None, MalformedRun, "need a list"),
        ([[float("nan")]], [[1]], None, MalformedRun, "need a list"),
        ([[True]], [[1]], None, MalformedRun, "need a list"),
        ([[3, True]], [[1]], None, MalformedRun, "need a list"),
        ([[None]], [[1]], None, MalformedRun, "need a list"),
        ([[[1], [2, 3]]], [[1]], None, MalformedRun, "query 0 is not an array .rows of unequal length"),
        ([5], [[1]], None, MalformedRun, "need a list"),
        ([[2**63]], [[1]], None, MalformedRun, "need a list"),
        ([[1]], [["a"]], None, MalformedRun, "references of query 0"),
        ([[1, 2]], [[1]], 1, MalformedRun, "holds 2 items, more than gallery_size 1"),
        ([[1]], [[1]], 0, InvalidOption, "gallery_size is 0, expected a whole number of at least 1"),
        ([[1]], [[1]], 2.0, InvalidOption, "gallery_size is 2.0"),
        ([[1]], [[1]], [2, 3], InvalidOption, "or one per query"),
    ],
)
def test_bad_input_is_refused(ranked, positives, gallery_size, error, message):
    with pytest.raises(error, match=message):
        given_ranks(ranked, positives, gallery_size)
