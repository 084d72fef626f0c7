"""The manifest names every file, and keeps foreign files from being replaced."""

import json
from contextlib import nullcontext

import pytest

from cxc_eccv.builders.output import replaceable_files, write_manifest
from cxc_eccv.demo.run import earlier_files
from cxc_eccv.errors import InvalidOption


@pytest.fixture
def built(tmp_path):
    folder = tmp_path / "built"
    (folder / "sts").mkdir(parents=True)
    (folder / "sts" / "test.parquet").write_bytes(b"rows")
    (folder / "README.md").write_text("card")
    write_manifest(folder, {"edition": "sample"}, {})
    return folder


def test_a_build_may_be_replaced_and_so_may_nothing(built, tmp_path):
    (tmp_path / "empty").mkdir()
    assert replaceable_files(built) == {"README.md", "manifest.json", "sts/test.parquet"}
    assert replaceable_files(tmp_path / "absent") == replaceable_files(tmp_path / "empty") == set()


@pytest.mark.parametrize("name", ["notes.txt", ".git/HEAD", "sts/mine.parquet"])
def test_a_foreign_file_in_a_build_is_named(built, name):
    (built / name).parent.mkdir(exist_ok=True)
    (built / name).write_text("mine")
    with pytest.raises(InvalidOption, match=f"no build wrote: {name}"):
        replaceable_files(built)


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


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "web app", "files": {}}'])
def test_another_manifest_does_not_make_a_folder_ours(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(InvalidOption, match=r"no build wrote: manifest\.json"):
        replaceable_files(tmp_path)


def test_a_file_is_refused(tmp_path):
    (tmp_path / "data").touch()
    with pytest.raises(InvalidOption, match="is a file"):
        replaceable_files(tmp_path / "data")
