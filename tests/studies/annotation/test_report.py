"""The report on an annotation against plain loops over the answers; what lacks is said, and no number stands for it."""

import json
import re
from collections import Counter
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from annotated_samples import (
    HOSTILE,
    NO_MODEL,
    answer_row,
    hostile_annotation,
    sample_annotation,
    sample_answers,
    sample_candidates,
)
from report_samples import Page
from rich.console import Console

from cxc_eccv.statistics.agreement import cohen_kappa
from cxc_eccv.studies.annotation.annotation_report import Annotation, report_annotation
from cxc_eccv.studies.annotation.annotation_tables import DRAWN
from cxc_eccv.studies.annotation.proposing import CANDIDATES
from cxc_eccv.studies.asking.answer_files import list_rows, tabulate
from cxc_eccv.studies.asking.questions import Question
from cxc_eccv.studies.asking.schemes import schemes
from cxc_eccv.studies.asking.sheet_quality import ACCEPTED, BY_HAND, REJECTED, Checks, judge_sheets
from cxc_eccv.tables import tables_to_console, tables_to_markdown

ECCV = schemes()["eccv"]
ANSWERS = ["yes", "partially_yes", "mostly_no", "no"]


def report_of(rows, candidates=None, *, scheme="eccv", **options):
    """A report on rows of answers."""
    answers = tabulate(rows)
    questions = [
        Question(row["pair_id"], row["image_id"], row["caption_id"], "a.jpg", "A dog.", row["role"], ())
        for row in list_rows(answers)
    ]
    fields = {"name": "mine", "sheets": [questions, [], [], []], "changes": NO_MODEL, **options}
    candidates = sample_candidates(answers) if candidates is None else candidates
    judged = judge_sheets(answers, options.get("checks"))
    return report_annotation(
        Annotation(answers=answers, judged=judged, candidates=candidates, scheme=schemes()[scheme], **fields)
    )


def counted(library):
    """Answers about candidates on accepted sheets, by a plain loop."""
    answers = sample_answers(library)
    judged = judge_sheets(answers, Checks())
    good = {(own.sheet, own.worker) for own in judged.itertuples() if own.verdict == ACCEPTED}
    rows = list_rows(answers)
    return [row for row in rows if row["role"] == "candidate" and (row["sheet"], row["worker"]) in good]


def proposals_of(library):
    rows = sample_candidates(sample_answers(library)).to_pylist()
    return {(row["image_id"], row["caption_id"]): row["proposals"] for row in rows}


@pytest.fixture(scope="module")
def report(sample_library):
    return sample_annotation(sample_library)


def cells(table):
    """First column to the others."""
    return {str(row[0]): [str(cell) for cell in row[1:]] for row in table.rows}


def test_sheets_and_what_speaks_against_them(report):
    found = cells(report.sheet_table)
    assert found["answered sheets"] == ["9", ""]
    verdicts = {ACCEPTED: ["7", "77.8%"], BY_HAND: ["2", "22.2%"], REJECTED: ["0", "0.0%"]}
    assert found.items() >= verdicts.items()
    assert found["known positive answered as negative"] == ["2", "22.2%"]
    assert found["both"] == ["1", "11.1%"]
    assert found["median"] == found["mean"] == ["1 min 20 s", ""]
    assert "cxc-eccv annotate check 'labels of mine' --accept SHEET:WORKER" in " ".join(report.sheet_table.notes)


def test_remarks_are_those_of_answers_that_have_one(sample_library):
    answers = list_rows(sample_answers(sample_library, remark="too dark"))
    assert len(report_of(answers).remarks) == sum(row["remark"] != "" for row in answers) == 9


def test_report_names_the_rule_that_accepts_sheets(sample_library):
    checks = Checks(least_accuracy=0.5)
    for report in (report_of(list_rows(sample_answers(sample_library)), checks=own) for own in (Checks(), checks)):
        assert report.sheet_table.notes[0].startswith(report.accepts)
    assert "50% of known pairs" in report.accepts


def test_times_are_of_sheets_that_record_them(sample_library):
    def told(seconds):
        rows = list_rows(sample_answers(sample_library))
        times = {(0, "ann"): 1.0, (1, "ann"): 2.0, (2, "ann"): 6.0}
        for row in rows:
            row["seconds"] = times.get((row["sheet"], row["worker"]), seconds)
        return report_of(rows, checks=Checks(least_seconds=10))

    some = told(None)
    none = told(None).sheet_table
    times = [cells(some.sheet_table)[name][0] for name in ("median", "mean", "shortest", "longest")]
    assert times == ["16.0 s", "24.0 s", "8.0 s", "48.0 s"]
    assert cells(some.sheet_table)["less than 10 seconds"] == ["1", "11.1%"]
    assert "The times of 6 sheets are unknown" in " ".join(none.notes)
    rows = [{**row, "seconds": None} for row in list_rows(sample_answers(sample_library))]
    unknown = report_of(rows)
    assert "median" not in cells(unknown.sheet_table)
    assert unknown.workers["median_seconds"].isna().all()
    assert {row["median_seconds"] for row in unknown.record()["workers"]} == {None}


