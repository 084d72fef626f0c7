"""Weak positives as a source of labels: for what nobody judged, of one edition, and only when asked."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from label_files import write_label_file
from mined_files import write_mined

import cxc_eccv as ce
from cxc_eccv.builders.dataset_config import BuildOptions, dataset_configs
from cxc_eccv.builders.folder_writing import build_folder
from cxc_eccv.builders.load import cache_key
from cxc_eccv.errors import DataError, InvalidOption, MalformedSource, SourceMissing
from cxc_eccv.judgments.evidence.source import label_sources, official_sources
from cxc_eccv.judgments.merging import entailed_pairs, merge
from cxc_eccv.registry import tasks
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import FACTS_KEY, read_mined
from cxc_eccv.tasks.task import NotApplicable

RULE = "mined pairs that an official source judges"


def some_pairs(content, number=6):
    """Every image with the first caption of the image after the next."""
    first = {}
    for image, caption in zip(content.caption_image_ids.tolist(), content.caption_ids.tolist(), strict=True):
        first.setdefault(image, caption)
    images = content.image_ids.tolist()
    return [(image, first[images[(row + 2) % len(images)]]) for row, image in enumerate(images)][:number]


@pytest.fixture
def mined(tmp_path, sample_library):
    """Writes a file of pairs of a split."""

    def write(split="train", pairs=None, name="weak.parquet", **facts):
        chosen = some_pairs(sample_library.split(split)) if pairs is None else pairs
        return Path(write_mined(tmp_path / name, sample_library, split, chosen, **facts))

    return write


def change_facts(file, **facts):
    table = pq.read_table(file)
    whole = json.loads(table.schema.metadata[FACTS_KEY]) | facts
    pq.write_table(table.replace_schema_metadata({FACTS_KEY: json.dumps(whole)}), file)
    return file


def rows_of(config, split, library, options=BuildOptions()):  # noqa: B008 - frozen
    return dataset_configs()[config].rows(library.split(split), options).table.to_pylist()


def test_mined_pairs_are_weak_positives(mined, sample_library):
    file = mined()
    pairs = dict(some_pairs(sample_library.split("train")))
    without, found = (
        rows_of("pairs", "train", library) for library in (Library("sample"), Library("sample", mined=[file]))
    )
    texts = dict(
        zip(*(sample_library.split("train").captions[name].to_pylist() for name in ("caption_id", "text")), strict=True)
    )
    for before, after in zip(without, found, strict=True):
        caption = pairs.get(after["image_id"])
        added = [] if caption is None else [{"caption_id": caption, "caption": texts[caption], "sources": ["mined"]}]
        assert after == before | {"weak_positives": added}
    assert {len(row["weak_positives"]) for row in found} == {0, 1}


def test_mined_pairs_join_retrieval_in_both_directions(mined):
    """Nothing else in the rows changes."""
    file = mined()
    pairs = set(some_pairs(Library("sample").split("train")))
    without, found = (
        rows_of("retrieval", "train", library) for library in (Library("sample"), Library("sample", mined=[file]))
    )
    added = {"i2t": set(), "t2i": set()}
    for before, after in zip(without, found, strict=True):
        new = [entry for entry in after["positives"] if entry["sources"] == ["mined"]]
        assert after | {"positives": [entry for entry in after["positives"] if entry not in new]} == before
        for entry in new:
            assert entry["rules"] == ["mined: a classifier says entailed"]
            assert (entry["rating"], entry["conflict"]) == (None, False)
            added[after["direction"]].add((after["query_id"], entry["id"]))
    assert added["i2t"] == pairs
    assert added["t2i"] == {pair[::-1] for pair in pairs}


@pytest.mark.parametrize("policy", ["union", "strict", "override"])
def test_a_machine_says_nothing_where_people_judged(mined, policy):
    """A pair that CxC rated low, one that it rated high, an image's own caption, and one that nobody judged."""
    library = Library("sample")
    merged = merge(library.split("validation"), "i2t")
    ids = list(zip(merged.query_ids[merged.queries].tolist(), merged.gallery_ids[merged.items].tolist(), strict=True))
    low = next(pair for pair, positive in zip(ids, merged.positive, strict=True) if not positive)
    high = next(pair for pair, positive in zip(ids, merged.positive, strict=True) if positive)
    fresh = next(pair for pair in some_pairs(library.split("validation")) if pair not in set(ids))
    file = mined("validation", [low, high, fresh])
    before, after = (
        merge(each.split("validation"), "i2t", policy=policy) for each in (library, Library("sample", mined=[file]))
    )
    size = before.gallery_ids.size
    known = np.isin(after.queries * size + after.items, before.queries * size + before.items)
    assert int((~known).sum()) == 1
    assert after.positive[~known].tolist() == [True]
    assert np.array_equal(after.positive[known], before.positive)
    assert np.array_equal(after.judged[known][:, :-1], before.judged)
    assert not after.judged[known][:, -1].any()
    assert np.array_equal(after.conflict[known], before.conflict)
    assert after.left_out == before.left_out | {RULE: 2}


