"""The console table: every number, none cut off."""

import re
from dataclasses import replace
from itertools import product

import pytest
from owner_addresses import write_metadata
from rich.console import Console

from cxc_eccv.cli.delivery import deliver
from cxc_eccv.registry import metric_variants, tasks
from cxc_eccv.report import Report
from cxc_eccv.report.console import render
from cxc_eccv.report.page_content import Page
from cxc_eccv.sources.collections.coco import COLLECTION as COCO
from cxc_eccv.tables import MISSING
from cxc_eccv.types import Bounds, Result
from cxc_eccv.types.json_records import from_json
from cxc_eccv.types.provenance import Provenance
from cxc_eccv.wording import PRECISION


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
    for part in ("R@1", "41.7 [40.0, 43.0]", "2.0 [2.0, 3.0]", "412.3"):
        assert part in text


def test_correlations_stand_under_the_direction_of_their_pairs():
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


def test_deviation_of_samples_is_no_row():
    rho = Result("cxc", "sts", "bootstrap_spearman", 0.7349, 25_000, low=0.727, high=0.742)
    text = shown(rho, Result("cxc", "sts", "bootstrap_spearman_std", 0.0041, 25_000))
    assert re.search(r"Spearman sts +0.735 \[0.727, 0.742\]", text)
    assert "std of samples" not in text
    assert "0.004" in shown(Result("cxc", "sts", "bootstrap_spearman_std", 0.0041, 25_000))  # alone it is a row


def test_coverage_and_skipped_tasks_are_told(capsys):
    text = shown(
        Result("entailment", "i2t", "entail_at_5", 0.3, 60, coverage=0.125),
        skipped={"coco_1k/i2t": "too small", "coco_1k/t2i": "too small"},
    )
    assert "Entail@K: at least 12.5% of the pairs have a label" in text
    assert "Not scored: coco_1k: too small" in text
    Report((), {"cxc": "no images"}).show()
    assert "No task could be scored." in capsys.readouterr().out


JUDGED = Result("entailment", "i2t", "entail_at_5", 0.3, 60, coverage=0.125, parameters={"unjudged": "classifier"})
KNOWN = "interval over images only; the judge's precision in retrieved lists is unknown"


def test_console_says_what_judged_intervals_leave_out():
    text = shown(JUDGED, width=300)
    assert re.search(r"Entail@5 +30.0\s+judge +precision unknown", text)
    assert KNOWN in text
    pairs = "--scheme entailment --number entailment/i2t/entail_at_5 --budget 300 --judge JUDGE"
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


def test_judged_flickr_numbers_name_their_collections_command():
    text = shown(replace(JUDGED, task="flickr30k_entailment"), width=300, split="validation")
    assert "To ask people: cxc-eccv entailment export RUN --images IMAGES --output FOLDER --split val" in text


def test_each_reason_has_a_line_and_few_names():
    skipped = {"cxc/i2i": "no images", "coco_1k/i2t": "too small", "cxc/sis": "no images"}
    skipped |= dict.fromkeys(("cxc/sits", "coco_5k", "eccv_caption"), "no images")
    assert [line.rstrip() for line in shown(skipped=skipped, width=300).splitlines()[-2:]] == [
        "Not scored: cxc/i2i, cxc/sis, cxc/sits and 2 more: no images",
        "Not scored: coco_1k/i2t: too small",
    ]


def test_many_reasons_have_one_line():
    skipped = {name: f"no {name}" for name in ("cxc/i2i", "cxc/sis", "cxc/sits", "coco_5k", "coco_1k")}
    told = "Not scored: cxc/i2i, cxc/sis, cxc/sits and 2 more; report.skipped says why"
    assert shown(skipped=skipped).splitlines()[-1].rstrip() == told


