"""Metrics of incomplete judgments equal ir_measures (trec_eval) on Flickr8k's real judgments; tau equals SciPy's."""

import numpy as np
import pytest
from scipy.stats import kendalltau

from cxc_eccv.judgments.flickr8k import flickr8k_verdicts
from cxc_eccv.ranking import ranked
from cxc_eccv.ranking.readers import JudgedRows
from cxc_eccv.registry import metric
from cxc_eccv.runs import ScoresRun
from cxc_eccv.types import Judgments, RatedPairs

pytestmark = pytest.mark.reference


@pytest.fixture(scope="module")
def judged(real_library):
    """Judgments of 100 images, and seeded scores that know a little of them."""
    whole = flickr8k_verdicts(real_library.split("test", "flickr8k"), "i2t")
    kept = whole.rows < 100
    queries, items, gains = (values[kept] for values in (whole.rows, whole.indices, whole.gains))
    judgments = Judgments.from_pairs(
        whole.query_ids[:100], whole.gallery_ids, whole.query_ids[queries], whole.gallery_ids[items], gains=gains
    )
    scores = np.random.default_rng(1).standard_normal((100, 1_000))
    scores[judgments.rows, judgments.indices] += np.where(judgments.gains > 0, 1.5, 0.4)
    return judgments, scores


@pytest.mark.parametrize(
    ("name", "parameters", "measure", "whole_pool"),
    [
        ("bpref", {}, "Bpref", False),
        ("inf_ap", {}, "infAP", True),
        ("judged_at_k", {"k": 10}, "Judged@10", False),
        ("judged_only_ndcg_at_k", {"k": 10}, "nDCG(judged_only=True)@10", False),
        ("judged_only_recall_at_k", {"k": 5}, "Success(judged_only=True)@5", False),
        ("judged_only_r_precision", {}, "Rprec(judged_only=True)", False),
    ],
)
def test_per_query_values_equal_ir_measures(judged, name, parameters, measure, whole_pool):
    ir_measures = pytest.importorskip("ir_measures", reason="the ir_measures package is not installed")
    judgments, scores = judged
    reader = JudgedRows(judgments)
    ranked(ScoresRun(judgments.query_ids, judgments.gallery_ids, scores)).rank_all({}, {"i2t": [reader]})
    values = metric(name).compute(reader.result, **parameters)

    relevance = np.full(scores.shape, -1)
    relevance[judgments.rows, judgments.indices] = judgments.gains > 0
    places = [(row, item) for row, item in np.ndindex(scores.shape) if whole_pool or relevance[row, item] >= 0]
    qrels = [ir_measures.Qrel(str(row), str(item), int(relevance[row, item])) for row, item in places]
    run = [
        ir_measures.ScoredDoc(str(row), str(item), float(scores[row, item])) for row, item in np.ndindex(scores.shape)
    ]
    theirs = {int(one.query_id): one.value for one in ir_measures.parse_measure(measure).iter_calc(qrels, run)}
    np.testing.assert_allclose(values, [theirs[row] for row in range(100)], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("variant", ["b", "c"])
def test_kendall_tau_equals_scipy_on_repeated_pairs(variant):
    """The draws of the bootstrap equal SciPy too."""
    spec = metric(f"kendall_tau_{variant}")
    random = np.random.default_rng(0)
    compared = 0
    for _ in range(60):
        n = random.integers(3, 60)
        similarities = random.integers(0, random.integers(2, 30), n) * 1.0
        ratings = random.integers(0, 5, n) * 1.0
        if min(np.unique(similarities).size, np.unique(ratings).size) < 2:
            continue
        pairs = RatedPairs(random.integers(0, 6, n), np.arange(n), ratings)
        expected = kendalltau(similarities, ratings, variant=variant).statistic
        assert spec.function(pairs, similarities).item() == pytest.approx(expected, abs=1e-12)
        images, clusters = np.unique(pairs.query_ids, return_inverse=True)
        for times in random.integers(0, 3, (3, images.size)):
            rows = np.repeat(np.arange(n), times[clusters])
            if rows.size and min(np.unique(similarities[rows]).size, np.unique(ratings[rows]).size) > 1:
                drawn = spec.samples(pairs, similarities, times[None], clusters)[0]
                expected = kendalltau(similarities[rows], ratings[rows], variant=variant).statistic
                assert drawn == pytest.approx(expected, abs=1e-12)
                compared += 1
    assert compared > 100
