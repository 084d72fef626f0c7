"""Verdicts on sheets and workers, on answers made by hand; and the sums of the paper's Table B.1."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from annotated_samples import answer_row
from scipy.stats import binomtest

from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.asking.answer_files import tabulate
from cxc_eccv.studies.asking.sheet_quality import (
    ACCEPTED,
    BY_HAND,
    REJECTED,
    Checks,
    KnownAnswers,
    accept,
    group_workers,
    judge_sheets,
    judge_workers,
    list_doubts,
)


def answers(sheet, worker, candidates, *, positive=True, negative=False, seconds=10.0):
    rows = [("candidate", answer) for answer in candidates]
    rows += [("known positive", "yes" if positive else "no"), ("known negative", "yes" if negative else "no")]
    return [
        answer_row(ANY, sheet, worker, (1, place), role, answer, seconds) for place, (role, answer) in enumerate(rows)
    ]


def table(*sheets):
    return tabulate(row for rows in sheets for row in rows)


def rows(frame):
    return list(frame.itertuples())


MIXED = ["yes", "no", "yes"]
ANY = SimpleNamespace(name="any", compute_gain=lambda answer: float(answer == "yes"), is_positive=bool)
"""A scheme that takes every answer."""


@pytest.mark.parametrize(
    "options", [{}, {"positive": False}, {"negative": True}, {"positive": False, "negative": True}, {"seconds": 1.0}]
)
def test_the_verdict_on_a_sheet(options):
    (own,) = rows(judge_sheets(table(answers(0, "w", MIXED, **options)), Checks(least_seconds=20)))
    assert own.verdict == (BY_HAND if options else ACCEPTED)
    assert own.seconds == (len(MIXED) + 2) * options.get("seconds", 10)


def test_identical_answers_are_checked_only_on_request():
    """Where positives are rare, an honest sheet has it."""
    given = table(answers(0, "w", ["no"] * 3), answers(1, "w", ["no"] * 2))
    for straight, verdicts in ((False, [ACCEPTED, ACCEPTED]), (True, [BY_HAND, ACCEPTED])):
        judged = judge_sheets(given, Checks(straight=straight))
        assert judged["verdict"].tolist() == verdicts
        assert judged["straight"].tolist() == [True, False]


@pytest.mark.reference
def test_one_sheet_with_right_known_pairs_is_accepted():
    """ECCV Caption, section 3.2: a sheet with a wrong answer to a known pair is verified by hand."""
    nine = [answers(sheet, f"w{sheet}", MIXED) for sheet in range(9)]
    assert judge_sheets(table(*nine))["verdict"].tolist() == [ACCEPTED] * 9
    assert set(judge_sheets(table(*nine), Checks(least_accuracy=0.5))["verdict"]) == {BY_HAND}


@pytest.mark.parametrize(
    ("checks", "reasons"),
    [
        (Checks(), "one of its known pairs was answered wrongly."),
        (
            Checks(least_seconds=30, straight=True),
            "wrongly or it took less than 30 seconds or all its candidates got the",
        ),
        (Checks(least_accuracy=0.5), "wrongly or its person answered no more than 50% of known pairs correctly"),
    ],
)
def test_rule_names_its_reasons(checks, reasons):
    assert checks.rule.startswith("A sheet is accepted unless one of its known pairs")
    assert reasons in checks.rule


def test_interval_rule_checks_who_may_guess_by_hand():
    careful = [answers(sheet, "ann", MIXED) for sheet in range(2)]
    coin = [answers(sheet, "ben", MIXED, positive=sheet % 2 == 0, negative=sheet % 4 > 1) for sheet in range(10)]
    one = [answers(0, "cleo", MIXED)]
    judged = rows(judge_sheets(table(*careful, *coin, *one), Checks(least_accuracy=0.5)))
    verdicts = {name: {own.verdict for own in judged if own.worker == name} for name in ("ann", "ben", "cleo")}
    assert verdicts == {"ann": {ACCEPTED}, "ben": {BY_HAND}, "cleo": {BY_HAND}}
    ben = next(own for own in judged if own.worker == "ben" and not (own.missed_positive or own.missed_negative))
    assert list_doubts(ben) == ["11 of 20 [34%, 74%] known pairs right are not above 50%"]
    judged = rows(judge_sheets(table(*careful, *coin, *one)))
    assert sum(own.verdict == ACCEPTED for own in judged if own.worker == "ben") == 3
    (unknown,) = rows(judge_sheets(table(one[0][:3])))
    assert unknown.verdict == ACCEPTED
    strict = judge_sheets(table(*careful), Checks(least_accuracy=0.6))
    assert set(strict["verdict"]) == {BY_HAND}


@pytest.mark.parametrize("seed", range(20))
def test_interval_rule_never_accepts_a_random_annotator(seed):
    random = np.random.default_rng(seed)
    tossed = [
        answers(sheet, "coin", MIXED, positive=bool(random.integers(2)), negative=bool(random.integers(2)))
        for sheet in range(10)
    ]
    assert accept(table(*tossed), judge_sheets(table(*tossed), Checks(least_accuracy=0.5))).empty


@pytest.mark.parametrize(
    ("right", "answered", "may_be_chance"),
    [(2, 2, False), (0, 0, False), (1, 2, True), (3, 4, True), (11, 20, True), (9, 10, False)],
)
def test_known_answers_no_better_than_chance_are_noticed(right, answered, may_be_chance):
    assert KnownAnswers(right, answered).may_be_chance is may_be_chance


@pytest.mark.reference
@pytest.mark.parametrize(("right", "answered"), [(0, 3), (4, 4), (11, 20), (18, 20)])
def test_the_interval_is_wilson_s(right, answered):
    expected = binomtest(right, answered).proportion_ci(method="wilson")
    assert KnownAnswers(right, answered).bounds == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_nothing_of_a_rejected_worker_counts():
    given = table(*(answers(sheet, name, MIXED) for sheet in range(3) for name in ("ann", "ben")))
    checks = Checks(by_hand={(0, "ben"): True}, rejected_workers=frozenset(["ben"]))
    judged = judge_sheets(given, checks)
    assert set(judged.loc[judged["worker"] == "ben", "verdict"]) == {REJECTED}
    assert set(accept(given, judged)["worker"]) == {"ann"}


def test_what_was_decided_by_hand_counts():
    bad = answers(1, "bad", MIXED, positive=False, negative=True)
    good = [answers(sheet, "good", MIXED) for sheet in (0, 2)]
    given = table(*good, answers(0, "doubtful", ["yes"] * 3), bad)

    def workers(**by_hand):
        sheets = {(1 if worker == "bad" else 0, worker): good for worker, good in by_hand.items()}
        judged = judge_sheets(given, Checks(by_hand=sheets, least_accuracy=0.5))
        return set(accept(given, judged)["worker"])

    assert workers() == {"good"}
    assert workers(doubtful=True) == {"good", "doubtful"}
    assert workers(bad=True) == {"good", "bad"}
    judged = {own.worker: own for own in rows(judge_sheets(given, Checks(by_hand={(0, "doubtful"): False})))}
    assert [(judged[name].verdict, judged[name].checked) for name in ("doubtful", "good")] == [
        (REJECTED, True),
        (ACCEPTED, False),
    ]
    with pytest.raises(InvalidOption, match="not among"):
        judge_sheets(given, Checks(by_hand={(9, "x"): True}))


@pytest.mark.reference
def test_groups_of_table_b1():
    sizes = [1, 3, 7, 12, 20, 30]
    sheets = [(number, f"w{size}", ACCEPTED if number else REJECTED) for size in sizes for number in range(size)]
    judged = pd.DataFrame(sheets, columns=["sheet", "worker", "verdict"])
    groups = group_workers(judged)
    assert groups["least"].tolist() == [1, 2, 6, 11, 16, 26]
    assert groups["most"].fillna(0).tolist() == [1, 5, 10, 15, 25, 0]
    assert groups[["workers", "submitted", "approved"]].to_numpy().tolist() == [[1, size, size - 1] for size in sizes]
    assert group_workers(judged[:1])["submitted"].tolist() == [1, 0, 0, 0, 0, 0]


def test_sheet_with_one_unknown_time_has_none():
    some = answers(0, "w", MIXED)
    some[1]["seconds"] = None
    judged = judge_sheets(table(some, answers(1, "w", MIXED)), Checks(least_seconds=60))
    assert judged["seconds"].isna().tolist() == [True, False]
    assert judged["hasty"].tolist() == [False, True]


def test_nobody_answered_gives_empty_frames():
    judged = judge_sheets(table())
    assert len(judged) == len(judge_workers(judged)) == len(accept(table(), judged)) == 0
    assert group_workers(judged)["submitted"].tolist() == [0] * 6


def test_a_time_below_zero_is_refused():
    for number in (-1, float("nan"), float("inf")):
        for name in ("least_seconds", "least_accuracy"):
            with pytest.raises(InvalidOption, match=name):
                Checks(**{name: number})


def test_equal_answers_written_differently_are_equal():
    both = {"a": True, "b": False}, {"b": False, "a": True}
    given = table(answers(0, "w", [5, 5.0, 5]), answers(1, "w", [*both, *both]), answers(2, "w", [5, 4, 5]))
    assert judge_sheets(given)["straight"].tolist() == [True, True, False]


def test_the_sums_of_a_worker():
    sheets = [
        answers(0, "ann", MIXED, seconds=1),
        answers(1, "ann", ["yes"] * 3, seconds=2),
        answers(2, "ann", MIXED, positive=False, seconds=9),
        answers(3, "ann", MIXED, positive=False, negative=True),
        answers(0, "ben", MIXED),
    ]
    checks = Checks(least_seconds=6, by_hand={(3, "ann"): False}, straight=True)
    ann, ben = rows(judge_workers(judge_sheets(table(*sheets), checks)))
    assert (ann.submitted, ann.accepted, ann.rejected) == (4, 0, 1)
    assert (ann.missed_positives, ann.missed_negatives, ann.straight, ann.hasty) == (2, 1, 1, 1)
    assert ann.median_seconds == (5 * 2 + 5 * 9) / 2
    assert (ben.worker, ben.submitted, ben.accepted) == ("ben", 1, 1)
