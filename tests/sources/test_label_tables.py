"""Labels from a plain table: a source under the name of its file, of the splits that its ids are of."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from label_files import random_pairs, write_label_file, write_table

import cxc_eccv as ce
from cxc_eccv import registry
from cxc_eccv.errors import InvalidOption
from cxc_eccv.judgments.merging import merge, merged_qrels
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers.label_tables import read_label_files
from cxc_eccv.tasks.task import NotApplicable

QUIET = {"intervals": "none", "progress": False}


@pytest.fixture
def pairs(sample_library):
    """Table of random pairs of the sample's test split: image and caption ids, gains, and whether they are positive."""
    ids, gains = random_pairs(sample_library)
    images, captions = np.array(ids).T
    return pa.table({"image_id": images, "caption_id": captions, "positive": np.array(gains) > 0, "gain": gains})


def positives_of(library, direction="i2t", split="test"):
    found = merged_qrels(library.split(split), direction, sources=["mine"])
    pairs = zip(found.query_ids[found.rows].tolist(), found.gallery_ids[found.indices].tolist(), strict=True)
    return {pair if direction == "i2t" else pair[::-1] for pair in pairs}


@pytest.mark.parametrize("name", ["mine.csv", "mine.jsonl", "mine.parquet"])
def test_table_is_a_source_under_its_name(tmp_path, pairs, name):
    library = Library("sample", labels=write_table(tmp_path / name, pairs))
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
    file = Library("sample", labels=write_table(tmp_path / "mine.csv", table)).split("test").labels("mine")
    assert file.table["positive"].to_pylist() == pairs["positive"].to_pylist()
    gains = pairs["gain"] if "gain" in columns else pairs["positive"].cast(pa.float64())
    assert file.table["gain"].to_pylist() == gains.to_pylist()


FOLDED = ["Positive", "POSITIVE", " positive", "positive ", "positive\u200b", "\ufeffpositive", "\u2060Positive\u00a0"]
FOLDED += ["Gain", "GAIN", "gain ", "gain\u200c", "\ufeffgain"]
FORMATS = ["csv", "jsonl", "parquet"]


def read_positives(path, library):
    """Pairs of a table that are positive, of all its splits."""
    split = library.split("test")
    files = read_label_files(path, lambda: {"test": (split.image_ids, split.caption_ids)})
    rows = [row for file in files for row in file.table.to_pylist()]
    return {(row["image_id"], row["caption_id"]) for row in rows if row["positive"]}


@pytest.mark.parametrize("name", FOLDED)
def test_name_of_verdicts_is_folded(tmp_path, sample_library, pairs, name):
    table = pairs.select(["image_id", "caption_id"]).append_column(name, pairs["positive"].cast(pa.int8()))
    rows = pairs.filter(pairs["positive"]).to_pylist()
    expected = {(row["image_id"], row["caption_id"]) for row in rows}
    assert read_positives(write_table(tmp_path / "mine.csv", table), sample_library) == expected


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("caption", ["A dog runs.", "No dogs are on the 2 beds."]),
        ("annotator", ["anna", "w2"]),
        ("file_name", ["COCO_val2014_000000000042.jpg", "COCO_val2014_000000000073.jpg"]),
        ("note", ["blurry, I think", ""]),
    ],
)
def test_column_of_other_texts_is_ignored(tmp_path, sample_library, pairs, name, values, ending):
    table = pairs.select(["image_id", "caption_id"]).slice(0, 2).append_column(name, pa.array(values))
    assert len(read_positives(write_table(tmp_path / f"mine.{ending}", table), sample_library)) == 2


def test_category_of_pandas_is_a_text(tmp_path, sample_library, pairs):
    names = pa.array(["anna", "ben"]).dictionary_encode()
    table = pairs.select(["image_id", "caption_id"]).slice(0, 2).append_column("annotator", names)
    assert len(read_positives(write_table(tmp_path / "mine.parquet", table), sample_library)) == 2


def test_names_of_ids_are_folded_too(tmp_path, sample_library, pairs):
    table = pairs.rename_columns(["Image_ID", "caption_id ", "positive", "gain"])
    path = write_table(tmp_path / "mine.parquet", table)
    assert read_positives(path, sample_library) == read_positives(write_table(path, pairs), sample_library)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_gzipped_table_is_read(tmp_path, sample_library, pairs, ending):
    path = write_table(tmp_path / f"mine.{ending}", pairs)
    packed = tmp_path / f"packed.{ending}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert Library("sample", labels=packed).label_names == ("packed",)
    assert read_positives(packed, sample_library) == read_positives(path, sample_library)


def test_without_verdicts_all_pairs_are_positive(tmp_path, pairs):
    library = Library("sample", labels=write_table(tmp_path / "mine.csv", pairs.select(["image_id", "caption_id"])))
    assert len(positives_of(library)) == pairs.num_rows


def test_byte_order_mark_is_passed_over(tmp_path, pairs):
    path = write_table(tmp_path / "mine.csv", pairs)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert Library("sample", labels=path).split("test").labels("mine").table.num_rows == pairs.num_rows


def test_table_of_several_splits_is_one_source(tmp_path, sample_library, pairs):
    images, captions = np.array(random_pairs(sample_library, "train")[0]).T
    other = pa.table({"image_id": images, "caption_id": captions})
    whole = pa.concat_tables([other, pairs.select(["image_id", "caption_id"])])
    library = Library("sample", labels=write_table(tmp_path / "mine.csv", whole))
    assert list(library.label_files) == ["labels_mine_train", "labels_mine_test"]
    assert (len(positives_of(library, split="train")), len(positives_of(library))) == (200, 200)


def test_folder_of_tables_is_read(tmp_path, pairs):
    write_table(tmp_path / "first.csv", pairs.slice(0, 100))
    write_table(tmp_path / "second.jsonl", pairs.slice(100))
    (tmp_path / "README.md").write_text("Labels.")
    assert Library("sample", labels=tmp_path).label_names == ("first", "second")


def test_tables_alone_decide_unless_sources_are_named(tmp_path, pairs, make_run):
    library = Library("sample", labels=write_table(tmp_path / "mine.csv", pairs))
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
    table = write_table(tmp_path / "mine.csv", pairs)
    task = registry.task("annotated")
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
    library = Library(real_library.data_dir, labels=write_table(tmp_path / "mine.csv", table), offline=True)
    expected = set(zip(table["image_id"].to_pylist(), table["caption_id"].to_pylist(), strict=True))
    assert positives_of(library, direction) == expected
    if labels == "eccv":
        found, named = (merged_qrels(library.split("test"), direction, sources=[name]) for name in ("mine", "eccv"))
        for column in ("query_ids", "gallery_ids", "indptr", "indices"):
            np.testing.assert_array_equal(getattr(found, column), getattr(named, column))
