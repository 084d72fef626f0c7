"""Refusals of labels that users name: a table per kind, of what is given and what the message says."""

import gzip
import json
import re
from datetime import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from label_files import label_facts, label_table, random_pairs, write_table

from cxc_eccv.cli.user_tables import load_judge, read_captions, read_probabilities, read_summaries
from cxc_eccv.errors import CxcEccvError, MalformedSource, SourceMissing
from cxc_eccv.judgments.merging import merge
from cxc_eccv.parquet import write_parquet
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import FACTS_KEY, read_labels, write_labels


def write(path, content):
    """Write bytes, a text or a table, by the ending."""
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, str):
        path.write_text(content)
    else:
        write_table(path, content)
    return path


def read_table(path):
    return Library("sample", labels=path).label_names


def read_judge(path):
    return load_judge(str(path))


DEEP = 100_000
"""Lists in lists, deeper than the parser of any Python reads."""
GOOD_LINE = b'\n{"image_id": 1, "caption_id": 2, "probability": 0.5, "label": 1}\n'
TWICE = pa.table([[1], [2], ["a"]], names=["caption_id", "caption_id", "text"])

UNREADABLE = [
    (read_judge, "half.parquet", "PAR1", "no readable Parquet file"),
    (
        read_judge,
        "quote.csv",
        'image_id,label\n1,"2\n1,3"\n',
        "line 2: found .*quotes around whole cells, each closed",
    ),
    (read_judge, "half.jsonl", '{"image_id": 1', "line 1: found no JSON .*column 15"),
    (read_judge, "null.jsonl", b"null" + GOOD_LINE, "line 1: found None, expected an object"),
    (read_judge, "deep.jsonl", b"[" * DEEP + GOOD_LINE, "line 1: found lists or objects nested"),
    (read_judge, "latin.jsonl", b'{"imag\xe5_id": 1}', "text that is not UTF-8"),
    (read_judge, "half.jsonl", b'{"a": "\\ud800"}' + GOOD_LINE, "line 1: found half a surrogate pair"),
    (read_judge, "nan.jsonl", b'{"a": NaN}' + GOOD_LINE, "line 1: found NaN"),
    (read_captions, "deep.jsonl", b'{"a": ' + b"[" * DEEP + b"]" * DEEP + b"}" + GOOD_LINE, "line 1: found lists"),
    (read_probabilities, "null.jsonl", b"null" + GOOD_LINE, "line 1: found None"),
    (read_summaries, "nan.jsonl", b'{"a": NaN}' + GOOD_LINE, "line 1: found NaN"),
    (read_table, "half.parquet", "PAR1", "no readable Parquet file"),
    (read_labels, "half.parquet", "PAR1", "annotate merge"),
]
ABSENT = [
    (read_judge, "absent.parquet", "no readable Parquet file"),
    (read_judge, "absent.jsonl", "no readable table of answers of a judge"),
    (read_table, "absent.csv", r"absent\.csv: there is no such file of labels"),
    (read_labels, "absent.parquet", "annotate merge writes such files"),
]


@pytest.mark.parametrize(("read", "name", "content", "message"), UNREADABLE)
def test_unreadable_file_is_refused(tmp_path, read, name, content, message):
    with pytest.raises(MalformedSource, match=rf"{name}.*{message}"):
        read(write(tmp_path / name, content))


@pytest.mark.parametrize(("read", "name", "message"), ABSENT)
def test_absent_file_is_refused(tmp_path, read, name, message):
    with pytest.raises(CxcEccvError, match=message):
        read(tmp_path / name)


TABLE = "image_id,caption_id"
PREDICTED = f"{TABLE},label"

