"""How names, numbers and facts are written, and the tables of the papers' figures."""

from dataclasses import replace

import numpy as np

from cxc_eccv import wording
from cxc_eccv.comparison import published_tables
from cxc_eccv.comparison.pairing import judge_of
from cxc_eccv.report import Report
from cxc_eccv.report.charts import Curve, Verdicts, finding, line_chart
from cxc_eccv.report.page_content import Page, caveat_of
from cxc_eccv.report.pages import render_markdown
from cxc_eccv.tables import rows_to_csv
from cxc_eccv.types import Bounds, Result
from cxc_eccv.types.json_records import from_json
from cxc_eccv.types.provenance import Provenance
from cxc_eccv.wording import explain_intervals, heading_of, list_names, metric_name, score_cell, show_value, task_name

ENTAILED = Result("entailment", "i2t", "entail_at_5", 0.5, 9, low=0.4, high=0.625, ties=2, coverage=0.25)


def test_shares_and_counts():
    assert [wording.share(*pair) for pair in ((1, 4), (0, 4), (1, 25_000), (24_999, 25_000))] == [
        "25.0%",
        "0%",
        "<0.1%",
        ">99.9%",
    ]
    counted = [wording.count(1, "query"), wording.count(25_000, "query"), wording.count(2, "tie")]
    assert counted == ["1 query", "25,000 queries", "2 ties"]


def test_names_are_those_of_papers():
    assert wording.row_name(ENTAILED) == "Entail@5"
    left_out = replace(ENTAILED, parameters={"k": 5, "unjudged": "leave_out"})
    assert wording.row_name(left_out) == "Entail@5 (unjudged: leave out)"
    assert (metric_name("median_rank"), metric_name("bootstrap_spearman_std")) == ("median rank", "std of samples")
    assert metric_name("bootstrap_spearman_std", in_full=True) == "Spearman, std over samples"
    assert (task_name("entailment"), task_name("of_next_year")) == ("Entailment", "Of next year")
    assert heading_of("coco_5k/i2t/recall_at_1") == ("COCO 5K", "i2t", "R@1")
    assert heading_of("coco_1k/rsum") == ("COCO 1K", "", "RSUM")
    assert list_names(["COCO", "CxC", "ECCV"]) == "COCO, CxC and ECCV"


def test_values_are_in_the_units_of_their_metrics():
    assert (show_value("recall_at_1", 0.4174), show_value("median_rank", 2.5, sign=True)) == ("41.7", "+2.5")
    assert show_value("bootstrap_spearman_std", 0.0041) == "0.004"
    assert str(score_cell(ENTAILED)) == "50.0 [40.0, 62.5]"
    bounds = Bounds(low=0.25, high=0.75, unjudged=1, retrieved=2, expected=0.5)
    assert wording.bounds_text(replace(ENTAILED, bounds=bounds)) == "25.0 to\xa075.0 (50.0)"
    assert caveat_of([ENTAILED]).coverage == (("Entail@5", 0.25),)
    rows = [{"model": "a, b", "mrr": 0.5}, {"model": "c", "rsum": 400.0}]
    assert rows_to_csv(rows) == 'model,mrr,rsum\n"a, b",0.5,\nc,,400.0\n'


def test_facts_of_a_report():
    judged = {"model": "mine", "cautions": ["Trained on val data."], "pairs": {"entailment/i2t": 1200}}
    report = Report((), {}, from_json(Provenance, {"unjudged": judged}))
    told = "mine judged 1,200 pairs that have no label. Trained on val data."
    assert Page(report).judge == told
    assert judge_of(report) == {"model": "mine", "cautions": ["Trained on val data."]}
    facts = {"seed": 0, "split": "test", "run": {"images": {"count": 5}, "file": "my_*.npz"}}
    page = Page(Report((), {}, from_json(Provenance, facts)))
    assert page.facts == [("Run file", "my_*.npz"), ("Split", "test"), ("Seed", "0"), ("Images of the run", "5")]
    assert render_markdown(page).startswith("# my\\_\\*.npz\n")
    assert finding(Verdicts(1, {"coco_5k": 6, "cxc": 1}, 3, {})) == (
        "COCO calls the first item wrong for 4 of 10 queries; CxC calls it right for 1 of these (25.0%)."
    )


def test_the_tables_of_the_papers():
    sizes = [(table.name, len(table.models)) for table in published_tables()]
    assert sizes == [
        ("eccv_caption", 25),
        ("cxc", 14),
        ("open_clip", 121),
        ("pcme_plus_plus", 15),
        ("char_gru", 9),
        ("entailment", 6),
    ]
    table = published_tables()[0]
    assert table.scores_of("eccv_caption/i2t/map_at_r")["BLIP"] == 0.3602
    assert table.printed_in == "Tables D.2 and D.3; PMRP from Table 4"


def test_a_deviation_stands_beside_its_value():
    rho = Result("cxc", "sts", "bootstrap_spearman", 0.7349, 9, low=0.727, high=0.742)
    (shown,) = wording.fold_deviations([rho, Result("cxc", "sts", "bootstrap_spearman_std", 0.0041, 9)])
    assert (wording.value_text(shown), wording.interval_text(shown)) == ("0.735 ±\xa00.004", "0.727 to\xa00.742")


def test_recall_curve_uses_a_logarithmic_axis():
    curve = Curve("i2t", np.array([1, 10, 100]), np.array([0.5, 0.75, 1.0]), ())
    assert line_chart("cxc", {"cxc": [curve]}).lines[0].points == "32.0,102.0 160.0,57.0 288.0,12.0"


def test_wilsons_interval_of_extreme_recall_is_explained():
    def recall(task, value, method):
        return Result(task, "i2t", "recall_at_1", value, 9, interval_method=method)

    chosen = [recall("coco_1k", 1.0, "binomial_images"), recall("coco_5k", 0.5, "bootstrap")]
    assert explain_intervals(chosen).startswith("R@1 of 0 or 100%: Wilson's")
    requested = [recall(task, 0.5, "binomial_images") for task in ("coco_1k", "coco_5k")]
    rank = Result("coco_5k", "i2t", "median_rank", 2.0, 9, interval_method="bootstrap")
    assert explain_intervals([*requested, rank]).startswith("R@1: Wilson's")
