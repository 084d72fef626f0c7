"""nDCG, Entail@K, graded recall and R-Precision, and PMRP on cases worked out by hand, and what they refuse."""

import numpy as np
import pytest

from cxc_eccv.errors import DataError, InvalidOption, MalformedRun, RunTooShallow, UnknownName
from cxc_eccv.judgments.plausible import PlausibleHits
from cxc_eccv.metrics.entail_at_k import entail_at_k
from cxc_eccv.metrics.graded_r_precision import graded_r_precision
from cxc_eccv.metrics.graded_recall_at_k import graded_recall_at_k
from cxc_eccv.metrics.ndcg_at_k import ndcg_at_k
from cxc_eccv.metrics.pmrp import pmrp
from cxc_eccv.metrics.pmrp_at_50 import pmrp_at_50
from cxc_eccv.types import Judgments, TopK


def judged(gains, gallery=(1, 2, 3, 4, 5), query=9):
    """Judgments of one query from item id to gain."""
    places = [gallery.index(item) for item in sorted(gains)]
    values = np.array([gains[item] for item in sorted(gains)], dtype=float)
    return Judgments(np.array([query]), np.array(gallery), [0, len(places)], places, [0], gains=values)


def top(*ids, query=9):
    return TopK(np.array([query]), np.array([ids]))


def test_graded_metrics_equal_equations_e1_to_e4():
    """R = 3: “100% YES”, “100% NO”, “Partially YES”, not asked, “100% YES”; E.4 in E.2 and E.3, then E.1 in both."""
    said = {1: "yes", 2: "no", 3: "partially_yes", 5: "yes"}
    for gain_of, r_precision in (
        ({"yes": 1.0, "partially_yes": 0.5, "no": 0.0}.get, 1.5 / 3),
        (lambda answer: float(answer != "no"), 2 / 3),
    ):
        qrels = judged({item: gain_of(answer) for item, answer in said.items()})
        assert graded_recall_at_k(top(1, 2, 3, 4, 5), qrels).tolist() == [1]
        assert graded_r_precision(top(1, 2, 3, 4, 5), qrels).tolist() == [r_precision]
        assert graded_recall_at_k(top(3, 2, 1), qrels).tolist() == [gain_of("partially_yes")]
        assert graded_recall_at_k(top(3, 2, 1), qrels, 3).tolist() == [1]
        assert graded_recall_at_k(top(2, 4), qrels, 2).tolist() == [0]


def test_unreachable_pair_without_gain_leaves_r_unchanged():
    pairs = {"pair_queries": [9] * 4, "pair_items": [1, 3, 77, 78], "gains": [1, 0.5, 0.5, 0]}
    assert Judgments.from_pairs([9], [1, 2, 3], **pairs).n_relevant.tolist() == [3]


@pytest.mark.parametrize("metric", [graded_recall_at_k, graded_r_precision])
@pytest.mark.parametrize(
    ("gains", "message"),
    [
        ({1: 1.5}, r"a judged item has gain 1\.5, expected a degree from 0 to 1"),
        ({1: -0.5, 2: 1.0}, r"gain -0\.5"),
        ({1: 0.0}, "query 9 has no item of gain above 0"),
    ],
)
def test_what_is_no_degree_gives_no_number(metric, gains, message):
    with pytest.raises(DataError, match=message):
        metric(top(1, 2), judged(gains))


def test_gallery_smaller_than_k_is_used_whole():
    qrels = judged({1: 1.0}, gallery=(1, 2))
    assert entail_at_k(top(2, 1), qrels, 10).tolist() == [0.5]
    assert ndcg_at_k(top(2, 1), qrels, 10).item() == pytest.approx(1 / np.log2(3))


@pytest.mark.parametrize("metric", [ndcg_at_k, entail_at_k, graded_recall_at_k])
def test_what_top_metrics_refuse(metric):
    qrels = judged({1: 1.0})
    with pytest.raises(RunTooShallow, match="query 9 looks at the top 5, but its ranking holds 2 items"):
        metric(top(1, 2), qrels, 5)
    for k in (0, 1.0, True, "1"):
        with pytest.raises(InvalidOption, match="whole number of at least 1"):
            metric(top(1, 2), qrels, k)
    with pytest.raises(DataError, match="and the ranked queries in the same order"):
        metric(top(1, query=8), qrels, 1)
    with pytest.raises(DataError, match="the judgments need gains"):
        metric(top(1), Judgments.from_pairs([9], [1, 2], [9], [1]), 1)