CELLS = [
    (read_judge, "a.csv", f"{PREDICTED}\n1,2,1\n1,x,1\n", "line 3, column 'caption_id': found 'x'"),
    (read_judge, "a.csv", f"{PREDICTED}\n1,2,0.5\n", r"line 2, column 'label': found '0\.5', expected 1 or 0"),
    (read_judge, "a.csv", "image_id,label,label\n1,1,1\n", "two columns 'label'"),
    (read_judge, "a.jsonl", '{"image_id": 1, "image_id": 2}', "line 1, key 'image_id': found it twice"),
    (read_judge, "a.jsonl", '{"label": 1}\n{"label": 2}', "line 2, column 'label': found 2, expected 1 or 0"),
    (read_judge, "a.jsonl", '{"label": 1.0}', r"line 1, column 'label': found 1\.0, expected 1 or 0"),
    (read_judge, "a.jsonl", '{"image_id": "7"}', "line 1, column 'image_id': found '7', expected a whole number"),
    (read_judge, "a.jsonl", f'{{"image_id": {2**63}}}', "line 1, column 'image_id'"),
    (read_judge, "a.jsonl", '{"image_id": 1}\n{"label": 1}', "line 2, column 'image_id': found None"),
    (read_judge, "a.jsonl", '{"a": 1}\n{"a": "x"}', "column 'a'"),
    (read_judge, "a.jsonl", '{"a": 1%s}' % ("0" * 30), "column 'a'"),
    (read_captions, "a.parquet", TWICE, "found the columns 'caption_id' and 'caption_id'"),
    (read_probabilities, "a.csv", "probability\n1.5\n", "line 2, column 'probability'"),
    (read_probabilities, "a.parquet", pa.table({"image_id": ["1"]}), "row 0, column 'image_id': found '1', .*whole"),
    (
        read_table,
        "a.csv",
        "1,2\n3,4\n",
        "no column image_id among 1, 2. The first line must name the columns: image_id,caption_id",
    ),
    (
        read_table,
        "a.csv",
        "image_id;caption_id\n1;2\n",
        "no column image_id among image_id;caption_id. Separate the columns by commas\\.$",
    ),
    (read_table, "a.csv", "1\t2\n3\t4\n", "Separate the columns by commas. The first line must name the columns"),
    (read_captions, "a.csv", "7,A dog.\n8,A cat.\n", "The first line must name the columns: caption_id,text"),
    (read_table, "a.csv", "image,caption\n1,2\n", "no column image_id among image, caption$"),
    (
        read_table,
        "a.csv",
        f"{TABLE}\n{{c}},{{i}}\n",
        "line 2, column 'image_id': found id .*, which is a caption id, expected .*: are the columns swapped",
    ),
    (
        read_table,
        "a.csv",
        f"{TABLE}\n{{i}},{{c}}\n{{c}},{{c}}\n",
        "line 3, column 'image_id': found id .*, expected one of the splits",
    ),
    (read_table, "a.csv", "image_id\n1\n", "no column caption_id among image_id"),
    (read_table, "a.csv", f"{TABLE}\n", "a header and no rows"),
    (read_table, "a.csv", f"{TABLE}\n{{i}},{{c}}\n{{i}},\n", "line 3, column 'caption_id': found '', expected a whole"),
    (read_table, "a.csv", f"{TABLE}\n{{i}}.0,{{c}}\n", r"line 2, column 'image_id': found '\d+\.0', expected a whole"),
    (read_table, "a.csv", f"{TABLE}\n{{i}},{{c}}\n{{i}},{{c}}\n", "line 3: found image .* again, expected every pair"),
    (
        read_table,
        "a.csv",
        f"{TABLE},positive\n{{i}},{{c}},2\n",
        "line 2, column 'positive': found '2', expected 1 or 0",
    ),
    (
        read_table,
        "a.csv",
        f"{TABLE},gain\n{{i}},{{c}},4\n",
        "line 2, column 'gain': found '4', expected a number from 0",
    ),
    (read_table, "a.csv", f"{TABLE},gain,positive\n{{i}},{{c}},0,1\n", "line 2: found gain 0, expected a gain above 0"),
    (read_table, "a.csv", f"{TABLE},gain,positive\n{{i}},{{c}},1,0\n", "line 2: found gain 1, expected a gain below 1"),
    (read_table, "a.csv", f"{TABLE}\n{{i}},{{c}}\n{{i}},9999999\n", "line 3, column 'caption_id': found id 9999999"),
    (read_table, "a.csv", f"{TABLE}\n{{i}},{{t}}\n", "an image of test and a caption of train, expected pairs within"),
    (read_table, "a.csv", f"{TABLE},Positive,positive\n{{i}},{{c}},1,1\n", "names that differ in their letters"),
    (
        read_table,
        "a.jsonl",
        '{{"image_id": {i}, "caption_id": {c}}}\n\n{{"image_id": 1, "caption_id": 2}}',
        "line 3, .*id 1",
    ),
    (read_table, "a.parquet", pa.table({"image_id": [1.0], "caption_id": [1]}), "found 1.0, expected a whole"),
    (
        read_table,
        "a.parquet",
        pa.table({"image_id": [5, None], "caption_id": [1, 2]}),
        "row 1, column 'image_id': found None",
    ),
    (
        read_table,
        "My labels.csv",
        f"{TABLE}\n{{i}},{{c}}\n",
        "its name: found 'My labels', expected lower-case letters",
    ),
    (read_table, "a.csv.gz", f"{TABLE}\n{{i}},{{c}}\n{{i}},{{c}}\n", "line 3: found .* again"),
]


