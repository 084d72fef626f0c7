"""TF-IDF on the sentence pairs of all tasks, as the paper has it."""

import pytest

from cxc_eccv.studies.baselines.sentence_baselines import evaluate_baseline


@pytest.mark.reference
def test_tf_idf_on_the_papers_tasks(real_library):
    report = evaluate_baseline("bow", real_library)
    assert sum(row.pairs for row in report.tasks["sts"][:1]) == 12_544
    found = {(task, row.name): round(100 * row.pearson, 1) for task, rows in report.tasks.items() for row in rows}
    assert found["sts2012", "msrpar"] == 59.7
    assert found["sts2016", "question_question"] == 64.2
    assert (found["stsb", "cosine"], found["sick", "cosine"]) == (69.6, 61.8)
    assert (found["sts", "mean"], found["sts", "weighted_mean"]) == (67.0, 68.4)
