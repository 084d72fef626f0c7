"""Per-query values and kinds of intervals."""

import csv
from dataclasses import replace
from html import unescape

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binomtest

import cxc_eccv as ce
from cxc_eccv.comparison.paper_tables import PaperTables
from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation import Request, report_of_ranks
from cxc_eccv.ranking import ranked
from cxc_eccv.registry import task
from cxc_eccv.report import Report
from cxc_eccv.report.page_content import Page
from cxc_eccv.report.pages import render_html, render_markdown
from cxc_eccv.runs import RankingsRun
from cxc_eccv.statistics import wilson


@pytest.fixture
def run(make_run, sample_library):
    return make_run(sample_library, seed=3)


@pytest.fixture
def report(run, report_of):
    return report_of(run, per_query=True)


def by_key(table):
    rows = {}
    for row in table.to_pylist():
        rows.setdefault(f"{row['task']}/{row['direction']}/{row['metric']}", []).append(row)
    return rows


def test_per_query_values_make_the_report(report):
    found = by_key(report.per_query)
    whole = {row.key: row for row in report.results if row.direction not in ("", "sts", "sis", "sits")}
    assert found.keys() == whole.keys()
    for key, rows in found.items():
        values = [row["value"] for row in rows]
        assert len(rows) == whole[key].n_queries
        assert whole[key].value == (np.median if key.endswith("median_rank") else np.mean)(values)
        assert len({row["query_id"] for row in rows}) == len(rows)


def test_best_ranks_and_the_image_behind_each_query(report, run, sample_library):
    owner = dict(
        zip(*(sample_library.split("test").captions[n].to_pylist() for n in ("caption_id", "image_id")), strict=True)
    )
    found = by_key(report.per_query)
    for row in found["coco_5k/t2i/median_rank"]:
        assert row["best_rank"] == row["value"]
        assert row["cluster"] == owner[row["query_id"]]
    for row in found["cxc/i2i/recall_at_5"]:
        assert (row["best_rank"] <= 5) == row["value"]
        assert row["cluster"] == row["query_id"]
    for key in ("plausible_match/i2t/pmrp", "entailment/i2t/entail_at_5"):
        assert {row["best_rank"] for row in found[key]} == {None}
    assert report.per_query.schema.field("query_id").type == pa.int64()


def test_a_best_rank_that_is_unknown_is_null(run, report_of):
    lists = {image: run.captions.ids[:10].tolist() for image in run.images.ids.tolist()}
    metrics = ["recall_at_10"]
    report = report_of(RankingsRun.from_dicts(i2t=lists), "coco_5k/i2t", metrics=metrics, per_query=True)
    ranks = report.per_query["best_rank"].to_pylist()
    assert sum(rank is not None for rank in ranks) == 2  # ten captions belong to two images
    assert [rank is not None for rank in ranks] == [value == 1 for value in report.per_query["value"].to_pylist()]


def test_per_query_values_are_kept_on_request_only(run, sample_library, report_of):
    report = report_of(run, "coco_5k")
    assert report.per_query is None
    judgments = task("coco_5k").judgments(sample_library.split("test"), "i2t")
    ranks = ranked(run).rank(judgments, "i2t")
    kept = report_of_ranks({"coco_5k/i2t": (judgments, ranks)}, sample_library, Request(per_query=True))
    assert kept.per_query.num_rows == 4 * 60
    assert kept.results == tuple(row for row in report.results if row.direction == "i2t")


def test_hidden_metrics_are_not_kept(run, report_of):
    table = report_of(run, "coco_5k", metrics=["mrr"], per_query=True).per_query
    assert set(table["metric"].to_pylist()) == {"mrr"}


# Merkx and Frank, arXiv:1903.11393, Tables 2 and 3: images, R@K and the half-width printed beside it, both directions.
CHAR_GRU = {
    1000: "27.5 2.8 58.2 3.1 70.5 2.8 38.5 3.0 68.9 2.9 79.3 2.5",
    5000: "20.2 1.1 46.9 1.4 60.9 1.4 25.7 1.2 54.3 1.4 68.8 1.3 41.4 1.4 76.8 1.2 88.0 0.9 51.2 1.4 83.5 1.0 92.1 0.7",
}
TABLES = [
    (images, recall, half)
    for images, row in CHAR_GRU.items()
    for recall, half in zip(map(float, row.split()[::2]), map(float, row.split()[1::2]), strict=True)
]


@pytest.mark.parametrize(("images", "recall", "half"), TABLES)
def test_the_papers_intervals_count_images_in_both_directions(images, recall, half):
    captions = np.arange(5 * images) < round(recall / 100 * 5 * images)
    low, high = wilson(captions.astype(float), 0.95, trials=images)
    # Printed from the unrounded recall: half a unit of the last place more.
    assert 50 * (high - low) == pytest.approx(half, abs=0.0505)
    assert 50 * np.diff(wilson(captions.astype(float), 0.95))[0] < half - 0.2


@pytest.mark.parametrize("found", [[0.0], [1.0] * 4, [0.0] * 4, [1.0, 0.0, 0.0], [1.0] * 7 + [0.0] * 1234])
def test_wilsons_interval_is_scipys(found):
    values = np.array(found)
    for confidence in (0.5, 0.95, 0.999):
        expected = binomtest(int(values.sum()), values.size).proportion_ci(confidence, method="wilson")
        assert wilson(values, confidence) == (expected.low, expected.high)


