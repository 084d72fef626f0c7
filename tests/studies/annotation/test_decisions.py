"""Decisions of a project: later lines correct earlier ones, and a spoilt line is refused with its place."""

import json

import pytest

from cxc_eccv.errors import MalformedSource
from cxc_eccv.studies.annotation.project_files import (
    DECISIONS,
    Decision,
    add_decision,
    add_lines,
    read_decisions,
    read_lines,
)
from cxc_eccv.studies.asking.sheet_quality import Checks

GOOD = {"sheet": 0, "worker": "ann", "accepted": True}


def test_later_decision_corrects_an_earlier_one(tmp_path):
    assert read_decisions(tmp_path).checks == Checks()
    sheets = {(3, "a:nn"): True, (0, "ben"): False}
    workers = {"cleo": False, "dora": False}
    add_decision(tmp_path, Decision(sheets, workers, straight=True))
    add_decision(tmp_path, Decision({(0, "ben"): True}, {"dora": True}, least_seconds=20.0, least_accuracy=0.25))
    by_hand = {(3, "a:nn"): True, (0, "ben"): True}
    assert read_decisions(tmp_path).checks == Checks(20.0, by_hand, frozenset(["cleo"]), 0.25, straight=True)
    with (tmp_path / DECISIONS).open("a") as file:
        file.write(json.dumps(GOOD | {"worker": " Ann"}) + "\n")  # names have no case
    assert read_decisions(tmp_path).checks.by_hand[0, "ann"] is True


@pytest.mark.parametrize(("left", "lines"), [("", 1), ('{"a": 1}\n', 2), ('{"a": 1}', 2), ('{"a": 1}\n{"b"', 2)])
def test_lines_are_added_after_the_last_complete_one(left, lines, tmp_path):
    path = tmp_path / "some.jsonl"
    if left:
        path.write_text(left)
    add_lines(path, [{"c": 3}])
    assert [line for _, line in read_lines(path)] == [{"a": 1}, {"c": 3}][-lines:]
    assert path.read_text().count("\n") == lines


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"least_seconds": "0"}, "str"),
        ({"least_seconds": -1}, "least_seconds=-1: give seconds of at least 0"),
        ({"least_accuracy": 1}, "least_accuracy=1: give a share"),
        (GOOD | {"sheet": "0"}, "line 2.*worker and accepted"),
        (GOOD | {"worker": 3}, "line 2.*worker and accepted"),
        (GOOD | {"accepted": 1}, "line 2.*worker and accepted"),
        ({"sheet": 1, "worker": "a", "acepted": True}, "line 2.*worker and accepted"),
        (["ann"], "line 2.*an object"),
        (float("nan"), "line 2.*NaN"),
    ],
)
def test_spoilt_line_is_refused(line, message, tmp_path):
    (tmp_path / DECISIONS).write_text(json.dumps(GOOD) + "\n" + json.dumps(line) + "\n")
    with pytest.raises(MalformedSource, match=rf"{DECISIONS}.*{message}"):
        read_decisions(tmp_path)
