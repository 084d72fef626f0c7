"""Equal to ir_measures on rankings without ties."""

import numpy as np
import pytest

from cxc_eccv.metrics.mrr import mrr
from cxc_eccv.metrics.mrr_at_k import mrr_at_k
from cxc_eccv.metrics.r_precision import r_precision
from cxc_eccv.metrics.recall_at_k import recall_at_k
from cxc_eccv.ranking import Options, ranked
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings, Judgments

pytestmark = pytest.mark.reference

ir_measures = pytest.importorskip("ir_measures", reason="the ir_measures package is not installed")


@pytest.mark.parametrize("seed", range(5))
def test_per_query_values_equal(seed):
    random = np.random.default_rng(seed)
    queries = np.arange(1, 41)
    gallery = np.arange(1001, 1201)
    scores = random.permuted(np.tile(np.arange(200.0), (40, 1)), axis=1)
    positives = [(query, item) for query in queries for item in random.choice(gallery, random.integers(1, 15), False)]
    # One column per query and one-hot queries: the product is the table of scores itself, without ties.
    run = EmbeddingsRun(Embeddings(queries, np.eye(40)), Embeddings(gallery, scores.T))
    ranks = ranked(run, Options(similarity="dot")).rank(
        Judgments.from_pairs(queries, gallery, *zip(*positives, strict=True)), "i2t"
    )

    qrels = [ir_measures.Qrel(str(query), str(item), 1) for query, item in positives]
    listed = [
        ir_measures.ScoredDoc(str(query), str(item), float(scores[row, column]))
        for row, query in enumerate(queries)
        for column, item in enumerate(gallery)
    ]
    ours = {
        ir_measures.RR: mrr(ranks),
        ir_measures.RR @ 10: mrr_at_k(ranks, 10),
        ir_measures.Rprec: r_precision(ranks),
        **{ir_measures.Success @ k: recall_at_k(ranks, k) for k in (1, 5, 10)},
    }
    for measure, values in ours.items():
        theirs = {int(one.query_id): one.value for one in ir_measures.iter_calc([measure], qrels, listed)}
        np.testing.assert_allclose(values, [theirs[query] for query in queries.tolist()], rtol=1e-12, atol=0)
