"""A report's folder stands for its model's file, or the error says what it is."""

import re

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
def test_report_stands_for_the_file_it_was_made_of(folder, name):
    (folder / "run.yaml").write_text(f"files: {folder.parent / 'mine.npz'}\n")
    assert group_files([folder / name]) == [("mine", ((folder.parent / "mine.npz",), ()))]
    assert load_run(folder / name).images.ids.tolist() == [0, 1, 2]


def test_rankings_of_both_directions_are_one_model(folder):
    files = [folder.parent / f"mine_{way}.json" for way in ("i2t", "t2i")]
    for file in files:
        file.write_text('{"1": [2]}')
    (folder / "run.yaml").write_text(f"files: [{', '.join(map(str, files))}]\n")
    assert [paths for _, (paths, _) in group_files([folder])] == [tuple(files)]


def test_vectors_in_the_folder_are_found(folder):
    (folder.parent / "mine.npz").rename(folder / "mine.npz")
    assert load_run(folder).images is not None


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ("files: gone.npz", "Name the file itself; the report's was "),
        ("model: me/clip\nimages: photos", "encode --model me/clip --images photos --output report.npz"),
        ("model: [a, b]", "Name the file of the model's embeddings, scores or rankings"),
        ("- no options", "Name the file of the model's embeddings"),
        ("a: b: c", "Name the file of the model's embeddings"),
    ],
)
def test_error_says_what_the_folder_is(folder, options, advice):
    (folder / "run.yaml").write_text(options)
    message = rf"report is a report, not a model's file\. .*{re.escape(advice)}"
    for read in (load_run, lambda path: group_files([path])):
        with pytest.raises(MalformedRun, match=message):
            read(folder)


def test_other_folder_is_no_file(tmp_path):
    with pytest.raises(MalformedRun, match="is a folder, not a file"):
        load_run(tmp_path)
