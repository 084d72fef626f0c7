"""Files that people name, damaged or changed: each is read or refused, never a traceback or a crash."""

import json

import pyarrow.parquet as pq
import pytest
from changed_files import BOUNDED, DAMAGE, PIECES, STRANGE, check, check_json, check_parquet, places_of, replaced
from hypothesis import given
from hypothesis import strategies as st
from label_files import label_table
from mined_files import write_mined

from cxc_eccv.cli.user_tables import load_judge, read_captions, read_probabilities, read_summaries
from cxc_eccv.sources.readers import FACTS_KEY, read_entailment, read_labels, read_mined

ROW = {"image_id": 1, "caption_id": 2, "probability": 0.5, "label": 1, "text": "A dog.", "summary": "A “dog”."}
PAIR = {"image": "a.jpg", "image_id": 1, "premise": ["x", "y"], "hypothesis": "z", "label": 1, "votes": [1, "a"]}
LINES = {
    "labels of pairs": (ROW, lambda path: load_judge(str(path))),
    "captions": (ROW, read_captions),
    "probabilities": (ROW, read_probabilities),
    "summaries": (ROW, read_summaries),
    "entailment": (PAIR, read_entailment),
}


@pytest.mark.parametrize("name", LINES)
@BOUNDED
@given(data=st.data(), new=STRANGE, damage=st.none() | DAMAGE)
def test_json(name, data, new, damage, tmp_path):
    check_json(*LINES[name], tmp_path / "a.jsonl", data, new, damage)


@BOUNDED
@given(data=st.data(), new=STRANGE, damage=st.none() | DAMAGE)
def test_parquet(data, new, damage, tmp_path):
    check_parquet([ROW], read_probabilities, tmp_path / "a.parquet", data, new, damage)


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
    "searched": {"i2t": [1]},
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
        pq.write_table(table.replace_schema_metadata({FACTS_KEY: content}), path)
        check(read_labels, path, path.read_bytes())
    write_mined(
        path,
        sample_library,
        "test",
        [(1, 2)],
        **{place[0]: new} if place and place[0] in ("schema", "collection", "rule", "data") else {},
    )
    check(read_mined, path, path.read_bytes())
