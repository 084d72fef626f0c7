"""Labels from a plain table: a source under the name of its file, of the splits that its ids are of."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from label_files import random_pairs, write_label_file

import cxc_eccv as ce
from cxc_eccv import registry
from cxc_eccv.errors import CxcEccvError, InvalidOption, MalformedSource, SourceMissing
from cxc_eccv.judgments.qrels import merge, merged_qrels
from cxc_eccv.sources.library import Library
from cxc_eccv.tasks.task import NotApplicable

QUIET = {"intervals": "none", "progress": False}


@pytest.fixture
def pairs(sample_library):
    """Table of random pairs of the sample's test split: image and caption ids, gains, and whether they are positive."""
    ids, gains = random_pairs(sample_library)
    images, captions = np.array(ids).T
    return pa.table({"image_id": images, "caption_id": captions, "positive": np.array(gains) > 0, "gain": gains})


def write(path, table):
    """Write a table by its ending."""
    if path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, table.to_pylist())))
    else:
        pq.write_table(table, path)
    return path


def positives_of(library, direction="i2t", split="test"):
    found = merged_qrels(library.split(split), direction, sources=["mine"])
    pairs = zip(found.query_ids[found.rows].tolist(), found.gallery_ids[found.indices].tolist(), strict=True)
    return {pair if direction == "i2t" else pair[::-1] for pair in pairs}


@pytest.mark.parametrize("name", ["mine.csv", "mine.jsonl", "mine.parquet"])
def test_table_is_a_source_under_its_name(tmp_path, pairs, name):
    library = Library("sample", labels=write(tmp_path / name, pairs))
    assert library.label_names == library.table_names == ("mine",)
    merged = merge(library.split("test"), "i2t", sources=["coco", "mine"])
    assert merged.rules == ("coco: original link", "mine: as its file says")
    positive = pairs.filter(pairs["positive"])
    expected = set(zip(positive["image_id"].to_pylist(), positive["caption_id"].to_pylist(), strict=True))
    assert positives_of(library, "i2t") == positives_of(library, "t2i") == expected
    assert merge(library.split("test"), "i2t", sources=["mine"]).queries.size == pairs.num_rows
    assert merge(library.split("validation"), "i2t", sources=["mine"]).queries.size == 0


@pytest.mark.parametrize("columns", [["positive"], ["gain"], ["gain", "positive"]])
def test_either_column_says_what_is_positive(tmp_path, pairs, columns):
    table = pairs.select([*columns, "caption_id", "image_id"]).append_column(
        "note", pairs["image_id"].cast(pa.string())
    )
    file = Library("sample", labels=write(tmp_path / "mine.csv", table)).split("test").labels("mine")
    assert file.table["positive"].to_pylist() == pairs["positive"].to_pylist()
    gains = pairs["gain"] if "gain" in columns else pairs["positive"].cast(pa.float64())
    assert file.table["gain"].to_pylist() == gains.to_pylist()


def test_without_verdicts_all_pairs_are_positive(tmp_path, pairs):
    library = Library("sample", labels=write(tmp_path / "mine.csv", pairs.select(["image_id", "caption_id"])))
    assert len(positives_of(library)) == pairs.num_rows


def test_byte_order_mark_is_passed_over(tmp_path, pairs):
    path = write(tmp_path / "mine.csv", pairs)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert Library("sample", labels=path).split("test").labels("mine").table.num_rows == pairs.num_rows


def test_table_of_several_splits_is_one_source(tmp_path, sample_library, pairs):
    images, captions = np.array(random_pairs(sample_library, "train")[0]).T
    other = pa.table({"image_id": images, "caption_id": captions})
    whole = pa.concat_tables([other, pairs.select(["image_id", "caption_id"])])
    library = Library("sample", labels=write(tmp_path / "mine.csv", whole))
    assert list(library.label_files) == ["labels_mine_train", "labels_mine_test"]
    assert (len(positives_of(library, split="train")), len(positives_of(library))) == (200, 200)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("1,2\n3,4\n", "no column image_id among 1, 2"),
        ("image_id\n1\n", "no column caption_id among image_id"),
        ("image_id,caption_id\n", "a header and no rows"),
        ("image_id,caption_id\n{i},{c}\n{i},\n", "line 3, column 'caption_id': found '', expected a whole number"),
        ("image_id,caption_id\n{i}.0,{c}\n", r"line 2, column 'image_id': found '\d+\.0', expected a whole number"),
        ("image_id,caption_id\n{i},{c}\n{i},{c}\n", "line 3: found image .* again, expected every pair"),
        ("image_id,caption_id,positive\n{i},{c},2\n", "line 2, column 'positive': found '2', expected 1 or 0"),
        ("image_id,caption_id,gain\n{i},{c},4\n", "line 2, column 'gain': found '4', expected a number from 0 to 1"),
        ("image_id,caption_id,gain,positive\n{i},{c},0,1\n", "line 2: found gain 0, expected a gain above 0"),
        ("image_id,caption_id,gain,positive\n{i},{c},1,0\n", "line 2: found gain 1, expected a gain below 1"),
        ("image_id,caption_id,label\n{i},{c},0\n", "column 'label': found no column positive or gain beside it"),
        (
            "image_id,caption_id\n{i},{c}\n{i},9999999\n",
            "line 3, column 'caption_id': found id 9999999, expected one of",
        ),
        ("image_id,caption_id\n{i},{t}\n", "an image of test and a caption of train, expected pairs within one split"),
    ],
)
def test_faulty_table_is_refused_with_its_place(tmp_path, sample_library, content, words):
    test, train = (sample_library.split(split) for split in ("test", "train"))
    ids = {"i": test.image_ids[0], "c": test.caption_ids[7], "t": train.caption_ids[0]}
    (tmp_path / "mine.csv").write_text(content.format(**ids))
    with pytest.raises(CxcEccvError, match=f"mine.csv.*{words}"):
        Library("sample", labels=tmp_path / "mine.csv").label_names  # noqa: B018


