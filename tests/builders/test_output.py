"""Parquet shards repeat their bytes, and the manifest names every file and protects foreign ones."""

import json
from contextlib import nullcontext

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Features, Value

from cxc_eccv.builders import output
from cxc_eccv.builders.output import replaceable_files, write_manifest
from cxc_eccv.cli.demo import earlier_files
from cxc_eccv.errors import DataError, InvalidOption

FEATURES = Features({"id": Value("int64"), "captions": [{"id": Value("int64"), "text": Value("string")}]})


def rows(n_rows):
    captions = [[{"id": number, "text": "x" * 50}] * (number % 3) for number in range(n_rows)]
    return pa.table({"id": range(n_rows), "captions": pa.array(captions, FEATURES.arrow_schema.field("captions").type)})


def write(folder, table, split="test", **options):
    folder.mkdir()
    return output.write_shards(output.row_groups(table), folder, split, **options)


def test_files_together_hold_the_rows_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(output, "SHARD_BYTES", 2_000)
    table = output.conform(rows(500), FEATURES, "demo/test")
    written = write(tmp_path / "a", table, shard_bytes=9_000)
    n_files = len(written.files)
    assert n_files > 3
    assert written.files == tuple(f"test-{n:05d}-of-{n_files:05d}.parquet" for n in range(n_files))
    parts = [pq.ParquetFile(tmp_path / "a" / name) for name in written.files]
    assert pa.concat_tables([part.read() for part in parts]).equals(table)
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == sorted(written.files)
    assert written.num_rows == 500
    assert written.sizes == tuple((tmp_path / "a" / name).stat().st_size for name in written.files)
    for part in parts:
        assert part.read().nbytes <= 9_000
        assert part.num_row_groups == 1
    group = pa.table({"n": range(100)})
    tmp_path.joinpath("b").mkdir()
    assert len(output.write_shards([group, group], tmp_path / "b", "test", shard_bytes=10).files) == 2


def test_chunks_of_the_input_do_not_show(tmp_path):
    table = rows(300)
    chunked = pa.concat_tables([table.slice(0, 7), table.slice(7, 200), table.slice(207)])
    for name, given in (("a", table), ("b", chunked)):
        write(tmp_path / name, output.conform(given, FEATURES, name))
    one, other = (next((tmp_path / name).iterdir()).read_bytes() for name in "ab")
    assert one == other


DIRECTIONS = Features({"direction": ClassLabel(names=["i2t", "t2i"])})

MISFITS = {
    "order-of-columns": (
        rows(2).select(["captions", "id"]),
        FEATURES,
        r"demo/test: the rows have the columns \['captions', 'id'\]",
    ),
    "type-of-values": (
        pa.table({"id": ["seven"], "captions": rows(1)["captions"]}),
        FEATURES,
        "demo/test: the rows do not fit the features",
    ),
    "unknown-label": (
        pa.table({"direction": ["t2i", "i2i"]}),
        DIRECTIONS,
        "demo/test, column 'direction': 'i2i' is not one of its labels, i2t, t2i",
    ),
}


@pytest.mark.parametrize("fault", MISFITS)
def test_rows_that_do_not_fit_are_refused(fault):
    table, features, message = MISFITS[fault]
    with pytest.raises(DataError, match=message):
        output.conform(table, features, "demo/test")


def test_label_names_become_codes():
    table = output.conform(pa.table({"direction": ["t2i", None, "i2t"]}), DIRECTIONS, "demo/test")
    assert table["direction"].to_pylist() == [1, None, 0]
    assert output.conform(table, DIRECTIONS, "demo/test").equals(table)
    assert Features.from_arrow_schema(table.schema) == DIRECTIONS
    assert datasets.Dataset(table)["direction"][:] == [1, None, 0]


def test_portable_schema_restores_features_for_older_releases():
    """The schema describes lists in the form that older releases of datasets read."""
    pair = datasets.List(Value("int64"), length=2)
    features = Features(FEATURES | {"image": datasets.Image(), "pair": pair, "lists": [[Value("string")]]})
    assert Features.from_arrow_schema(output.portable_schema(features)) == features
    described = json.loads(output.portable_schema(FEATURES).metadata[b"huggingface"])["info"]["features"]
    plain = {"dtype": "int64", "_type": "Value"}
    assert described == {"id": plain, "captions": [{"id": plain, "text": {"dtype": "string", "_type": "Value"}}]}


@pytest.fixture
def built(tmp_path):
    folder = tmp_path / "built"
    (folder / "sts").mkdir(parents=True)
    (folder / "sts" / "test.parquet").write_bytes(b"rows")
    (folder / "README.md").write_text("card")
    write_manifest(folder, {"edition": "sample"}, {})
    return folder


def test_only_builds_and_empty_folders_are_replaceable(built, tmp_path):
    (tmp_path / "empty").mkdir()
    assert replaceable_files(built) == {"README.md", "manifest.json", "sts/test.parquet"}
    assert replaceable_files(tmp_path / "absent") == replaceable_files(tmp_path / "empty") == set()


FOREIGN = {
    "file-beside": ({"notes.txt": "mine"}, "no build wrote: notes.txt"),
    "hidden-folder": ({".git/HEAD": "mine"}, "no build wrote: .git/HEAD"),
    "file-among-shards": ({"sts/mine.parquet": "mine"}, "no build wrote: sts/mine.parquet"),
    "empty-manifest": ({"manifest.json": ""}, "no build wrote: README.md, manifest.json"),
    "list-as-manifest": ({"manifest.json": "[]"}, "no build wrote: README.md, manifest.json"),
    "manifest-without-format": ({"manifest.json": "{}"}, "no build wrote: README.md, manifest.json"),
    "manifest-of-another": (
        {"manifest.json": '{"format": "web app", "files": {}}'},
        "no build wrote: README.md, manifest.json",
    ),
}


@pytest.mark.parametrize("fault", FOREIGN)
def test_folder_with_files_of_others_is_refused(built, fault):
    files, message = FOREIGN[fault]
    for name, text in files.items():
        (built / name).parent.mkdir(exist_ok=True)
        (built / name).write_text(text)
    with pytest.raises(InvalidOption) as caught:
        replaceable_files(built)
    assert message in str(caught.value)


def test_file_is_no_folder_to_build_in(tmp_path):
    (tmp_path / "data").touch()
    with pytest.raises(InvalidOption, match="is a file"):
        replaceable_files(tmp_path / "data")


def test_a_manifest_that_names_files_elsewhere_removes_none(built):
    manifest = json.loads((built / "manifest.json").read_text())
    (built / "manifest.json").write_text(json.dumps(manifest | {"files": {**manifest["files"], "../thesis.tex": {}}}))
    assert replaceable_files(built) == {"README.md", "manifest.json", "sts/test.parquet"}


def test_the_demo_takes_its_own_files_alone(tmp_path):
    put = {"dataset/mine": "no build wrote: mine", "cache/mine": None, "ridge.npz": None}
    for number, (name, refused) in enumerate(put.items()):
        path = tmp_path / str(number) / name
        path.parent.mkdir(parents=True)
        path.touch()
        with pytest.raises(InvalidOption, match=refused) if refused else nullcontext():
            assert earlier_files(tmp_path / str(number)) == ["ridge.npz"]
