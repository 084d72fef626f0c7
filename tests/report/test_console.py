"""The console table: every number, none cut off."""

import re
from dataclasses import replace

import pytest
from rich.console import Console

from cxc_eccv.report.page_content import Page
from cxc_eccv.report.score_tables import print_report, render
from cxc_eccv.tables import MISSING
from cxc_eccv.types import Bounds, Report, Result
from cxc_eccv.types.json_records import from_json
from cxc_eccv.types.provenance import Provenance
from cxc_eccv.wording import COVERAGE, PRECISION, TIES


def shown(*results, skipped=None, width=110, **provenance):
    console = Console(width=width)
    with console.capture() as captured:
        console.print(
            render(
                Page(Report(tuple(results), skipped or {}, from_json(Provenance, {"confidence": 0.95, **provenance})))
            )
        )
    return captured.get()


def test_percent_and_plain_numbers():
    text = shown(
        Result("coco_5k", "i2t", "recall_at_1", 0.4174, 5000, low=0.40, high=0.43, ties=3),
        Result("coco_5k", "i2t", "median_rank", 2.0, 5000, low=2.0, high=3.0, ties=3),
        Result("coco_1k", "", "rsum", 412.34, 30_000),
    )
    for part in ("R@1", "41.7 [40.0, 43.0]", "2.0 [2.0, 3.0]", "5,000", "412.3"):
        assert part in text


def test_correlations_stand_in_a_table_of_their_own():
    directions = [Result("cxc", d, "recall_at_1", 1.0, 25_000, low=1.0, high=1.0) for d in ("i2t", "t2i", "t2t", "i2i")]
    kinds = [
        Result("cxc", kind, "bootstrap_spearman", 0.757, 25_000, low=0.749, high=0.765)
        for kind in ("sts", "sis", "sits")
    ]
    text = shown(*directions, *kinds)
    assert "…" not in text
    assert text.count("100.0 [100.0, 100.0]") == 4
    assert text.count("0.757 [0.749, 0.765]") == 3
    assert "percent (correlations as they are) with 95% interval" in text


def test_the_deviation_of_samples_stands_beside_a_correlation():
    rho = Result("cxc", "sts", "bootstrap_spearman", 0.7349, 25_000, low=0.727, high=0.742)
    text = shown(rho, Result("cxc", "sts", "bootstrap_spearman_std", 0.0041, 25_000))
    assert "0.735 ± 0.004 [0.727, 0.742]" in text
    assert "std of samples" not in text
    assert "0.004" in shown(Result("cxc", "sts", "bootstrap_spearman_std", 0.0041, 25_000))  # alone it is a row


def test_coverage_and_skipped_tasks_are_told(capsys):
    text = shown(
        Result("entailment", "i2t", "entail_at_5", 0.3, 60, coverage=0.125),
        skipped={"coco_1k/i2t": "too small", "coco_1k/t2i": "too small"},
    )
    assert "judged pairs, least" in text
    assert "12.5" in text
    assert "Not scored. coco_1k: too small." in text
    print_report(Report((), {"cxc": "no images"}))
    assert "No task could be scored." in capsys.readouterr().out


JUDGED = Result("entailment", "i2t", "entail_at_5", 0.3, 60, coverage=0.125, parameters={"unjudged": "classifier"})
KNOWN = "interval over images only; the judge's precision in retrieved lists is unknown"


def test_numbers_by_a_judge_say_what_their_interval_leaves_out():
    text = shown(JUDGED, width=300)
    assert re.search(r"Entail@5 +30.0\s+judge +precision unknown", text)
    assert KNOWN in text
    pairs = "--scheme entailment --for entailment/i2t/entail_at_5 --budget 300 --probabilities JUDGE"
    assert f"To ask people: cxc-eccv annotate propose FOLDER RUN {pairs}\n" in text


@pytest.mark.parametrize(
    "change",
    [{"parameters": {"unjudged": "not_entailed"}}, {"coverage": 1.0}, {"parameters": {"unjudged": "manual"}}],
    ids=["by labels alone", "all labelled", "by people"],
)
def test_numbers_without_a_judges_error_carry_no_caution(change):
    text = shown(replace(JUDGED, **change), width=300)
    assert "precision" not in text
    assert "annotate propose" not in text


def test_measured_precision_of_a_judge_replaces_the_caution():
    bounds = Bounds(0.1, 0.9, 1, 2, 0.5, 0.4, 0.3, 0.5, precision=0.11, precision_low=0.0512, precision_high=0.2)
    text = shown(replace(JUDGED, bounds=bounds), width=300)
    assert re.search(r"judge +precision 11.0 \[5.1, 20.0\]", text)
    assert f"interval over images only; {PRECISION}." in text
    assert "unknown" not in text


def test_judged_numbers_on_flickr_name_the_command_of_their_collection():
    text = shown(replace(JUDGED, task="flickr30k_entailment"), width=300, split="validation")
    assert "To ask people: cxc-eccv entailment export RUN --images IMAGES --output FOLDER --split val" in text


def test_all_that_was_not_scored_stands_in_one_paragraph():
    skipped = {"cxc/i2i": "no images", "coco_1k/i2t": "too small", "cxc/sis": "no images", "flickr8k": "odd"}
    text = shown(skipped=skipped, width=300)
    assert text.splitlines()[-1].rstrip() == (
        "Not scored. cxc/i2i, cxc/sis: no images; coco_1k/i2t: too small; flickr8k: odd."
    )


def test_the_data_and_the_main_numbers_come_first():
    rows = [Result("cxc", way, "recall_at_1", 0.5, 60) for way in ("i2t", "t2t")]
    rows += [Result("eccv_caption", way, "map_at_r", 0.1, 60) for way in ("i2t", "t2i")]
    report = Report(
        tuple(rows), {}, from_json(Provenance, {"data": {"edition": "sample"}, "split": "test", "model": "CLIP"})
    )
    lines = [line.split() for line in str(report).splitlines() if line]
    assert " ".join(lines[0]) == "CLIP, test split of the embedded sample (60 drawings): not results on COCO"
    assert lines[2] == ["i2t", "t2i", "t2t"]
    assert lines[4:6] == [
        ["CxC", "R@1", "50.0", MISSING, "50.0"],
        ["ECCV", "Caption", "mAP@R", "10.0", "10.0", MISSING],
    ]
    assert "Main numbers" not in str(Report(tuple(rows[:2]), {}, report.provenance))  # its only table says the same


def test_what_the_rows_count_is_told_once_under_the_tables():
    ranked = Result("coco_5k", "i2t", "recall_at_1", 0.5, 60, ties=2)
    labelled = Result("entailment", "i2t", "entail_at_5", 0.3, 60, coverage=0.125)
    plain, both = shown(ranked, width=200), shown(ranked, labelled, width=200)
    assert plain.count(f"ties: {TIES}") == both.count(f"ties: {TIES}") == 1
    assert (plain.count(COVERAGE), both.count(f"judged pairs, least: {COVERAGE}")) == (0, 1)
    assert both.index("Entail@5") < both.index(TIES)
    assert TIES not in shown()


def test_the_console_looks_at_no_ranks(monkeypatch):
    """The page makes its parts when they are asked for: a console table waits for no chart."""
    monkeypatch.setattr("cxc_eccv.report.page_content.best_ranks", lambda _: 1 / 0)
    assert "R@1" in shown(Result("coco_5k", "i2t", "recall_at_1", 0.5, 5000))