@pytest.mark.reference
def test_table_b1_has_printed_ratios(report):
    """Of the printed rows: 970 workers and 2,969 sheets, as the text has them; 2,162 approved, where it has 2,160."""
    printed = [(599, 599, 459), (254, 681, 535), (61, 475, 374), (23, 297, 216), (21, 411, 285), (12, 506, 293)]
    counts = pd.DataFrame(printed, columns=["workers", "submitted", "approved"])
    table = replace(report, activity=report.activity.assign(**counts)).activity_table
    assert [row[-1] for row in table.rows] == ["76.6%", "78.6%", "78.7%", "72.7%", "69.3%", "57.9%"]
    assert cells(report.activity_table)["2 to 5"] == ["3", "9", "7", "77.8%"]
    assert cells(report.activity_table)["26 and more"] == ["0", "0", "0", "\N{EM DASH}"]


def test_table_b2_is_that_of_a_plain_loop(report, sample_library):
    wanted = {}
    lists = proposals_of(sample_library)
    for row in counted(sample_library):
        for one in lists[row["image_id"], row["caption_id"]] or [{"model": DRAWN, "rank": None}]:
            rank = one["rank"] and (one["rank"] if one["rank"] <= 5 else 0)
            for place in {rank, None}:
                wanted.setdefault((one["model"], place), Counter())[json.loads(row["answer"])] += 1
        wanted.setdefault(("", None), Counter())[json.loads(row["answer"])] += 1
    found = {(own["model"], own["rank"]): own["counts"] for own in report.record()["by_rank"]}
    assert found == {key: [own[name] for name in ANSWERS] for key, own in wanted.items()}
    table = report.rank_table
    assert table.headings == ["Rank", "yes", "partially yes", "mostly no", "no", "Answers"]
    assert [row[0] for row in table.rows if len(row) == 1] == ["clip", "vsrn", "Not by model"]
    for row in (row for row in table.rows if len(row) > 1):
        assert sum(map(float, row[1:-1])) == pytest.approx(100, abs=0.25)


def test_table_b3_is_that_of_a_plain_loop(report, sample_library):
    wanted = {}
    lists = proposals_of(sample_library)
    for row in counted(sample_library):
        ticks = json.loads(row["details"]).get("shortcomings", [])
        for one in [*(lists[row["image_id"], row["caption_id"]] or [{"model": DRAWN}]), {"model": ""}]:
            wanted.setdefault(one["model"], Counter()).update(ticks)
    choices, found = report.record()["details"]["What falls short?"]
    assert {own["model"]: own["counts"] for own in found} == {
        model: [own[name] for name in choices] for model, own in wanted.items()
    }
    titles = [table.title for table in report.detail_tables]
    assert titles == ["What falls short", "What is wrong about the main concepts"]


def test_agreement_of_two_is_cohens_kappa(report, sample_library):
    said = {}
    for row in counted(sample_library):
        said.setdefault(row["worker"], {})[row["image_id"], row["caption_id"]] = int(row["positive"])
    found = {(own.first, own.second): own for own in report.by_pair.itertuples()}
    assert set(found) == set(combinations(sorted(said), 2))
    for (first, second), own in found.items():
        both = sorted(said[first].keys() & said[second].keys())
        answers = [[said[name][pair] for pair in both] for name in (first, second)]
        assert (own.pairs, own.share) == (len(both), np.mean(np.equal(*answers)))
        assert own.kappa == pytest.approx(cohen_kappa(*answers, 2))


def test_agreement_counts_pairs_of_two_judges(report, sample_library):
    judges = {}
    for row in counted(sample_library):
        judges.setdefault((row["image_id"], row["caption_id"]), set()).add(row["worker"])
    judged_by_two = [workers for workers in judges.values() if len(workers) > 1]
    assert judged_by_two
    assert {agreement.pairs for agreement in report.agreement} == {len(judged_by_two)}


def test_agreement_with_label_needs_other_judgments(report, sample_library):
    """Pairs that nobody else judged are left out."""
    votes = {}
    for row in counted(sample_library):
        votes.setdefault((row["image_id"], row["caption_id"]), {})[row["worker"]] = row["positive"]
    for own in report.with_label.itertuples():
        shared = [said for said in votes.values() if own.first in said and len(said) > 1]
        label = [sum(said.values()) > len(said) / 2 for said in shared]
        assert own.pairs == len(shared)
        assert own.share == np.mean([said[own.first] == one for said, one in zip(shared, label, strict=True)])


