"""Files that people bring back, damaged or changed: each is read or refused, never a traceback or a crash."""

import json

import pytest
from changed_files import BOUNDED, DAMAGE, STRANGE, check, check_json, check_parquet
from hypothesis import given
from hypothesis import strategies as st

from cxc_eccv.studies.asking.answer_files import read_answers
from cxc_eccv.studies.asking.formats import formats
from cxc_eccv.studies.asking.questions import CANDIDATE, Question, Questionnaire
from cxc_eccv.studies.asking.schemes import schemes
from cxc_eccv.studies.entailment.labelled import read_labelled

pytestmark = pytest.mark.thorough

ASKING = Questionnaire(schemes()["eccv"], [[Question("p0", 1, 2, "a.jpg", "A dog.", CANDIDATE, ())]])
ASKED = {
    "questionnaire": ASKING.id,
    "sheet": 0,
    "pair_id": "p0",
    "image_id": 1,
    "caption_id": 2,
    "caption": "A dog.",
}
PAIR = {"image": "a.jpg", "image_id": 1, "premise": "x", "hypothesis": "z", "label": 1, "votes": []}
SAID = {"worker": "ann", "answer": "yes", "details": {"errors": ["age"]}, "remark": "", "seconds": 4.5}
TASK = {
    "id": 1,
    "data": ASKED,
    "annotations": [
        {
            "id": 2,
            "completed_by": 3,
            "result": [{"from_name": "answer", "value": {"choices": ["yes"]}}],
            "lead_time": 1.5,
        }
    ],
}


def answers(form):
    return lambda path: read_answers([path], [ASKING], form)


JSON = {
    "answers.jsonl": (ASKED | SAID, answers("jsonl")),
    "label_studio.json": ([TASK], answers("label_studio")),
}
TABLES = {
    "labelled pairs": ([PAIR], lambda path: read_labelled(str(path), None)),
}


@pytest.mark.parametrize("name", JSON)
@BOUNDED
@given(data=st.data(), new=STRANGE, damage=st.none() | DAMAGE)
def test_json(name, data, new, damage, tmp_path):
    check_json(*JSON[name], tmp_path / name, data, new, damage)


@pytest.mark.parametrize("name", TABLES)
@BOUNDED
@given(data=st.data(), new=STRANGE, damage=st.none() | DAMAGE)
def test_parquet(name, data, new, damage, tmp_path):
    check_parquet(*TABLES[name], tmp_path / "a.parquet", data, new, damage)


@pytest.mark.parametrize("form", list(formats()))
def test_a_value_nested_600_deep(form, tmp_path):
    nested = "[" * 600 + "1" + "]" * 600
    text = json.dumps([TASK]).replace('["yes"]', nested) if form == "label_studio" else nested
    path = tmp_path / f"a{formats()[form].ending}"
    check(answers(form), path, text.encode())