@pytest.mark.parametrize(("read", "name", "content", "message"), CELLS)
def test_faulty_table_is_refused_with_its_place(tmp_path, sample_library, read, name, content, message):
    test, train = (sample_library.split(split) for split in ("test", "train"))
    ids = {"i": test.image_ids[0], "c": test.caption_ids[7], "t": train.caption_ids[0]}
    if read is read_table and isinstance(content, str):
        content = content.format(**ids)
    if name.endswith(".gz"):
        content = gzip.compress(content.encode())
    with pytest.raises(CxcEccvError, match=f"{name}.*{message}"):
        read(write(tmp_path / name, content))


@pytest.mark.parametrize("value", ["1.5", "-0.1", '"0.5"', "true", "null"])
def test_probability_is_from_0_to_1(tmp_path, value):
    path = write(tmp_path / "a.jsonl", f'{{"probability": 0.25}}\n{{"probability": {value}}}\n')
    with pytest.raises(MalformedSource, match=r"line 2, column 'probability': found .*, expected a number from 0 to 1"):
        read_probabilities(path)


@pytest.mark.parametrize("value", [Decimal("0.5"), b"1", datetime(2026, 1, 1), "1", [1], {"a": 1}, None])
def test_column_of_parquet_without_numbers_is_refused(tmp_path, value):
    path = write(tmp_path / "a.parquet", pa.table({"probability": [value]}))
    with pytest.raises(MalformedSource, match=r"row 0, column 'probability': found .*, expected a number"):
        read_probabilities(path)


@pytest.mark.parametrize("name", ["position", "query", "n"])
def test_position_of_another_name_is_refused(tmp_path, name):
    path = write(tmp_path / "a.csv", f"image_id,summary,{name}\n1,A dog.,3\n")
    with pytest.raises(MalformedSource, match=f"column '{name}': found '3' in it, and no column query_position"):
        read_summaries(path)


def test_table_of_a_declared_name_is_refused(tmp_path, sample_library):
    rows = "".join(f"{image},{caption}\n" for image, caption in random_pairs(sample_library)[0])
    library = Library("sample", labels=write(tmp_path / "eccv.csv", f"{TABLE}\n{rows}"))
    with pytest.raises(CxcEccvError, match="Rename the table"):
        merge(library.split("test"), "i2t")


VERDICTS = [
    "Label",
    "label",
    "LABELS",
    "match",
    "Match ",
    "is_match",
    "matched",
    "relevant",
    "relevance",
    "y",
    "y_true",
]
VERDICTS += [
    "is_positive",
    "isPositive",
    "positives",
    "pos",
    "negative",
    "gains",
    "gain_1",
    "score",
    "rating",
    "verdict",
]
VERDICTS += [
    "probability",
    "prob",
    "correct",
    "entailment",
    "gold_label",
    "target",
    "answer",
    "vote",
    "judgement",
    "grade",
]
VERDICTS += ["flag", "human", "Unnamed: 0"]


@pytest.fixture
def add_column(tmp_path, sample_library):
    """Write a table of random pairs with a further column, repeated as often as needed."""

    def write_table(ending, name, values):
        images, captions = np.array(random_pairs(sample_library)[0]).T
        ids = pa.table({"image_id": images, "caption_id": captions})
        values = [values[row % len(values)] for row in range(ids.num_rows)]
        return write(tmp_path / f"mine.{ending}", ids.append_column(name, pa.array(values)))

    return write_table


UNDER_ITS_NAME = [*(("csv", name) for name in VERDICTS), ("jsonl", "match"), ("parquet", "match")]


@pytest.mark.parametrize(("ending", "name"), UNDER_ITS_NAME)
def test_verdicts_of_another_name_are_refused(add_column, ending, name):
    message = rf"column '{re.escape(name.strip().casefold())}': found '?0'? in it.*column positive .*Rename"
    with pytest.raises(MalformedSource, match=message):
        read_table(add_column(ending, name, [0, 1]))


BY_THEIR_VALUES = [
    ("csv", "said", [True, False]),
    ("csv", "said", [0.25, None]),
    ("csv", "said", ["yes", "No"]),
    ("csv", "said", ["match", "no match"]),
    ("csv", "said", ["100% YES", "mostly NO"]),
    ("csv", "said", ["ENTAILMENT", "neutral"]),
    ("csv", "said", ["4 stars", "1 of 5"]),
    ("csv", "said", ["0,5", "1"]),
    ("csv", "said", ["x", ""]),
    ("csv", "said", ["", ""]),
    ("csv", "said", ["nan", "1e-05"]),
    ("csv", "said", ["a dog", "true"]),
    ("csv", "label", ["passt", "passt nicht"]),
    ("jsonl", "said", [True, False]),
    ("parquet", "said", [0.25, None]),
]


