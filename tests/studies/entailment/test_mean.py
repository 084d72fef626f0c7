"""Entail@K over COCO and Flickr30k: the mean of two reports of one model."""

import json

import numpy as np
import pyarrow as pa
import pytest
from command_line import run_command
from tiny_flickr import flickr_library, run_in_order

import cxc_eccv as ce
from cxc_eccv.comparison import ScoredReport
from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.entailment.entail_at_k import mean_entailment
from cxc_eccv.types import Report, Result


@pytest.fixture
def reports(sample_library, make_run, tmp_path):
    """What evaluate gives of a model's two files, under any options."""
    flickr, on_flickr = flickr_library(tmp_path / "data"), run_in_order([(0,), (5, 9), (1,)])

    def evaluate_both(**options):
        given = (make_run(sample_library), "entailment", sample_library), (on_flickr, "flickr30k_entailment", flickr)
        return [ce.evaluate(run, task, data_dir=data, per_query=True, **options) for run, task, data in given]

    return evaluate_both


def scored(pair):
    return [ScoredReport.of(name, report) for name, report in zip(("coco", "f30k"), pair, strict=True)]


def test_each_collection_counts_half(reports):
    coco, flickr = reports()
    found = mean_entailment(scored((coco, flickr)), name="mine")
    means = {row.metric: row for row in found.results if row.task == "entailment_mean"}
    assert list(means) == [f"entail_at_{k}" for k in (1, 5, 10, 30)]
    for metric, row in means.items():
        both = coco.scores[f"entailment/i2t/{metric}"], flickr.scores[f"flickr30k_entailment/i2t/{metric}"]
        assert row.value == pytest.approx(sum(both) / 2, abs=1e-15)
        assert row.low <= row.value <= row.high
        assert row.parameters["unjudged"] == "not_entailed"
    reversed_order = mean_entailment(scored((coco, flickr))[::-1], name="mine")
    assert reversed_order.results == found.results


def test_the_interval_is_that_of_the_mean_of_independent_draws(reports):
    """By drawing the images of each collection anew, far more often."""
    pair = scored(reports())
    row = next(row for row in mean_entailment(pair).results if row.key == "entailment_mean/i2t/entail_at_5")
    random, sums = np.random.default_rng(1), 0.0
    for report, task in zip(pair, ("entailment", "flickr30k_entailment"), strict=True):
        values = report.per_query[f"{task}/i2t/entail_at_5"].values
        sums = sums + values[random.integers(values.size, size=(20_000, values.size))].mean(axis=1)
    assert (row.low, row.high) == pytest.approx(np.quantile(sums / 2, [0.025, 0.975]), abs=0.02)


def test_each_collection_has_draws_of_its_own():
    """Equal values of both: the mean of two independent draws spreads 1 / sqrt(2) as wide as one of them."""
    values, queries = np.arange(200) % 2, np.arange(200)

    def report(task):
        row = Result(task, "i2t", "entail_at_1", 0.5, 200, parameters={"k": 1})
        columns = {"task": [task] * 200, "direction": ["i2t"] * 200, "metric": ["entail_at_1"] * 200}
        table = pa.table({"query_id": queries, **columns, "value": values.astype(float), "cluster": queries})
        return ScoredReport.of(task, Report((row,), {}, {"split": "test"}, table))

    found = mean_entailment([report("entailment"), report("flickr30k_entailment")]).results[-1]
    assert found.high - found.low == pytest.approx(2 * 1.96 * 0.5 / np.sqrt(2 * 200), rel=0.1)


def test_reports_that_do_not_go_together_have_no_mean(reports):
    coco, flickr = reports()
    for pair, message in (
        ((coco, coco), "coco and f30k|give one report with the task|f30k has entailment"),
        ((coco, reports(unjudged="leave_out")[1]), "the policy for pairs without a label is not_entailed for one and"),
    ):
        with pytest.raises(InvalidOption, match=message):
            mean_entailment(scored(pair))
    with pytest.raises(InvalidOption, match="no report has the task flickr30k_entailment"):
        mean_entailment(scored((coco, flickr))[:1])


def test_the_command_prints_a_row_for_each_collection_and_the_mean(reports, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for name, report in zip(("coco", "f30k"), reports(), strict=True):
        report.save(tmp_path / name)
    file, command = tmp_path / "mean.json", ("entailment", "mean", tmp_path / "coco")
    printed, _ = run_command(*command, tmp_path / "f30k", "--name", "mine", "--output", file)
    assert all(word in printed for word in ("mine", "COCO", "Flickr30k", "mean", "Entail@30", "not entailed"))
    (model,) = json.loads(file.read_text())["models"]
    assert [row["key"] for row in model["results"]][-1] == "entailment_mean/i2t/entail_at_30"
    assert "reports given: 1. Give two reports for each model" in run_command(*command, status=2)[1]
