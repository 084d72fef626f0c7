"""Files that people name or bring back, damaged or changed: each is read or refused, never a traceback or a crash."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from label_files import label_table
from mined_files import write_mined

from cxc_eccv.cli.user_tables import policy, read_captions, read_probabilities, read_summaries
from cxc_eccv.errors import CxcEccvError
from cxc_eccv.sources.readers import LABELS_FACTS, read_entailment, read_labels, read_mined
from cxc_eccv.studies.asking.answers import read_answers
from cxc_eccv.studies.asking.exchange import formats
from cxc_eccv.studies.asking.questionnaire import questionnaire_id
from cxc_eccv.studies.asking.questions import CANDIDATE, Question
from cxc_eccv.studies.asking.schemes import schemes
from cxc_eccv.studies.entailment.labelled import read_labelled

SHEETS = [[Question("p0", 1, 2, "a.jpg", "A dog.", CANDIDATE, ())]]
ASKED = {
    "questionnaire": questionnaire_id(SHEETS, schemes()["eccv"]),
    "sheet": 0,
    "pair_id": "p0",
    "image_id": 1,
    "caption_id": 2,
    "caption": "A dog.",
}
ROW = {"image_id": 1, "caption_id": 2, "probability": 0.5, "label": 1, "text": "A dog.", "summary": "A “dog”."}
PAIR = {"image": "a.jpg", "image_id": 1, "premise": ["x", "y"], "hypothesis": "z", "label": 1, "votes": [1, "a"]}
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
    return lambda path: read_answers([path], SHEETS, schemes()["eccv"], form)


LINES = {
    "labels of pairs": (ROW, lambda path: policy(str(path))),
    "captions": (ROW, read_captions),
    "probabilities": (ROW, read_probabilities),
    "summaries": (ROW, read_summaries),
    "entailment": (PAIR, read_entailment),
    "answers": (ASKED | SAID, answers("jsonl")),
}
WHOLE = {"label studio": ([TASK], answers("label_studio"))}
TABLES = {
    "probabilities": ([ROW], read_probabilities),
    "labelled pairs": ([{**PAIR, "premise": "x", "votes": []}], lambda path: read_labelled(str(path), None)),
}
BOUNDED = settings(
    max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

STRANGE = st.sampled_from(
    [None, True, False, -1, 0, 2**63, 10**40, 0.5, 1e300, "", "\x1b", "7" * 5_000, "x" * 20_000, [], [[]], {}, [None]]
) | st.recursive(st.integers() | st.text(max_size=3) | st.none(), lambda inner: st.lists(inner, max_size=2))
PIECES = st.sampled_from(
    [b"null\n", b"[" * 900, b"{", b'"', b"\n", b"\0", b"\xff", b"\\ud800", b"NaN", b"9" * 5_000, b""]
)
DAMAGE = st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 7), PIECES)


def places_of(value, path=()):
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places_of(inner, (*path, key))


def replaced(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def check(read, path, data):
    """Read a file, or have it refused by a message that people can read."""
    path.write_bytes(data)
    message = path.name
    try:
        read(path)
    except CxcEccvError as error:
        message = str(error)
    assert path.name in message
    assert len(message) < 12_000
    assert message.replace("\n", "").isprintable()


def damaged(data, place, bit, piece):
    at = int(place * len(data))
    return data[:at] + (piece or bytes([data[at] ^ 1 << bit])) + data[at + (not piece) :]


@pytest.mark.parametrize("name", [*LINES, *WHOLE])
@BOUNDED
@given(data=st.data(), new=STRANGE, damage=st.none() | DAMAGE)
def test_json(name, data, new, damage, tmp_path):
    content, read = (LINES | WHOLE)[name]
    changed = replaced(content, data.draw(st.sampled_from(list(places_of(content)))), new)
    rows = [json.dumps(own) for own in ((content, changed) if name in LINES else (changed,))]
    text = "\n".join(rows).encode()
    check(read, tmp_path / ("a.jsonl" if name in LINES else "a.json"), damaged(text, *damage) if damage else text)


@pytest.mark.parametrize("name", TABLES)
@BOUNDED
@given(data=st.data(), new=STRANGE, damage=st.none() | DAMAGE)
def test_parquet(name, data, new, damage, tmp_path):
    rows, read = TABLES[name]
    path = tmp_path / "a.parquet"
    key = data.draw(st.sampled_from(list(rows[0])))
    try:
        table = pa.Table.from_pylist([row | {key: new} for row in rows])
        pq.write_table(table, path, write_page_checksum=True)
    except (pa.ArrowException, OverflowError):  # no column can hold it
        return
    check(read, path, damaged(path.read_bytes(), *damage) if damage else path.read_bytes())


FACTS = {
    "schema": 1,
    "kind": "labels",
    "collection": "coco",
    "name": "mine",
    "version": "1",
    "split": "test",
    "rule": "majority",
    "scheme": "eccv",
    "people": 3,
    "models": [],
    "data": {"content": "x"},
    "licence": "mit",
}


@BOUNDED
@given(place=st.sampled_from(list(places_of(FACTS))), new=STRANGE, piece=PIECES)
def test_metadata(place, new, piece, tmp_path, sample_library):
    """Of label files and of weak positives, whose facts stand in JSON in the file's metadata."""
    text = json.dumps(replaced(FACTS, place, new)).encode()
    table = label_table([(1, 2)], [1.0])
    path = tmp_path / "a.parquet"
    for content in (text, text.replace(b"mine", piece)):
        pq.write_table(table.replace_schema_metadata({LABELS_FACTS: content}), path)
        check(read_labels, path, path.read_bytes())
    write_mined(
        path,
        sample_library,
        "test",
        [(1, 2)],
        **{place[0]: new} if place and place[0] in ("schema", "collection", "rule", "data") else {},
    )
    check(read_mined, path, path.read_bytes())


@pytest.mark.parametrize("form", list(formats()))
def test_a_value_nested_600_deep(form, tmp_path):
    nested = "[" * 600 + "1" + "]" * 600
    text = json.dumps([TASK]).replace('["yes"]', nested) if form == "label_studio" else nested
    path = tmp_path / f"a{formats()[form].endings[0]}"
    check(answers(form), path, text.encode())