@pytest.mark.parametrize(("ending", "name", "values"), BY_THEIR_VALUES)
def test_column_that_may_hold_verdicts_is_refused(add_column, ending, name, values):
    with pytest.raises(MalformedSource, match=rf"column '{name}': found .* in it, and no column positive or gain"):
        read_table(add_column(ending, name, values))


PAIRS = [(1, 10), (1, 11), (2, 10)]
GAINS = [1.0, 0.0, 0.5]

ROWS = [
    ({"gain": [1.0, 0.0, 1.5]}, r"row 2.*in \[0, 1\]"),
    ({"gain": [1.0, 0.0, float("nan")]}, r"row 2.*in \[0, 1\]"),
    ({"gain": [1.0, 1.0, 0.5]}, "row 1.*below 1 if positive is false"),
    ({"gain": [0.0, 0.0, 0.5]}, "row 0.*above 0 if positive is true"),
    ({"answers": pa.array([3, 0, 3], pa.int32())}, "row 1.*people, at least 1"),
    ({"image_id": [1, 2, 1], "caption_id": [10, 11, 10]}, "row 2.*once"),
    ({"gain": [1.0, None, 0.5]}, "gain.*a value in every row"),
    ({"positive": [1, 0, 1]}, "mine.parquet.*positive bool"),
]


@pytest.mark.parametrize(("columns", "message"), ROWS)
def test_rows_that_contradict_themselves_are_refused(tmp_path, sample_library, columns, message):
    table = label_table(PAIRS, GAINS)
    for name, values in columns.items():
        place = table.column_names.index(name)
        table = table.set_column(place, name, pa.array(values) if isinstance(values, list) else values)
    path = tmp_path / "mine.parquet"
    with pytest.raises(MalformedSource, match=message):
        write_labels(path, table, label_facts(sample_library))
    assert not path.exists()
    write_with_facts(path, table, sample_library)
    with pytest.raises(MalformedSource, match=message):
        read_labels(path)


def write_with_facts(path, table, library, **changes):
    facts = {**label_facts(library), "schema": 1, "kind": "labels", "collection": "coco", **changes}
    write_parquet(table.replace_schema_metadata({FACTS_KEY: json.dumps(facts)}), path)


FACTS = [
    ({"schema": 2}, "metadata, schema: found 2, expected 1"),
    ({"kind": "mined"}, "metadata, kind"),
    ({"collection": "flickr30k"}, "expected 'coco'"),
    ({"name": "My labels"}, "lower-case letters"),
    ({"version": " "}, "a version"),
    ({"split": "val"}, "one of train, restval, validation, test"),
    ({"people": 0}, "at least 1"),
    ({"people": True}, "at least 1"),
    ({"people": "three"}, "at least 1"),
    ({"licence": ["mit"]}, "metadata, licence: found"),
    ({"data": {}}, "expected an entry 'content'"),
    ({"models": "a model"}, "a list"),
]


@pytest.mark.parametrize(("facts", "message"), FACTS)
def test_facts_without_a_source_of_labels_are_refused(tmp_path, sample_library, facts, message):
    path = tmp_path / "mine.parquet"
    write_with_facts(path, label_table(PAIRS, GAINS), sample_library, **facts)
    with pytest.raises(MalformedSource, match=message):
        read_labels(path)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (None, "the facts that cxc-eccv annotate merge writes"),
        ({FACTS_KEY: "[1]"}, r"metadata: found \[1\], expected an object"),
    ],
)
def test_table_without_facts_is_no_label_file(tmp_path, metadata, message):
    write_parquet(label_table(PAIRS, GAINS).replace_schema_metadata(metadata), tmp_path / "mine.parquet")
    with pytest.raises(MalformedSource, match=message):
        read_labels(tmp_path / "mine.parquet")


def test_label_file_of_no_pair_is_not_written(tmp_path, sample_library):
    with pytest.raises(MalformedSource, match="at least one"):
        write_labels(tmp_path / "mine.parquet", label_table([], []), label_facts(sample_library))


@pytest.mark.parametrize(
    ("named", "how"),
    [
        ("nobody/labels", "argument"),
        ("nobody/labels@v1", "argument"),
        ("nobody/labels", "CXC_ECCV_OFFLINE"),
        ("nobody/labels", "HF_HUB_OFFLINE"),
    ],
)
def test_hub_is_not_asked_when_offline(monkeypatch, tmp_path, named, how):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    if how != "argument":
        monkeypatch.setenv(how, "1")
    with pytest.raises(SourceMissing) as caught:
        Library("sample", labels=[named], offline=True if how == "argument" else None).label_names  # noqa: B018
    assert f"labels {named}: there is no such file or folder" in str(caught.value)
    assert f"downloads are off ({'offline=True' if how == 'argument' else how + '=1'})" in str(caught.value)
