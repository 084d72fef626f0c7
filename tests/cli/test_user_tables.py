"""Tables that users name are read as they stand."""

import gzip
import json

import pytest

from cxc_eccv.cli import user_tables
from cxc_eccv.cli.user_tables import (
    load_judge,
    read_captions,
    read_probabilities,
    read_summaries,
)
from cxc_eccv.errors import UnknownName
from cxc_eccv.unjudged.judges import read_judge_file


def test_json_lines_are_read_as_they_stand(tmp_path):
    rows = [{"caption_id": 1, "text": "A “dog”.", "probability": 1}, {"caption_id": 2, "more": [1, 2]}]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    names = ("caption_id", "text", "probability", "more")
    assert read_captions(tmp_path / "mine.jsonl").to_pylist() == [
        {name: row.get(name) for name in names} for row in rows
    ]


def test_names_of_columns_are_folded(tmp_path):
    (tmp_path / "mine.csv").write_text("Image_ID,caption_id ,Label\u200b,PROBABILITY\n1,2,1,0.25\n")
    row = {"image_id": 1, "caption_id": 2, "label": 1, "probability": 0.25}
    assert load_judge(str(tmp_path / "mine.csv")).to_pylist() == [row]
    assert read_probabilities(tmp_path / "mine.csv")["probability"].to_pylist() == [0.25]


@pytest.mark.parametrize("read", [read_judge_file, read_probabilities])
def test_gzipped_tables_are_read(tmp_path, read):
    path = tmp_path / "mine.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"image_id": 1, "caption_id": 2, "probability": 0.25}'))
    assert read(path)["probability"].to_pylist() == [0.25]


def test_further_column_of_texts_is_no_position(tmp_path):
    """A position under another name is refused: all summaries would be those for the first, and hold the query."""
    (tmp_path / "mine.csv").write_text("image_id,summary,model\n1,A dog.,bart\n")
    assert read_summaries(tmp_path / "mine.csv").num_rows == 1


def test_labels_as_words(tmp_path):
    (tmp_path / "labels.csv").write_text("image_id,caption_id,label\n1,2,true\n1,-3,False\n")
    assert load_judge(str(tmp_path / "labels.csv")).to_pydict() == {
        "image_id": [1, 1],
        "caption_id": [2, -3],
        "label": [1, 0],
    }


@pytest.mark.parametrize("name", ["mine.CSV", "Mine.Csv.gz"])
def test_capitals_in_an_ending_are_read(tmp_path, name):
    content = b"image_id,caption_id,label\n1,2,1\n"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert load_judge(str(tmp_path / name))["label"].to_pylist() == [1]


@pytest.mark.parametrize("value", ["", "absent", "user/one/more", "./user/classifier", "mine.txt"])
def test_judge_of_no_kind_is_refused(value):
    with pytest.raises(UnknownName, match=rf"unknown judge '{value}'.*, the folder or Hub id of a classifier"):
        load_judge(value)


def test_classifier_without_a_study_is_refused(run, monkeypatch):
    monkeypatch.setattr(user_tables, "study_modules", lambda _place: [])
    words = ("evaluate", "absent.npz", "--judge", "user/classifier", "--data-dir", "sample")
    status, out, message = run(*words)
    assert (status, out) == (2, "")
    assert "user/classifier: no study is installed that can judge pairs" in message
