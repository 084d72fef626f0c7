"""The bag-of-words baseline on the real captions, beside the paper's and an independent loop's figures."""

import numpy as np
import pytest

from cxc_eccv.demo import TfIdf, words
from cxc_eccv.judgments.qrels import merged_qrels
from cxc_eccv.studies.baselines.sentence_baselines import evaluate_baseline
from cxc_eccv.studies.baselines.untrained.bow import evaluate_bow

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*score exactly as high:UserWarning"),
    pytest.mark.thorough,
]  # texts of the same words tie

PAPER = {"recall_at_1": 0.212, "recall_at_5": 0.382, "recall_at_10": 0.474}


@pytest.mark.slow
@pytest.mark.reference
def test_it_lands_near_the_papers_bag_of_words(real_library):
    scores = evaluate_bow(real_library).scores
    for metric, value in PAPER.items():
        assert abs(scores[f"cxc/t2t/{metric}"] - value) < 0.02
    assert abs(scores["cxc/t2t/median_rank"] - 13) <= 2


def test_recall_equals_a_dense_loop(sample_library):
    """Every score and rank again, without sparse matrices and without the ranking package."""
    texts = [words(text) for text in sample_library.captions("test")["text"].to_pylist()]
    seen = [set(words(text)) for text in sample_library.captions("validation")["text"].to_pylist()]
    vocabulary = sorted(set().union(*seen))
    idf = {w: np.log((1 + len(seen)) / (1 + sum(w in document for document in seen))) + 1 for w in vocabulary}
    dense = np.array([[text.count(w) * idf[w] for w in vocabulary] for text in texts])
    lengths = np.linalg.norm(dense, axis=1, keepdims=True)
    dense = np.divide(dense, lengths, out=np.zeros_like(dense), where=lengths > 0)  # of unknown words alone: no length
    similarity = np.round(dense @ dense.T, 6)
    np.fill_diagonal(similarity, -1)
    qrels = merged_qrels(sample_library, "test", "t2t")
    best = []
    for row in range(qrels.query_ids.size):
        positives = qrels.indices[qrels.indptr[row] : qrels.indptr[row + 1]]
        others = np.delete(similarity[row], positives)
        best.append(1 + int((others >= similarity[row, positives].max()).sum()))
    scores = evaluate_bow(sample_library).scores
    for k in (1, 5, 10):
        assert scores[f"cxc/t2t/recall_at_{k}"] == pytest.approx(np.mean(np.array(best) <= k), abs=1e-12)
    assert scores["cxc/t2t/median_rank"] == np.median(best)


def test_a_text_of_unknown_words_is_a_zero_row():
    vectors = TfIdf.fit(["a dog"]).encode(["qwerty", "a dog", "dog dog a"]).toarray()
    assert vectors[0].tolist() == [0, 0]
    np.testing.assert_allclose(np.linalg.norm(vectors[1:], axis=1), 1, rtol=1e-6)


@pytest.mark.reference
def test_tf_idf_on_the_papers_tasks(real_library):
    report = evaluate_baseline("bow", real_library)
    assert sum(row.pairs for row in report.tasks["sts"][:1]) == 12_544
    found = {(task, row.name): round(100 * row.pearson, 1) for task, rows in report.tasks.items() for row in rows}
    assert found["sts2012", "msrpar"] == 59.7
    assert found["sts2016", "question_question"] == 64.2
    assert (found["stsb", "cosine"], found["sick", "cosine"]) == (69.6, 61.8)
    assert (found["sts", "mean"], found["sts", "weighted_mean"]) == (67.0, 68.4)
