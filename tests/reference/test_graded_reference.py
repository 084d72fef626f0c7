"""nDCG on the real ratings equals ir_measures; Entail@K equals a loop over the real labels; facts of both."""

import numpy as np
import oracles
import pytest
from report_samples import near_run

from cxc_eccv.evaluation import evaluate
from cxc_eccv.judgments.merging import cxc_ratings, entailment_labels
from cxc_eccv.metrics.ndcg_at_k import ndcg_at_k
from cxc_eccv.ranking import ranked

pytestmark = pytest.mark.reference


@pytest.mark.parametrize(("direction", "k"), [("i2t", 10), ("t2i", 10), ("t2t", 5), ("i2i", 10)])
def test_ndcg_equals_ir_measures_on_the_ratings(real_library, direction, k):
    """Its grades are whole numbers: ratings have two decimals, and nDCG with linear gains does not see a factor."""
    ir_measures = pytest.importorskip("ir_measures", reason="the ir_measures package is not installed")
    qrels = cxc_ratings(real_library.split("test"), direction)
    grades = np.round(100 * qrels.gains).astype(int)
    np.testing.assert_allclose(grades / 100, qrels.gains, atol=1e-12)
    top = ranked(near_run(real_library, width=24)).find_top(qrels, direction, k)
    some = np.random.default_rng(0).choice(top.query_ids.size, 400, replace=False)
    values = dict(zip(top.query_ids[some].tolist(), ndcg_at_k(top, qrels, k)[some], strict=True))
    judged = [
        ir_measures.Qrel(str(top.query_ids[row]), str(qrels.gallery_ids[qrels.indices[entry]]), int(grades[entry]))
        for row in some
        for entry in range(qrels.indptr[row], qrels.indptr[row + 1])
    ]
    # The scores are those of the ranks: ir_measures breaks ties by document name.
    listed = [
        ir_measures.ScoredDoc(str(top.query_ids[row]), str(item), float(-rank))
        for row in some
        for rank, item in enumerate(top.ids[row].tolist())
    ]
    theirs = {int(one.query_id): one.value for one in ir_measures.iter_calc([ir_measures.nDCG @ k], judged, listed)}
    assert len(theirs) == len(values)
    for query, value in values.items():
        assert value == pytest.approx(theirs[query], abs=1e-12), query


@pytest.mark.parametrize(
    ("direction", "queries", "pairs"),
    [("i2t", 5_000, 44_833), ("t2i", 24_997, 44_830), ("t2t", 24_999, 88_088), ("i2i", 5_000, 87_712)],
)
def test_every_rated_pair_is_judged(real_library, direction, queries, pairs):
    """All 44,833 of SITS, less three whose caption has no rating above 0; STS in both orders, less two likewise."""
    qrels = cxc_ratings(real_library.split("test"), direction)
    assert (qrels.query_ids.size, qrels.indices.size) == (queries, pairs)
    kind = {"i2t": "sits", "t2i": "sits", "t2t": "sts", "i2i": "sis"}[direction]
    table = real_library.split("test").ratings(kind)
    ratings = {}
    for left, right, rating in zip(*(table[n].to_pylist() for n in ("left_id", "right_id", "rating")), strict=True):
        orders = [(right, left)] if direction == "i2t" else [(left, right)]
        orders += [(right, left)] if kind != "sits" else []
        for pair in orders:
            ratings[pair] = max(rating, ratings.get(pair, 0))
    rows = np.random.default_rng(0).choice(qrels.indices.size, 2_000, replace=False)
    for entry in rows.tolist():
        pair = int(qrels.query_ids[qrels.rows[entry]]), int(qrels.gallery_ids[qrels.indices[entry]])
        assert qrels.gains[entry] == ratings[pair]


def test_entail_at_k_equals_a_loop_over_labels(real_library):
    """Ground truth is always entailed; a label 0 is a caption that CxC rated under 3 and nobody else accepted."""
    labels = entailment_labels(real_library.split("test"))
    assert labels.query_ids.size == 5_000
    by_query = {
        int(query): dict(zip(labels.gallery_ids[labels.indices[a:b]].tolist(), labels.gains[a:b].tolist(), strict=True))
        for query, a, b in zip(labels.query_ids, labels.indptr[:-1], labels.indptr[1:], strict=True)
    }
    content = real_library.split("test")
    for image, caption in zip(content.caption_image_ids.tolist(), content.caption_ids.tolist(), strict=True):
        assert by_query[image][caption] == 1
    run = near_run(real_library, width=24)
    tops = ranked(run).find_top(labels, "i2t", 30).ids.tolist()
    for unjudged in ("not_entailed", "leave_out"):
        report = evaluate(run, "entailment", data_dir=real_library, unjudged=unjudged, confidence=None)
        for row in report.results:
            k = row.parameters["k"]
            slow = [oracles.entail_at_k(ids, by_query[q], k, unjudged) for ids, q in zip(tops, by_query, strict=True)]
            defined = [value for value in slow if value is not None]
            assert row.value == pytest.approx(np.mean(defined), abs=1e-12)
            assert row.n_queries == len(defined)
            judged = np.mean([item in by_query[q] for ids, q in zip(tops, by_query, strict=True) for item in ids[:k]])
            assert row.coverage == pytest.approx(judged, abs=1e-12)
            assert row.parameters["unjudged"] == unjudged