def test_no_task_and_no_entailment_label_takes_them(mined):
    """Not even from a library that holds them; a caller who names the source gets them."""
    file = mined("test", some_pairs(Library("sample").split("test"), 60))
    without = Library("sample")
    holding = Library("sample", mined=[file])
    assert all("mined" not in task.label_sources for task in tasks().values())
    for task in tasks().values():
        for direction in task.part_names:
            try:
                wanted = task.judgments(without.split("test", task.collection), direction)
            except (DataError, NotApplicable):
                continue  # the sample lacks raw files, and images for COCO 1K
            found = task.judgments(holding.split("test", task.collection), direction)
            for name in ("query_ids", "gallery_ids", "indptr", "indices", "gains"):
                assert np.array_equal(getattr(found, name), getattr(wanted, name)), (task.name, direction)
    assert np.array_equal(entailed_pairs(holding.split("test")).items, entailed_pairs(without.split("test")).items)
    assert rows_of("entailment", "test", holding) == rows_of("entailment", "test", without)
    assert merge(holding.split("test"), "i2t", sources=["coco", "mined"]).positive.sum() > 300
    assert merge(without.split("test"), "i2t", sources=["coco", "mined"]).positive.sum() == 300


def test_a_report_shows_official_sources_alone():
    assert list(label_sources()) == [*official_sources(), "mined"]
    assert not label_sources()["mined"].official


def test_another_edition_is_refused_with_what_to_do(mined, sample_library):
    other = mined(data={"edition": "official", "content": "0" * 64, "images": 82783, "captions": 414113})
    with pytest.raises(DataError, match="edition official, with 82783 images") as caught:
        rows_of("pairs", "train", Library("sample", mined=[other]))
    assert "60 images and 300 captions in that split" in str(caught.value)
    assert "mine again with cxc-eccv mine" in str(caught.value)
    # Train with restval folded in is other data than train.
    with pytest.raises(DataError, match="with restval folded into train or not"):
        rows_of("pairs", "train", Library("sample", mined=[mined()], restval_in_train=True))
    # Of a split that nobody asks for, nothing is read.
    assert rows_of("pairs", "restval", Library("sample", mined=[other])) == rows_of("pairs", "restval", sample_library)


def test_ids_outside_the_split_are_refused(mined):
    file = mined(pairs=[(1, 2)])
    with pytest.raises(MalformedSource, match="image_id 1, expected an id of the train split"):
        Library("sample", mined=[file]).split("train").mined()


def test_two_files_of_one_split_are_refused(mined):
    with pytest.raises(DataError, match="both hold weak positives of train"):
        Library("sample", mined=[mined(), mined(name="other.parquet")]).split("train").mined()


@pytest.mark.parametrize(
    ("columns", "others", "told"),
    [
        ({"score": np.float32([0.5, 1.5])}, {}, "score 1.5, expected a number in"),
        ({"score": np.float32([0.5, np.nan])}, {}, "score nan, expected a number in"),
        ({"rank": np.int32([0, 1])}, {}, "rank 0, expected a rank of at least 1"),
        (
            {"image_id": np.array([7, 7]), "caption_id": np.array([8, 8])},
            {},
            "every pair of image_id and caption_id once",
        ),
        ({}, {"schema": 2}, "which this version reads"),
        ({}, {"collection": "flickr8k"}, "'flickr8k'"),
        ({}, {"split": None}, "metadata, split"),
        ({}, {"classifier": "a name"}, "metadata, classifier"),
    ],
)
def test_a_malformed_file_is_refused(mined, sample_library, columns, others, told):
    file = change_facts(mined(pairs=some_pairs(sample_library.split("train"), 2)), **others)
    table = pq.read_table(file)
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    pq.write_table(table, file)
    with pytest.raises(MalformedSource, match=told):
        read_mined(file)


def test_a_dataset_takes_no_weak_positives_of_flickr30k(mined):
    with pytest.raises(InvalidOption, match="the weak positives are of flickr30k train, but datasets are of COCO only"):
        rows_of("pairs", "train", Library("sample", mined=[change_facts(mined(), collection="flickr30k")]))


