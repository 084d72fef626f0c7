"""Answers read back: whole sheets as they were asked, and what is unfinished, corrected, or said by the same person."""

import json

import pytest
from asked_samples import records_of as records
from asked_samples import sample_sheets

from cxc_eccv.errors import MalformedSource
from cxc_eccv.studies.asking.answers import READ, Unfinished, read_answers
from cxc_eccv.studies.asking.questions import Questionnaire
from cxc_eccv.studies.asking.schemes import schemes

ECCV = schemes()["eccv"]


@pytest.fixture(scope="module")
def asked(sample_library):
    """Two rounds of two sheets each; the second asks for no reasons."""
    rounds = enumerate((ECCV, ECCV.without_reasons()))
    return [Questionnaire(scheme, sample_sheets(sample_library, start=place), 2 * place) for place, scheme in rounds]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_answers_of_several_files_and_rounds_in_any_order_are_one_table(asked, tmp_path):
    rows = {worker: [row for own in asked for row in records(own, worker)] for worker in ("w2", "w1")}
    files = [write(tmp_path / f"{worker}.jsonl", own[::-1]) for worker, own in rows.items()]
    found = read_answers(files, asked)
    assert found.answers.schema == READ
    assert found.unfinished == ()
    expected = sorted([*rows["w1"], *rows["w2"]], key=lambda row: (row["sheet"], row["worker"]))
    for name in ("sheet", "pair_id", "worker"):
        assert found.answers[name].to_pylist() == [row[name] for row in expected]
    assert set(found.answers["sheet"].to_pylist()) == {0, 1, 2, 3}
    assert found.answers["origin"][0].as_py() == f"w1.jsonl, line {len(rows['w1'])}"


def test_sheets_of_a_later_round_that_an_older_version_numbered_from_0_are_known(asked, tmp_path):
    rows = [row | {"sheet": row["sheet"] - 2} for row in records(asked[1])]
    found = read_answers([write(tmp_path / "a.jsonl", rows)], asked).answers
    assert set(found["sheet"].to_pylist()) == {2, 3}


def test_whole_sheets_are_taken_and_unfinished_ones_are_told(asked, tmp_path):
    rows = records(asked[0])
    found = read_answers([write(tmp_path / "a.jsonl", rows[:7])], asked)
    assert set(found.answers["sheet"].to_pylist()) == {0}
    assert found.unfinished == (Unfinished(1, "w1", 2, 4),)
    nothing = read_answers([write(tmp_path / "a.jsonl", rows[:2])], asked)
    assert (nothing.answers.num_rows, nothing.unfinished) == (0, (Unfinished(0, "w1", 2, 5),))
    halves = [write(tmp_path / f"{place}.jsonl", rows[place::2]) for place in (0, 1)]
    assert read_answers(halves, asked).answers.num_rows == len(rows)


def test_lines_of_a_sheet_that_is_whole_already_count_by_themselves(asked, tmp_path):
    file = write(tmp_path / "a.jsonl", records(asked[0])[:1])
    assert read_answers([file], asked, whole={(0, "w1")}).answers.num_rows == 1


def test_a_person_is_one_in_any_case_and_with_blanks_around_the_name(asked, tmp_path):
    rows = records(asked[0])
    for row, name in zip(rows, ["Ann", " ann ", "ANN", "ann"] * 3, strict=False):
        row["worker"] = name
    found = read_answers([write(tmp_path / "a.jsonl", rows)], asked)
    assert set(found.answers["worker"].to_pylist()) == {"ann"}
    assert found.answers.num_rows == len(rows)


def test_of_two_answers_the_last_counts_where_it_is_to_replace_the_first(asked, tmp_path):
    first, rows = write(tmp_path / "a.jsonl", records(asked[0])), records(asked[0])
    rows[2]["answer"] = "no"
    second = write(tmp_path / "b.jsonl", rows)
    with pytest.raises(MalformedSource, match=r"b\.jsonl, line 3.*an answer of 'w1'.*a\.jsonl, line 3.*--replace"):
        read_answers([first, second], asked)
    found = read_answers([first, second], asked, replace=True).answers
    assert [json.loads(said) for said in found["answer"].to_pylist()][2] == "no"
    assert read_answers([first, first], asked).answers.num_rows == len(rows)


def test_a_round_without_reasons_takes_none(asked, tmp_path):
    rows = records(asked[1], said=[("mostly_no", {})])
    assert read_answers([write(tmp_path / "a.jsonl", rows)], asked).answers.num_rows == len(rows)
    rows[1]["details"] = {"shortcomings": ["grammar"]}
    with pytest.raises(MalformedSource, match="does not ask for them"):
        read_answers([write(tmp_path / "a.jsonl", rows)], asked)


BAD = {
    "a sheet by truth": ({"sheet": False}, "of sheet False"),
    "a reason for yes": ({"details": {"shortcomings": ["grammar"]}}, "does not ask for them"),
    "errors unasked": (
        {"answer": "mostly_no", "details": {"shortcomings": ["grammar"], "errors": ["color"]}},
        "does not ask for them",
    ),
    "ticks without their group": ({"answer": "mostly_no", "details": ["grammar"]}, "the ticks of each group as a list"),
    "a worker of two lines": ({"worker": "a\nb"}, "worker"),
    "a remark by number": ({"remark": 3}, "remark"),
}


@pytest.mark.parametrize(("changes", "message"), BAD.values(), ids=BAD)
def test_what_only_lines_can_say_wrongly_is_refused(asked, tmp_path, changes, message):
    """What every format can say wrongly is in exchange/test_exchange.py."""
    rows = records(asked[0])
    rows[2] |= changes
    with pytest.raises(MalformedSource, match=rf"a\.jsonl.*line 3.*({message})"):
        read_answers([write(tmp_path / "a.jsonl", rows)], asked)
