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
from cxc_eccv.metrics.r_precision import r_precision
from cxc_eccv.metrics.recall_at_k import recall_at_k
from cxc_eccv.ranking.rank import ranks_of_run, top_k
from cxc_eccv.types import TopK


@st.composite
def ranked(draw, gains):
    """Top items and judgments of a few queries; as lists of (ranked ids, judged id to gain) too."""
    run, _ = draw(strategies.judged_runs("i2t"))
    judgments = draw(strategies.graded_judgments_of(run, "i2t", gains))
    assume(judgments.query_ids.size)  # no query has no number
    depth = draw(st.integers(1, judgments.gallery_ids.size))
    ids = np.array([draw(st.permutations(judgments.gallery_ids.tolist()))[:depth] for _ in judgments.query_ids])
    bounds = zip(judgments.indptr[:-1], judgments.indptr[1:], strict=True)
    judged = [
        dict(zip(judgments.gallery_ids[judgments.indices[a:b]].tolist(), judgments.gains[a:b].tolist(), strict=True))
        for a, b in bounds
    ]
    return TopK(judgments.query_ids, ids), judgments, list(zip(ids.tolist(), judged, strict=True))


@given(case=ranked(gains=(0.0, 0.5, 1.0, 3.5)), data=st.data())
def test_ndcg_equals_a_slow_loop_and_stays_within_bounds(case, data):
    top, judgments, lists = case
    k = data.draw(st.integers(1, top.depth))
    values = ndcg_at_k(top, judgments, k)
    np.testing.assert_allclose(values, [oracles.ndcg_at_k(ids, gains, k) for ids, gains in lists], atol=1e-15)
    assert np.all((values >= 0) & (values <= 1 + 1e-12))


@given(case=ranked(gains=(0.0, 0.5, 1.0, 3.5)), data=st.data())
def test_ndcg_of_the_ideal_ranking_is_one_and_scaling_gains_changes_nothing(case, data):
    top, judgments, lists = case
    ideal = [
        sorted(judgments.gallery_ids.tolist(), key=lambda item: -gains.get(item, 0))[: top.depth] for _, gains in lists
    ]
    best = TopK(top.query_ids, np.array(ideal))
    np.testing.assert_allclose(ndcg_at_k(best, judgments, top.depth), 1, rtol=1e-12)
    scaled = type(judgments)(
        judgments.query_ids,
        judgments.gallery_ids,
        judgments.indptr,
        judgments.indices,
        judgments.unreachable,
        gains=8 * judgments.gains,
    )
    np.testing.assert_array_equal(ndcg_at_k(top, scaled, top.depth), ndcg_at_k(top, judgments, top.depth))


DEGREES = (0.0, 0.25, 0.5, 1.0)


@given(case=ranked(gains=DEGREES), data=st.data())
def test_graded_recall_equals_a_slow_loop_and_rises_with_k(case, data):
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


@given(data=st.data())
def test_graded_metrics_of_a_run_take_the_worst_order_of_ties(data):
    run, _ = data.draw(strategies.judged_runs("i2t"))
    judgments = data.draw(strategies.graded_judgments_of(run, "i2t", DEGREES))
    deepest = int(judgments.n_relevant.max())
    top = top_k(run, judgments, "i2t", deepest, similarity="dot")
    values, best = graded_r_precision(top, judgments), graded_recall_at_k(top, judgments, deepest)
    vectors = dict(zip(run.captions.ids.tolist(), run.captions.vectors, strict=True))
    images = dict(zip(run.images.ids.tolist(), run.images.vectors, strict=True))
    for row, query in enumerate(judgments.query_ids.tolist()):
        own = slice(*judgments.indptr[row : row + 2])
        items = judgments.gallery_ids[judgments.indices[own]].tolist()
        gains = dict(zip(items, judgments.gains[own].tolist(), strict=True))
        gallery = judgments.gallery_ids.tolist()
        scores = {item: oracles.score_of(images[query], vectors[item], "dot") for item in gallery}
        ranked = sorted(scores, key=lambda item: (-scores[item], gains.get(item, 0.0)))
        assert values[row] == pytest.approx(oracles.graded_r_precision(ranked, gains))
        assert best[row] == oracles.graded_recall_at_k(ranked, gains, deepest)


@given(data=st.data())
def test_with_gains_of_one_they_are_recall_and_r_precision(data):
    """Ties and positives outside the gallery included: the two ways of ranking are different code."""
    run, judgments = data.draw(strategies.judged_runs("i2t"))
    assume(judgments.gallery_folds is None)
    graded = replace(judgments, gains=np.ones(judgments.indices.size))
    top = top_k(run, graded, "i2t", int(graded.n_relevant.max()), similarity="dot")
    ranks = ranks_of_run(run, {"": ("i2t", judgments)}, similarity="dot")[""]
    assert graded_r_precision(top, graded).tolist() == pytest.approx(r_precision(ranks).tolist())
    k = data.draw(st.integers(1, top.depth))
    assert graded_recall_at_k(top, graded, k).tolist() == recall_at_k(ranks, k).tolist()


def is_even(item):
    return item % 2 == 0


@pytest.mark.parametrize("unjudged", ["not_entailed", "leave_out", is_even])
@given(case=ranked(gains=(0.0, 1.0)), data=st.data())
def test_entail_at_k_equals_a_slow_loop_under_every_policy(unjudged, case, data):
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
    k, asked = data.draw(st.integers(1, top.depth)), []

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
def test_pmrp_averages_three_precisions_and_its_variant_cuts_at_50(data, size):
    matches = np.sort(data.draw(st.lists(st.lists(st.integers(1, 90), min_size=3, max_size=3), min_size=size)))
    hits = np.array([[data.draw(st.integers(0, r)) for r in row] for row in matches])
    cut_hits = np.minimum(hits[:, :1], 50)
    looks = (0, None), (1, None), (2, None), (0, 50)
    counted = np.column_stack([matches, matches[:, 0]])
    both = PlausibleHits(np.arange(len(matches)), looks, counted, np.column_stack([hits, cut_hits]), np.zeros(size))
    slow = [np.mean([hit / r for hit, r in zip(*rows, strict=True)]) for rows in zip(hits, matches, strict=True)]
    np.testing.assert_allclose(pmrp(both), slow, rtol=1e-14)
    cut = [hit / min(r, 50) for (hit,), (r, *_) in zip(cut_hits, matches, strict=True)]
    np.testing.assert_allclose(pmrp_at_50(both), cut, rtol=1e-15)
    for values in (pmrp(both), pmrp_at_50(both)):
        assert np.all((values >= 0) & (values <= 1))