@pytest.mark.parametrize(
    ("values", "words"),
    [([1.0, 2.0], "found 1.0, expected a whole"), ([5, None], "row 1, column 'image_id': found None")],
)
def test_faulty_ids_of_parquet_are_refused(tmp_path, values, words):
    path = write(tmp_path / "mine.parquet", pa.table({"image_id": values, "caption_id": [1, 2]}))
    with pytest.raises(MalformedSource, match=words):
        Library("sample", labels=path).label_names  # noqa: B018


def test_row_of_json_lines_is_named_by_its_line(tmp_path, pairs):
    path = write(tmp_path / "mine.jsonl", pairs.slice(0, 2))
    path.write_text(path.read_text().replace("\n", "\n\n") + '\n{"image_id": 1, "caption_id": 2}\n')
    with pytest.raises(MalformedSource, match=r"line 4, column 'positive': found None"):
        Library("sample", labels=path).label_names  # noqa: B018
    write(path, pairs.slice(0, 2).select(["image_id", "caption_id"]))
    path.write_text(path.read_text().replace("\n", "\n\n") + '\n{"image_id": 1, "caption_id": 2}\n')
    with pytest.raises(MalformedSource, match=r"line 4, column 'image_id': found id 1"):
        Library("sample", labels=path).label_names  # noqa: B018


def test_name_of_the_file_must_be_one_of_labels(tmp_path, pairs):
    path = write(tmp_path / "My labels.csv", pairs)
    with pytest.raises(MalformedSource, match="its name: found 'My labels', expected lower-case letters"):
        Library("sample", labels=path).label_names  # noqa: B018
    with pytest.raises(CxcEccvError, match="Rename the table"):
        merge(Library("sample", labels=write(tmp_path / "eccv.csv", pairs)).split("test"), "i2t")


def test_missing_table_is_told(tmp_path):
    with pytest.raises(SourceMissing, match=r"mine\.csv: there is no such file of labels"):
        Library("sample", labels=tmp_path / "mine.csv").label_names  # noqa: B018


def test_folder_of_tables_is_read(tmp_path, pairs):
    write(tmp_path / "first.csv", pairs.slice(0, 100))
    write(tmp_path / "second.jsonl", pairs.slice(100))
    (tmp_path / "README.md").write_text("Labels.")
    assert Library("sample", labels=tmp_path).label_names == ("first", "second")


def test_tables_alone_decide_unless_sources_are_named(tmp_path, pairs, make_run):
    library = Library("sample", labels=write(tmp_path / "mine.csv", pairs))
    run = make_run(library)
    alone = ce.evaluate(run, "coco_5k", data_dir=library, **QUIET)
    assert alone.labels == "mine"
    assert alone.scores == ce.evaluate(run, "coco_5k", data_dir=library, sources="mine", **QUIET).scores
    joined = ce.evaluate(run, "coco_5k", data_dir=library, sources=["coco", "mine"], **QUIET)
    assert joined.labels == "coco + mine"
    assert joined.scores != alone.scores
    with pytest.raises(InvalidOption, match="mine has no labels of the validation split"):
        ce.evaluate(make_run(library, split="validation"), "coco_5k", split="validation", data_dir=library, **QUIET)


def test_benchmark_of_searched_queries_has_no_table(tmp_path, sample_library, pairs, make_run):
    table, task = write(tmp_path / "mine.csv", pairs), registry.task("annotated")
    facts = {"name": "theirs"}
    file = write_label_file(tmp_path / "theirs.parquet", sample_library, *random_pairs(sample_library, seed=1), **facts)
    for direction in task.part_names:
        alone, beside = (Library("sample", labels=labels) for labels in ([file], [file, table]))
        judged = [task.judgments(library.split("test", task.collection), direction) for library in (alone, beside)]
        assert judged[0].indices.tolist() == judged[1].indices.tolist()
        with pytest.raises(NotApplicable, match="there is no label file"):
            task.judgments(Library("sample", labels=table).split("test", task.collection), direction)
    report = ce.evaluate(make_run(sample_library), data_dir=Library("sample", labels=table), **QUIET)
    assert not any(name.startswith("annotated") for name in (*report.scores, *report.skipped))


@pytest.mark.parametrize("labels", ["eccv", "cxc", "original"])
@pytest.mark.parametrize("direction", ["i2t", "t2i"])
def test_real_positives_written_as_csv_are_the_same(tmp_path, real_library, labels, direction):
    table = real_library.split("test").eccv(labels, direction)
    names = ["image_id", "caption_id"] if direction == "i2t" else ["caption_id", "image_id"]
    split = real_library.split("test")
    table = table.rename_columns(names)
    table = table.filter(pc.is_in(table["caption_id"], pa.array(split.caption_ids)))
    library = Library(real_library.data_dir, labels=write(tmp_path / "mine.csv", table), offline=True)
    expected = set(zip(table["image_id"].to_pylist(), table["caption_id"].to_pylist(), strict=True))
    assert positives_of(library, direction) == expected
    if labels == "eccv":
        found, named = (merged_qrels(library.split("test"), direction, sources=[name]) for name in ("mine", "eccv"))
        for column in ("query_ids", "gallery_ids", "indptr", "indices"):
            np.testing.assert_array_equal(getattr(found, column), getattr(named, column))
