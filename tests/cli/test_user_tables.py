"""Tables that users name: each is read as it stands, or refused with file, place and remedy."""

import gzip
import json
from datetime import datetime, time
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cxc_eccv.cli.user_tables import (
    load_judge,
    read_captions,
    read_probabilities,
    read_summaries,
)
from cxc_eccv.errors import DataError, MalformedSource
from cxc_eccv.evaluation.policies import read_judge_file


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("absent.parquet", None, "no readable Parquet file"),
        ("absent.jsonl", None, "no readable table of answers of a judge"),
        ("half.parquet", "PAR1", "no readable Parquet file"),
        ("text.csv", "image_id,caption_id,label\n1,2,1\n1,x,1\n", r"text\.csv, line 3, column 'caption_id': found 'x'"),
        ("label.csv", "image_id,caption_id,label\n1,2,0.5\n", r"line 2, column 'label': found '0\.5', expected 1 or 0"),
        (
            "quote.csv",
            'image_id,caption_id,label\n1,"2,1\n1,3,1"\n',
            "line 2: found .*expected quotes around whole cells, each closed on its line",
        ),
        ("twice.csv", "image_id,label,label\n1,1,1\n", "two columns 'label'"),
        ("twice.jsonl", '{"image_id": 1, "image_id": 2}', "line 1, key 'image_id': found it twice"),
        ("half.jsonl", '{"image_id": 1', "line 1: found no JSON .*column 15"),
        ("label.jsonl", '{"label": 1}\n{"label": 2}', "line 2, column 'label': found 2, expected 1 or 0"),
        ("label.jsonl", '{"label": 1.0}', r"line 1, column 'label': found 1\.0, expected 1 or 0"),
        ("id.jsonl", '{"image_id": "7"}', "line 1, column 'image_id': found '7', expected a whole number"),
        ("id.jsonl", f'{{"image_id": {2**63}}}', "line 1, column 'image_id'"),
        ("id.jsonl", '{"image_id": 1}\n{"label": 1}', "line 2, column 'image_id': found None"),
        ("mixed.jsonl", '{"a": 1}\n{"a": "x"}', "column 'a'"),
        ("large.jsonl", '{"a": 1%s}' % ("0" * 30), "column 'a'"),
    ],
)
def test_labels_that_cannot_be_read(tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=words):
        load_judge(str(tmp_path / name))


@pytest.mark.parametrize("read", [read_captions, read_probabilities, read_summaries, read_judge_file])
@pytest.mark.parametrize(
    ("first", "words"),
    [
        (b"null", "line 1: found None, expected an object"),
        (b"[" * 20_000, "line 1: found lists or objects nested"),
        (b'{"a": ' + b"[" * 5_000 + b"]" * 5_000 + b"}", "line 1: found lists or objects nested"),
        (b'{"imag\xe5_id": 1}', "found text that is not UTF-8"),
        (b'{"a": "\\ud800"}', "line 1: found half a surrogate pair"),
        (b'{"a": NaN}', "line 1: found NaN"),
    ],
)
def test_json_lines_never_end_the_interpreter(tmp_path, read, first, words):
    path = tmp_path / "mine.jsonl"
    path.write_bytes(first + b'\n{"image_id": 1, "caption_id": 2, "probability": 0.5, "label": 1}\n')
    with pytest.raises(DataError, match=words):
        read(path)


@pytest.mark.parametrize("value", ["1.5", "-0.1", '"0.5"', "true", "null"])
def test_a_probability_is_from_0_to_1(tmp_path, value):
    (tmp_path / "mine.jsonl").write_text(f'{{"probability": 0.25}}\n{{"probability": {value}}}\n')
    with pytest.raises(DataError, match=r"line 2, column 'probability': found .*, expected a number from 0 to 1"):
        read_probabilities(tmp_path / "mine.jsonl")
    (tmp_path / "mine.csv").write_text("probability\n1.5\n")
    with pytest.raises(DataError, match="line 2, column 'probability'"):
        read_probabilities(tmp_path / "mine.csv")


def test_json_lines_are_read_as_they_stand(tmp_path):
    rows = [{"caption_id": 1, "text": "A “dog”.", "probability": 1}, {"caption_id": 2, "more": [1, 2]}]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    names = ("caption_id", "text", "probability", "more")
    assert read_captions(tmp_path / "mine.jsonl").to_pylist() == [
        {name: row.get(name) for name in names} for row in rows
    ]


def test_a_column_of_a_parquet_file_that_is_there_twice(tmp_path):
    columns = [pa.array([1]), pa.array([2]), pa.array(["a"])]
    pq.write_table(pa.table(columns, names=["caption_id", "caption_id", "text"]), tmp_path / "mine.parquet")
    with pytest.raises(DataError, match=r"found the columns 'caption_id' and 'caption_id'"):
        read_captions(tmp_path / "mine.parquet")


@pytest.mark.parametrize("name", ["image_id", "caption_id", "probability"])
@pytest.mark.parametrize("value", [Decimal("0.5"), b"1", datetime(2026, 1, 1), time(1), "1", [1], {"a": 1}, None])
def test_column_of_parquet_that_holds_no_numbers(tmp_path, name, value):
    row = {"image_id": 1, "caption_id": 2, "probability": 0.5} | {name: value}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "mine.parquet")
    with pytest.raises(DataError, match=f"row 0, column '{name}': found .*, expected a (whole )?number"):
        read_probabilities(tmp_path / "mine.parquet")


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


@pytest.mark.parametrize("name", ["position", "query", "n"])
def test_position_of_summaries_under_another_name(tmp_path, name):
    """Without its column, all summaries are those for the first position, and may hold the query itself."""
    (tmp_path / "mine.csv").write_text(f"image_id,summary,{name}\n1,A dog.,3\n")
    with pytest.raises(MalformedSource, match=f"column '{name}': found '3' in it, and no column query_position"):
        read_summaries(tmp_path / "mine.csv")
    (tmp_path / "mine.csv").write_text("image_id,summary,model\n1,A dog.,bart\n")
    assert read_summaries(tmp_path / "mine.csv").num_rows == 1


def test_labels_as_words(tmp_path):
    (tmp_path / "labels.csv").write_text("image_id,caption_id,label\n1,2,true\n1,-3,False\n")
    assert load_judge(str(tmp_path / "labels.csv")).to_pydict() == {
        "image_id": [1, 1],
        "caption_id": [2, -3],
        "label": [1, 0],
    }
