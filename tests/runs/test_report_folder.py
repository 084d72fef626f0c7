"""A report's folder stands for the model's file in it, or the error says what it is."""

import json

import numpy as np
import pytest

from cxc_eccv.errors import MalformedRun
from cxc_eccv.runs.load import group_files, load_run


@pytest.fixture
def folder(tmp_path):
    """A report's folder, and a model's file beside it."""
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "report.json").write_text("{}")
    np.savez(tmp_path / "mine.npz", image_ids=np.arange(3), image_embeddings=np.eye(3))
    return tmp_path / "report"


@pytest.mark.parametrize("name", [".", "report.json"])
def test_report_stands_for_the_file_in_its_folder(folder, name):
    (folder.parent / "mine.npz").rename(folder / "mine.npz")
    assert group_files([folder / name]) == [("mine", ((folder / "mine.npz",), ()))]
    assert load_run(folder / name).images.ids.tolist() == [0, 1, 2]


@pytest.mark.parametrize("content", ["{}", "[]", "{"])
@pytest.mark.parametrize("read", [load_run, lambda path: group_files([path])], ids=["load_run", "group_files"])
def test_folder_without_the_file_is_refused(folder, read, content):
    (folder / "report.json").write_text(content)
    with pytest.raises(MalformedRun, match=r"is a report, not a model's file\. Name the file of .* rankings$"):
        read(folder)


def test_error_names_the_command_of_the_report(folder):
    report = {"provenance": {"command": "cxc-eccv evaluate mine.npz"}}
    (folder / "report.json").write_text(json.dumps(report))
    with pytest.raises(MalformedRun, match=r"; the report was made by: cxc-eccv evaluate mine\.npz$"):
        load_run(folder)


def test_other_folder_is_no_file(tmp_path):
    with pytest.raises(MalformedRun, match="is a folder, not a file"):
        load_run(tmp_path)
