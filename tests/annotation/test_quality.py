"""Verdicts on sheets and workers, on answers made by hand; and the sums of the paper's Table B.1."""

import pyarrow as pa
import pytest

from cxc_eccv.annotation.answers import SCHEMA
from cxc_eccv.annotation.quality import ACCEPTED, BY_HAND, REJECTED, SheetQuality, accept, group_workers, judge_sheets
from cxc_eccv.errors import InvalidOption


def answers(sheet, worker, candidates, *, positive=True, negative=False, seconds=10.0):
    rows = [("candidate", answer, answer == "yes") for answer in candidates]
    rows += [("known positive", "yes" if positive else "no", positive)]
    rows += [("known negative", "yes" if negative else "no", negative)]
    return [
        {
            "sheet": sheet, "pair_id": f"{sheet}-{place}", "image_id": 1, "caption_id": place, "role": role,
            "worker": worker, "answer": answer, "gain": float(said), "positive": said, "details": "{}", "remark": "",
            "seconds": seconds,
        }
        for place, (role, answer, said) in enumerate(rows)
    ]  # fmt: skip


def table(*sheets):
    return pa.Table.from_pylist([row for rows in sheets for row in rows], schema=SCHEMA)


MIXED = ["yes", "no", "yes"]


@pytest.mark.parametrize(
    ("options", "candidates", "verdict"),
    [
        ({}, MIXED, ACCEPTED),
        ({"positive": False}, MIXED, BY_HAND),
        ({"negative": True}, MIXED, BY_HAND),
        ({"positive": False, "negative": True}, MIXED, REJECTED),
        ({}, ["yes"] * 3, BY_HAND),
        ({}, ["yes"] * 2, ACCEPTED),
        ({"seconds": 1.0}, MIXED, BY_HAND),
    ],
)
def test_the_verdict_on_a_sheet(options, candidates, verdict):
    (own,) = judge_sheets(table(answers(0, "w", candidates, **options)), least_seconds=20)
    assert own.verdict == verdict
    assert own.seconds == (len(candidates) + 2) * options.get("seconds", 10)


def test_what_is_accepted_by_hand_counts_and_nothing_else():
    bad = answers(1, "bad", MIXED, positive=False, negative=True)
    given = table(answers(0, "good", MIXED), answers(0, "doubtful", ["yes"] * 3), bad)
    judged = judge_sheets(given)
    assert set(accept(given, judged)["worker"].to_pylist()) == {"good"}
    assert set(accept(given, judged, [(0, "doubtful")])["worker"].to_pylist()) == {"good", "doubtful"}
    for pair, message in (((1, "bad"), "rejected"), ((0, "good"), "accepted"), ((9, "x"), "not among")):
        with pytest.raises(InvalidOption, match=message):
            accept(given, judged, [pair])


@pytest.mark.reference
def test_the_groups_of_table_b1_and_what_its_rows_sum_to():
    """The printed rows: 970 workers and 2,969 sheets, as the text has them; 2,162 approved, where it has 2,160."""
    printed = [(599, 599, 459), (254, 681, 535), (61, 475, 374), (23, 297, 216), (21, 411, 285), (12, 506, 293)]
    assert [sum(column) for column in zip(*printed, strict=True)] == [970, 2969, 2162]
    sizes = [1, 3, 7, 12, 20, 30]
    judged = [
        SheetQuality(number, f"w{size}", 60, False, False, False, ACCEPTED if number else REJECTED)
        for size in sizes
        for number in range(size)
    ]
    rows = group_workers(judged)
    assert [(own.least, own.most) for own in rows] == [(1, 1), (2, 5), (6, 10), (11, 15), (16, 25), (26, None)]
    assert [(own.workers, own.submitted, own.approved) for own in rows] == [(1, size, size - 1) for size in sizes]
    assert rows[-1].ratio == pytest.approx(29 / 30)


def test_a_time_below_zero_is_refused():
    with pytest.raises(InvalidOption, match="least_seconds"):
        judge_sheets(table(answers(0, "w", MIXED)), least_seconds=-1)