@pytest.mark.parametrize("metric", [ndcg_at_k, entail_at_k, graded_recall_at_k])
@pytest.mark.parametrize("gain", [np.nan, np.inf, -1.0])
def test_gains_that_are_no_gains_give_no_number(metric, gain):
    with pytest.raises(DataError):
        metric(top(1), judged({1: gain, 2: 1.0}), 1)


@pytest.mark.parametrize("ids", [[[1, 1]], [[1.5, 2.0]], [[True, False]], [1, 2], [[1, 2], [2, 1]]])
def test_top_items_that_cannot_be_give_no_number(ids):
    """An item named twice made nDCG 1.63."""
    with pytest.raises(MalformedRun, match="top items"):
        TopK(np.array([9]), np.array(ids))


@pytest.mark.parametrize("metric", [ndcg_at_k, entail_at_k, graded_recall_at_k])
def test_no_query_gives_no_number(metric):
    none = np.empty(0, dtype=np.int64)
    nothing = Judgments(none, np.array([1, 2]), [0], none, none, gains=np.empty(0))
    with pytest.raises(DataError, match="there are no queries"):
        metric(TopK(none, np.empty((0, 2), dtype=np.int64)), nothing, 1)


@pytest.mark.parametrize(("hits", "matches"), [(5, 3), (-1, 3), (0, 0), (np.nan, 3), (1, np.nan)])
def test_plausible_hits_that_cannot_be_give_no_number(hits, matches):
    criteria = ((0, None), (1, None), (2, None), (0, 50))
    with pytest.raises(MalformedRun, match="query 9 has"):
        PlausibleHits(np.array([9]), criteria, np.full((1, 4), matches), np.full((1, 4), hits), np.zeros(1, int))
    with pytest.raises(MalformedRun, match="have no query"):
        PlausibleHits(np.empty(0, int), criteria, np.empty((0, 4)), np.empty((0, 4)), np.empty(0, int))


def test_ndcg_has_no_value_without_a_positive_gain():
    with pytest.raises(DataError, match="query 9 has no item of positive gain"):
        ndcg_at_k(top(1), judged({1: 0.0}), 1)
    with pytest.raises(DataError, match=r"a judged item has gain -1\.0; gains must be 0 or more"):
        ndcg_at_k(top(1), judged({1: -1.0, 2: 2.0}), 1)


def test_entail_at_k_needs_labels_under_leave_out():
    with pytest.raises(DataError, match="none of the top 2 of query 9 has a label"):
        entail_at_k(top(3, 4, 1), judged({1: 1.0}), 2, "leave_out")


def test_labels_and_policies_that_entail_at_k_refuses():
    qrels = judged({1: 1.0})
    with pytest.raises(UnknownName, match="did you mean 'leave_out'"):
        entail_at_k(top(1), qrels, 1, "leaveout")
    with pytest.raises(InvalidOption, match="pass the classifier itself"):
        entail_at_k(top(1), qrels, 1, "classifier")
    with pytest.raises(DataError, match=r"labels of the judgments, row 0: found 0.5, expected 0 or 1"):
        entail_at_k(top(1), judged({1: 0.5}), 1)
    with pytest.raises(DataError, match=r"classifier, row 0 \(image \d+, caption 2\): found 0.6, expected 0 or 1"):
        entail_at_k(top(1, 2), qrels, 2, lambda _, items: items * 0.3)
    with pytest.raises(DataError, match=r"labels of shape \(3,\) for 1 pairs"):
        entail_at_k(top(1, 2), qrels, 2, lambda *_: [1, 0, 1])


def test_pmrp_needs_its_looks():
    hits = PlausibleHits(np.array([9]), ((0, None), (1, None)), np.ones((1, 2)), np.ones((1, 2)), np.zeros(1))
    with pytest.raises(InvalidOption, match="zeta 2"):
        pmrp(hits)
    with pytest.raises(InvalidOption, match="cut 50"):
        pmrp_at_50(hits)