def test_image_intervals_group_captions_by_image(run, report_of):
    """Those of i2t stay as they are, as each query is an image."""
    captions, images = (
        {row.key: row for row in report_of(run, "coco_5k", intervals=kind).results}
        for kind in ("binomial", "binomial_images")
    )
    wider = "coco_5k/t2i/recall_at_10"
    same = "coco_5k/i2t/recall_at_10"
    assert (images[wider].low, images[wider].high) == wilson(
        np.arange(300) < round(images[wider].value * 300), 0.95, trials=60
    )
    assert images[wider].low < captions[wider].low < captions[wider].high < images[wider].high
    assert (images[same].low, images[same].high) == (captions[same].low, captions[same].high)
    assert {row.interval_method for key, row in images.items() if "recall" in key} == {"binomial_images"}


def test_binomial_intervals_are_wilsons_for_recall(run, sample_library):
    """Metrics other than recall keep the bootstrap."""
    options = {"tasks": ["coco_5k", "plausible_match"], "data_dir": sample_library}
    binomial, bootstrap = (
        {row.key: row for row in ce.evaluate(run, intervals=kind, **options).results}
        for kind in ("binomial", "bootstrap")
    )
    for key, row in binomial.items():
        if "recall" in key:
            known = binomtest(round(row.value * row.n_queries), row.n_queries).proportion_ci(0.95, method="wilson")
            assert (row.low, row.high) == (known.low, known.high)
            assert row.interval_method == "binomial"
        else:
            assert row == bootstrap[key]
            assert row.interval_method == ("bootstrap" if "median" in key or "rsum" in key else "studentized")


def test_no_intervals(run, report_of):
    for options in ({"intervals": "none"}, {"confidence": None}):
        report = report_of(run, ["coco_5k", "cxc/sts"], **options)
        assert all(row.low is row.high is row.interval_method is None for row in report.results)
        assert (report.provenance.confidence, report.provenance.intervals) == (None, "none")


def test_correlations_name_their_own_samples(run, report_of):
    report = report_of(run, "cxc/sts", metrics=["bootstrap_spearman", "kendall_tau_b"], intervals="binomial")
    methods = {row.metric: row.interval_method for row in report.results}
    assert methods == {
        "bootstrap_spearman": "random_halves",
        "bootstrap_spearman_std": None,
        "kendall_tau_b": "bootstrap_queries",
    }


def test_pages_say_how_each_interval_was_made(run, report_of):
    """A console says it only where an interval is not the bootstrap's, as over 1,000 images or more."""
    mixed = report_of(run, ["coco_5k", "cxc/sts"], intervals="binomial")
    few = report_of(run, "coco_5k")
    usual = replace(few, results=tuple(replace(row, interval_method="bootstrap") for row in few.results))
    wilson_text = "R@1, R@5, R@10: Wilson's, as if the queries were independent"
    bootstrap_text = "from a bootstrap that keeps the captions of an image together"
    few_text = "Student's t over images, corrected for skewness, as they are fewer than 1,000"
    for shown in (str(mixed), render_markdown(Page(mixed)), unescape(render_html(Page(mixed)))):
        words = " ".join(shown.split())
        assert wilson_text in words
        assert "Spearman: from random halves of the queries" in words
        assert f"other metrics: {bootstrap_text}" in words
    assert few_text in " ".join(str(few).split())
    assert few_text in unescape(render_html(Page(few)))
    assert "bootstrap" not in str(usual)
    assert f"Intervals: {bootstrap_text}" in render_markdown(Page(usual))
    assert f"95% interval ({bootstrap_text})" in render_html(Page(usual))
    (table,) = PaperTables({"a": mixed}, ["coco_5k"], intervals=True).tables()
    assert table.notes == [f"intervals: {wilson_text}; other metrics: {bootstrap_text}"]
    (row,) = csv.DictReader(PaperTables({"a": mixed}, ["coco_5k"], intervals=True).to_csv().splitlines())
    assert row["coco_5k/i2t/recall_at_1/interval_method"] == "binomial"
    assert row["coco_5k/rsum/interval_method"] == "bootstrap"
    read = Report.from_json(mixed.to_json())
    assert read.results == mixed.results
    frame = mixed.to_pandas().set_index(["task", "direction", "metric"])["interval_method"]
    assert frame["coco_5k", "t2i", "recall_at_10"] == "binomial"


def test_the_kind_of_intervals_is_recorded(run, report_of):
    report = report_of(run, "coco_5k", intervals="binomial", confidence=0.9, seed=4)
    facts = report.provenance
    assert (facts.intervals, facts.confidence, facts.seed) == ("binomial", 0.9, 4)


def test_metric_named_twice_is_reported_once(run, report_of):
    report = report_of(run, "coco_5k", metrics=["rsum", "recall_at_1", "rsum", "recall_at_1"])
    keys = [row.key for row in report.results]
    assert keys == ["coco_5k/i2t/recall_at_1", "coco_5k/t2i/recall_at_1", "coco_5k/rsum"]


@pytest.mark.parametrize("tasks", ["all", "entailment"])
def test_depth_of_zero_is_the_only_error(run, report_of, tasks):
    with pytest.raises(InvalidOption, match=r"^the top k of a ranking: k is 0, expected a whole number of at least 1$"):
        report_of(run, tasks, metrics=["entail_at_0"])