def test_command_says_where_reasons_stand(tmp_path, capsys):
    skipped = {name: f"no {name}" for name in ("cxc/i2i", "cxc/sis", "cxc/sits", "coco_5k", "coco_1k")}
    report = Report((Result("cxc", "t2t", "recall_at_1", 0.5, 60),), skipped, from_json(Provenance, {}))
    deliver(report, None)
    assert "and 2 more; name --output to see why\n" in capsys.readouterr().out
    deliver(report, tmp_path / "out")
    assert "and 2 more; report.json and the page say why\n" in capsys.readouterr().out


def test_tasks_of_other_data_share_one_line():
    skipped = dict.fromkeys(("flickr30k", "flickr30k_entailment"), "the run holds 161 of the 5,000 captions")
    text = shown(
        Result("cxc", "t2t", "recall_at_1", 0.5, 60), skipped=skipped | {"flickr8k": "no", "flickr8k_crowd": "no"}
    )
    told = "4 further tasks need Flickr30k or Flickr8k: `cxc-eccv list tasks` names them"
    assert text.splitlines()[-1].rstrip() == told
    assert "161" not in text


def test_full_report_fits_60_lines_of_80_columns():
    """Scores of the widest kind: whole percents, ranks of three digits, correlations below 0."""
    values = {"median_rank": (151.0, 144.0, 159.0), "rsum": (491.7, 489.2, 494.1), "bootstrap_spearman": (0.5,) * 3}
    rows = []
    for each in tasks().values():
        if each.collection is COCO and not each.of_label_files:
            for name in each.metrics:
                spec, variants = metric_variants(name)
                parts = [""] if name == "rsum" else [part.name for part in each.parts_with(spec.reads)]
                for part, parameters in product(parts, variants):
                    value, low, high = values.get(name, (1.0, 1.0, 1.0))
                    label = spec.label(**parameters)
                    coverage = 0.128 if name == "entail_at_k" else None
                    rows.append(Result(each.name, part, label, value, 9, low=low, high=high, ties=9, coverage=coverage))
    lines = shown(*rows, skipped={"flickr30k": "not here"}, width=80, model="CLIP").splitlines()
    written = 2
    assert len(lines) + written <= 60
    assert all("[" not in line or "]" in line for line in lines)  # no interval is below its value


def test_sum_over_directions_says_so():
    text = shown(
        Result("coco_5k", "i2t", "recall_at_1", 0.5, 60),
        Result("coco_5k", "t2i", "recall_at_1", 0.5, 60),
        Result("coco_5k", "", "rsum", 412.3, 120),
    )
    assert re.search(r"RSUM \(both\) +412.3\s*$", text, re.MULTILINE)


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


def test_ties_are_told_once_where_there_are_any():
    ranked = Result("coco_5k", "i2t", "recall_at_1", 0.5, 60, ties=2)
    note = "ties: in up to 2 queries of a task; a tied item ranks above the positive"
    assert shown(ranked, replace(ranked, direction="t2i", ties=1)).count(note) == 1
    assert "ties" not in shown(replace(ranked, ties=0))


def test_ties_link_to_their_page(monkeypatch, tmp_path):
    ranked = Result("coco_5k", "i2t", "recall_at_1", 0.5, 60, ties=2)
    report = Report((ranked,), {}, from_json(Provenance, {"data": {"edition": "sample"}, "split": "test"}))
    monkeypatch.syspath_prepend(tmp_path)
    write_metadata(tmp_path, {"Documentation": "https://example.org/cxc/"})
    assert "ranks above the positive (https://example.org/cxc/ties/)" in str(report)
    assert "(see https://example.org/cxc/ties/)" in report.to_markdown()
    assert '<a href="https://example.org/cxc/ties/">' in report.to_html()
    write_metadata(tmp_path, {})
    assert "ranks above the positive (docs/ties.md)" in str(report)
    assert "<code>docs/ties.md</code>" in report.to_html()


def test_the_console_looks_at_no_ranks(monkeypatch):
    """The page makes its parts when they are asked for: a console table waits for no chart."""
    monkeypatch.setattr("cxc_eccv.report.page_content.best_ranks", lambda _: 1 / 0)
    assert "R@1" in shown(Result("coco_5k", "i2t", "recall_at_1", 0.5, 5000))