def test_malformed_mined_file_is_refused(mined, tmp_path):
    path = tmp_path / "weak.parquet"
    with pytest.raises(SourceMissing, match=r"weak\.parquet: there is no such file .* cxc-eccv mine"):
        read_mined(path)
    path.write_bytes(b"PAR1 nothing")
    with pytest.raises(MalformedSource, match="as cxc-eccv mine writes them"):
        read_mined(path)
    table = pq.read_table(mined())
    pq.write_table(table.replace_schema_metadata(None), path)
    with pytest.raises(MalformedSource, match="expected the facts that cxc-eccv mine writes"):
        read_mined(path)
    pq.write_table(table.drop_columns(["score"]), path)
    with pytest.raises(MalformedSource, match="expected score float"):
        read_mined(path)
    metadata = table.schema.metadata
    nulls = table.set_column(2, "score", pa.nulls(table.num_rows, pa.float32())).replace_schema_metadata(metadata)
    pq.write_table(nulls, path)
    with pytest.raises(MalformedSource, match="6 nulls"):
        read_mined(path)


def test_build_names_the_mined_file_by_hash(mined, tmp_path):
    """A build without such a file says nothing about mined pairs."""
    file = mined()
    options = BuildOptions(mined=(str(file),))
    common = {"data_dir": "sample", "configs": ["pairs"], "splits": ["train"], "progress": False}
    build_folder(tmp_path / "with", options=options, **common)
    build_folder(tmp_path / "without", **common)
    for name, there in (("with", True), ("without", False)):
        manifest = json.loads((tmp_path / name / "manifest.json").read_text())
        assert ("mined_train" in manifest["sources"]) == there
        assert "mined" not in manifest["options"]
        assert str(tmp_path) not in json.dumps(manifest)
        card = (tmp_path / name / "README.md").read_text()
        assert ("weak positives found by a classifier and judged by nobody" in card) == there
    rows = pq.read_table(next((tmp_path / "with" / "pairs").iterdir()))["weak_positives"].to_pylist()
    assert {source for row in rows for weak in row for source in weak["sources"]} == {"mined"}


@pytest.mark.parametrize(
    ("of_split", "options", "reason"),
    [
        ("restval", {"restval_in_train": True}, "restval, which is folded into train"),
        ("train", {"splits": ["validation", "test"]}, r"train, and no row of this build \(validation, test\) uses it"),
        ("train", {"splits": ["train"], "configs": ["captions"]}, "train, and no row of this build"),
    ],
)
@pytest.mark.parametrize("kind", ["mined", "labels"])
def test_a_file_that_no_row_takes_is_refused(kind, of_split, options, reason, mined, tmp_path, sample_library):
    file = mined(of_split)
    if kind == "labels":
        content = sample_library.split(of_split)
        file = write_label_file(tmp_path / "mine.parquet", sample_library, some_pairs(content), [1] * 6, split=of_split)
    fold = options.get("restval_in_train", False)
    chosen = BuildOptions(**{kind: (str(file),)}, restval_in_train=fold)
    limits = {name: value for name, value in options.items() if name != "restval_in_train"}
    with pytest.raises(InvalidOption, match=f"{file.name} is of the split {reason}.*leave out the file"):
        build_folder(tmp_path / "out", options=chosen, data_dir="sample", progress=False, **limits)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("split", ["nosuch", "val", ""])
def test_a_file_of_no_split_is_refused(mined, split):
    file = change_facts(mined(), split=split)
    with pytest.raises(MalformedSource, match=f"metadata, split: found '{split}', expected one of train, restval, val"):
        build_folder(file.with_name("out"), options=BuildOptions(mined=(str(file),)), data_dir="sample", progress=False)


def test_cache_depends_on_the_mined_files_content(mined, tmp_path, sample_library):
    file = mined()
    options = BuildOptions(mined=(str(file),))
    key = cache_key(dataset_configs()["pairs"], "sample", options)
    assert key != cache_key(dataset_configs()["pairs"], "sample", BuildOptions())
    loaded = ce.load("pairs", "train", data_dir="sample", options=options, cache_dir=tmp_path / "cache")
    assert loaded.to_list() == rows_of("pairs", "train", Library("sample", mined=[file]))
    moved = file.rename(tmp_path / "moved.parquet")
    assert cache_key(dataset_configs()["pairs"], "sample", replace(options, mined=(str(moved),))) == key
    mined(pairs=some_pairs(sample_library.split("train"), 3), name="moved.parquet")
    assert cache_key(dataset_configs()["pairs"], "sample", replace(options, mined=(str(moved),))) != key


def test_what_was_read_is_among_the_files_used(mined):
    library = Library("sample", mined=[mined()])
    assert "mined_train" not in library.files_used()
    before = library.fingerprint()
    library.split("train").mined()
    assert len(library.files_used()["mined_train"]) == 64
    assert library.fingerprint() != before
    assert library.modified_files() == {}
    assert library.split("validation").mined() is None
