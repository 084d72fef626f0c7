"""nDCG, Entail@K, graded recall and R-Precision, and PMRP equal slow loops over ranked lists, and keep their bounds."""

from dataclasses import replace

import numpy as np
import oracles
import pytest
import strategies
from hypothesis import assume, given
from hypothesis import strategies as st

from cxc_eccv.errors import DataError, RunTooShallow
from cxc_eccv.judgments.plausible import PlausibleHits
from cxc_eccv.metrics.entail_at_k import entail_at_k
from cxc_eccv.metrics.graded_r_precision import graded_r_precision
from cxc_eccv.metrics.graded_recall_at_k import graded_recall_at_k
from cxc_eccv.metrics.ndcg_at_k import ndcg_at_k
from cxc_eccv.metrics.pmrp import pmrp
from cxc_eccv.metrics.pmrp_at_50 import pmrp_at_50
from cxc_eccv.types import TopK


@st.composite
def ranked(draw, gains):
    """Top items and judgments of a few queries; as lists of (ranked ids, judged id to gain) too."""
    run, _ = draw(strategies.judged_runs("i2t"))
    judgments = draw(strategies.graded_judgments_of(run, "i2t", gains))
    assume(judgments.query_ids.size)  # no query has no number
    depth = draw(st.integers(1, judgments.gallery_ids.size))
    ids = np.array([draw(st.permutations(judgments.gallery_ids.tolist()))[:depth] for _ in judgments.query_ids])
    judged = zip(ids.tolist(), oracles.gains_of(judgments), strict=True)
    return TopK(judgments.query_ids, ids), judgments, list(judged)


@given(case=ranked(gains=(0.0, 0.5, 1.0, 3.5)), data=st.data())
def test_ndcg_equals_a_loop_within_bounds(case, data):
    top, judgments, lists = case
    k = data.draw(st.integers(1, top.depth))
    values = ndcg_at_k(top, judgments, k)
    np.testing.assert_allclose(values, [oracles.ndcg_at_k(ids, gains, k) for ids, gains in lists], atol=1e-15)
    assert np.all((values >= 0) & (values <= 1 + 1e-12))


DEGREES = (0.0, 0.25, 0.5, 1.0)


@given(case=ranked(gains=DEGREES), data=st.data())
def test_graded_recall_equals_a_loop_and_rises(case, data):
    top, judgments, lists = case
    k = data.draw(st.integers(1, top.depth))
    values = graded_recall_at_k(top, judgments, k)
    assert values.tolist() == [oracles.graded_recall_at_k(ids, gains, k) for ids, gains in lists]
    assert np.all(graded_recall_at_k(top, judgments, 1) <= values)


@given(case=ranked(gains=DEGREES), data=st.data())
def test_graded_r_precision_equals_a_slow_loop(case, data):
    top, judgments, lists = case
    outside = np.array([data.draw(st.integers(0, 2)) for _ in lists])
    judged = replace(judgments, unreachable=outside)
    deepest = min(int(judged.n_relevant.max()), judged.gallery_ids.size)
    if top.depth < deepest:
        with pytest.raises(RunTooShallow, match=f"looks at the top {deepest}"):
            graded_r_precision(top, judged)
        return
    values = graded_r_precision(top, judged)
    slow = [oracles.graded_r_precision(*own, n) for own, n in zip(lists, outside.tolist(), strict=True)]
    assert values == pytest.approx(slow)
    assert np.all((values >= 0) & (values <= 1))


def is_even(item):
    return item % 2 == 0


@pytest.mark.parametrize("unjudged", ["not_entailed", "leave_out", is_even])
@given(case=ranked(gains=(0.0, 1.0)), data=st.data())
def test_entail_at_k_equals_a_loop_per_policy(unjudged, case, data):
    top, judgments, lists = case
    k = data.draw(st.integers(1, top.depth))
    slow = [oracles.entail_at_k(ids, labels, k, unjudged) for ids, labels in lists]
    policy = (lambda query_ids, item_ids: is_even(item_ids)) if callable(unjudged) else unjudged
    if None in slow:
        with pytest.raises(DataError, match="has a label"):
            entail_at_k(top, judgments, k, policy)
        return
    np.testing.assert_allclose(entail_at_k(top, judgments, k, policy), slow, rtol=1e-15)


@given(case=ranked(gains=(0.0, 1.0)), data=st.data())
def test_the_classifier_is_asked_for_unlabelled_pairs_alone(case, data):
    top, judgments, lists = case
    k = data.draw(st.integers(1, top.depth))
    asked = []

    def classifier(query_ids, item_ids):
        asked.extend(zip(query_ids.tolist(), item_ids.tolist(), strict=True))
        return np.zeros(query_ids.size)

    values = entail_at_k(top, judgments, k, classifier)
    np.testing.assert_array_equal(values, entail_at_k(top, judgments, k, "not_entailed"))
    expected = [
        (query, item)
        for query, (ids, labels) in zip(top.query_ids.tolist(), lists, strict=True)
        for item in ids[:k]
        if item not in labels
    ]
    assert sorted(asked) == sorted(expected)


@given(data=st.data(), size=st.integers(1, 5))
def test_pmrp_averages_precisions_with_a_cut_variant(data, size):
    """PMRP averages over three values of zeta; the variant looks at one, and at 50 items."""
    matches = np.sort(data.draw(st.lists(st.lists(st.integers(1, 90), min_size=3, max_size=3), min_size=size)))
    hits = np.array([[data.draw(st.integers(0, r)) for r in row] for row in matches])
    cut_hits = np.minimum(hits[:, :1], 50)
    criteria = (0, None), (1, None), (2, None), (0, 50)
    counted = np.column_stack([matches, matches[:, 0]])
    both = PlausibleHits(np.arange(len(matches)), criteria, counted, np.column_stack([hits, cut_hits]), np.zeros(size))
    slow = [np.mean([hit / r for hit, r in zip(*rows, strict=True)]) for rows in zip(hits, matches, strict=True)]
    np.testing.assert_allclose(pmrp(both), slow, rtol=1e-14)
    cut = [hit / min(r, 50) for (hit,), (r, *_) in zip(cut_hits, matches, strict=True)]
    np.testing.assert_allclose(pmrp_at_50(both), cut, rtol=1e-15)
    for values in (pmrp(both), pmrp_at_50(both)):
        assert np.all((values >= 0) & (values <= 1))