def test_only_the_last_answer_per_worker_counts(sample_library):
    rows = list_rows(sample_answers(sample_library, ("ann", "ben"), sheets=1))
    once = report_of(rows)
    first = next(row for row in rows if row["worker"] == "ann" and row["role"] == "candidate")
    pair = first["image_id"], first["caption_id"]
    other = "no" if first["positive"] else "yes"
    again = [answer_row(ECCV, 1, "ann", pair, "candidate", other)]
    twice = report_of([*rows, *again])
    every = [report.record()["by_rank"][-1]["counts"] for report in (once, twice)]
    assert sum(every[0]) == sum(every[1])
    assert every[0] != every[1]


def test_the_levels_of_measurement(sample_library):
    numbers, binary = sample_annotation(sample_library, scheme="cxc").agreement
    assert set(numbers.values) == {"krippendorff_alpha"}
    assert set(binary.values) == {"share", "falotico_quatto_kappa", "krippendorff_alpha"}
    of_two = sample_annotation(sample_library, scheme="entailment")
    assert of_two.classes == ("none", "describes", "follows", "describes and follows")
    assert [own.about for own in of_two.agreement] == ["4 answers", "positive or not"]
    assert sample_annotation(sample_library, scheme="cxc").classes == ("0", "1", "2", "3", "4", "5")


def test_report_without_answers_has_no_numbers(sample_library):
    report = report_of([], CANDIDATES.empty_table())
    text = tables_to_markdown(report.tables())
    assert "No answers yet: cxc-eccv annotate import reads them." in text
    assert not re.search(r"\d", str([[str(cell) for cell in row[1:]] for own in report.tables() for row in own.rows]))
    assert "No answers yet" in report.to_html()
    content = json.loads(report.to_json())
    assert content["sheets"] == content["workers"] == content["by_rank"] == content["activity"] == []
    assert content["agreement"][0]["values"] == {}


def test_one_worker_agrees_with_nobody(sample_library):
    report = sample_annotation(sample_library, workers=("ann",))
    assert report.by_pair.empty
    assert report.with_label.empty
    assert all(not own.values for own in report.agreement)
    assert "no pair was judged by two people whose sheets are accepted" in " ".join(report.agreement_table.notes)
    assert cells(report.worker_table)["ann"][-3:] == ["\N{EM DASH}"] * 3


def test_sheets_without_known_pairs_fail_none(sample_library):
    rows = [row for row in list_rows(sample_answers(sample_library)) if row["role"] == "candidate"]
    report = report_of(rows)
    assert cells(report.sheet_table)["known positive answered as negative"] == ["0", "\N{EM DASH}"]
    assert "Some sheets lack a known pair" in " ".join(report.sheet_table.notes)


def test_equal_answers_leave_kappa_undefined():
    pairs = [(1, 10), (2, 20)]
    rows = [answer_row(ECCV, 0, worker, pair, "candidate", "no") for worker in ("ann", "ben") for pair in pairs]
    report = report_of(rows)
    for own in report.agreement:
        assert own.values == {"share": 1.0, "falotico_quatto_kappa": 1.0}
        assert "all answers are the same" in own.not_computed["krippendorff_alpha"]
    assert [(own["share"], own["kappa"]) for own in report.record()["by_pair"]] == [(1.0, None)]


@pytest.mark.parametrize("scheme", ["eccv", "cxc", "entailment"])
def test_a_terminal_of_80_columns_holds_it(sample_library, scheme):
    with (console := Console(width=80, color_system=None)).capture() as captured:
        console.print(tables_to_console(sample_annotation(sample_library, scheme=scheme).tables()))
    assert max(map(len, captured.get().splitlines())) <= 80


def test_console_shortens_tables_that_files_keep_whole(sample_library):
    workers = tuple(f"w{number:02}" for number in range(25))
    report = sample_annotation(sample_library, workers=workers, sheets=1)
    assert "5 more with --output." in tables_to_markdown(report.tables())
    assert len(report.record()["by_pair"]) > 200


@pytest.fixture(scope="module")
def hostile(sample_library):
    return hostile_annotation(sample_library)


def test_nothing_that_people_typed_acts_on_the_page(hostile):
    html = hostile.to_html()
    page = Page(html)
    assert not page.all("script", "img", "iframe", "object", "form")
    assert not [name for one in page.elements for name in one["attrs"] if name.startswith("on")]
    assert not [one for one in page.all("a") if not one["attrs"]["href"].startswith("#")]
    assert "\x1b" not in html
    (body,) = page.all("body")
    shown = HOSTILE.replace("\x1b", "\\x1b")
    assert body["text"].count("<script>alert(2)</script>") > 20
    for place in (shown, f"{shown}\nsecond line", "ann </script>", f"no {shown}"):
        assert place in body["text"], place
    assert "default-src 'none'" in html


def test_typed_text_is_escaped_in_markdown_and_terminal(hostile):
    text = tables_to_markdown(hostile.tables())
    assert "<script" not in text
    assert "<img" not in text
    assert "[b](" not in text
    with (console := Console(width=80, color_system=None)).capture() as captured:
        console.print(tables_to_console(hostile.tables()))
    assert "\x1b" not in captured.get()
