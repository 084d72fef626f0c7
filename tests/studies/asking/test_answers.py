"""Answers read back: whole sheets as they were asked, and for every kind of damage an error with place and remedy."""

import json

import numpy as np
import pyarrow as pa
import pytest

from cxc_eccv.errors import MalformedSource
from cxc_eccv.studies.asking.answers import SCHEMA, read_answers
from cxc_eccv.studies.asking.questionnaire import questionnaire_id
from cxc_eccv.studies.asking.questions import build_sheets
from cxc_eccv.studies.asking.schemes import schemes

ECCV = schemes()["eccv"]


@pytest.fixture(scope="module")
def sheets(sample_library):
    content = sample_library.karpathy("test")
    pairs = pa.table({"image_id": content.image_ids[:5], "caption_id": content.caption_ids[::-1][:5]})
    nothing = np.empty(0, dtype=np.int64)
    return build_sheets(
        pairs, content, positive=(nothing, nothing), is_near=lambda images, _: np.zeros(images.size, bool), size=3
    )


def records(sheets, worker="w1", scheme=ECCV, answer="yes"):
    return [
        {
            "questionnaire": questionnaire_id(sheets, scheme),
            "sheet": number,
            "pair_id": own.pair_id,
            "image_id": own.image_id,
            "caption_id": own.caption_id,
            "caption": own.caption,
            "worker": worker,
            "answer": answer,
            "details": {},
            "seconds": 4.2,
        }
        for number, sheet in enumerate(sheets)
        for own in sheet
    ]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_answers_of_several_files_in_any_order_are_one_table(sheets, tmp_path):
    files = [write(tmp_path / f"{worker}.jsonl", records(sheets, worker)[::-1]) for worker in ("w2", "w1")]
    table = read_answers(files, sheets, ECCV)
    assert table.schema == SCHEMA
    assert table.num_rows == 2 * sum(map(len, sheets))
    assert table["sheet"].to_pylist() == sorted(table["sheet"].to_pylist())
    assert table["pair_id"].to_pylist()[:5] == [own.pair_id for own in sheets[0]]
    assert table["worker"].to_pylist()[:10] == ["w1"] * 5 + ["w2"] * 5
    assert set(table["gain"].to_pylist()) == {1.0}


def test_a_worker_may_answer_some_sheets(sheets, tmp_path):
    rows = [row for row in records(sheets) if row["sheet"] == 1]
    assert read_answers([write(tmp_path / "a.jsonl", rows)], sheets, ECCV).num_rows == len(sheets[1])


BAD = {
    "unknown pair": ({"pair_id": "0" * 16}, "pair_id '0000000000000000' of sheet 0.*remove the line"),
    "unknown sheet": ({"sheet": 7}, "of sheet 7"),
    "a sheet by truth": ({"sheet": False}, "of sheet False"),
    "changed text": ({"caption": "Something else."}, "caption.*as it was asked: undo the change"),
    "changed image": ({"image_id": 1}, "image_id.*as it was asked"),
    "another edition": ({"questionnaire": "f" * 12}, "other questions, or to those of another edition"),
    "no such answer": ({"answer": "maybe"}, "give one of yes, partially_yes"),
    "no answer": ({"answer": None}, "give one of"),
    "no reason": ({"answer": "mostly_no"}, "shortcomings: none; tick one or more"),
    "unknown reason": ({"answer": "mostly_no", "details": {"shortcomings": ["ugly"]}}, "'ugly'"),
    "a reason for yes": ({"details": {"shortcomings": ["grammar"]}}, "asks for no such thing"),
    "errors unasked": (
        {"answer": "mostly_no", "details": {"shortcomings": ["grammar"], "errors": ["color"]}},
        "asks for no such thing",
    ),
    "a worker without a name": ({"worker": " "}, "worker"),
    "a worker of two lines": ({"worker": "a\nb"}, "worker"),
    "negative time": ({"seconds": -1}, "seconds"),
    "endless time": ({"seconds": float("inf")}, "finite numbers"),
    "a remark by number": ({"remark": 3}, "remark"),
}


@pytest.mark.parametrize(("changes", "message"), BAD.values(), ids=BAD)
def test_what_was_not_asked_or_answered_so_is_refused(sheets, tmp_path, changes, message):
    rows = records(sheets)
    rows[2] |= changes
    with pytest.raises(MalformedSource, match=rf"a\.jsonl.*line 3.*({message})"):
        read_answers([write(tmp_path / "a.jsonl", rows)], sheets, ECCV)


def test_a_missing_key_a_half_sheet_and_a_second_answer_are_refused(sheets, tmp_path):
    rows = records(sheets)
    with pytest.raises(MalformedSource, match=r"line 1.*seconds"):
        read_answers([write(tmp_path / "a.jsonl", [{**rows[0], "seconds": None}])], sheets, ECCV)
    with pytest.raises(MalformedSource, match=r"4 of 5 answers of 'w1'.*finish it, or remove its lines"):
        read_answers([write(tmp_path / "a.jsonl", rows[1:])], sheets, ECCV)
    second = write(tmp_path / "b.jsonl", rows[:1])
    with pytest.raises(MalformedSource, match=r"b\.jsonl.*a second answer of 'w1'.*a\.jsonl, line 1, remove one"):
        read_answers([write(tmp_path / "a.jsonl", rows), second], sheets, ECCV)
    del rows[0]["seconds"]
    with pytest.raises(MalformedSource, match="seconds"):
        read_answers([write(tmp_path / "a.jsonl", rows)], sheets, ECCV)
    (tmp_path / "a.jsonl").write_text('{"questionnaire": ')
    with pytest.raises(MalformedSource, match="line 1"):
        read_answers([tmp_path / "a.jsonl"], sheets, ECCV)
