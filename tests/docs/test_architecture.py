"""The map of the package: every folder has its paragraph, every type its file, and the walk is the way a call takes."""

import importlib
import re
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from pages import DOCS

import cxc_eccv as ce

PACKAGE = Path(ce.__file__).parent
TEXT = (DOCS / "architecture.md").read_text(encoding="utf-8")
SECTIONS = dict(part.partition("\n")[::2] for part in TEXT.split("\n## ")[1:])
STEPS = re.findall(r"`([\w/]+\.py):([\w.]+)`", SECTIONS["One walk"])
KEY = "coco_5k/i2t/recall_at_1"


@pytest.fixture(scope="module")
def entered(tmp_path_factory):
    """Functions of the package in the order in which the walk of the page first enters them, and the report's text."""
    library = ce.Library("sample")
    rng = np.random.default_rng(0)
    ids = {}
    for side, table in (("image", library.split("test").images), ("caption", library.split("test").captions)):
        ids[f"{side}_ids"] = table[f"{side}_id"].to_numpy()
        ids[f"{side}_embeddings"] = rng.standard_normal((table.num_rows, 8))
    path = tmp_path_factory.mktemp("walk") / "model.npz"
    np.savez(path, **ids)
    found = {}
    root = f"{PACKAGE}/"

    def note(frame, event, _argument):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(root):
            found.setdefault((code.co_filename.removeprefix(root), code.co_qualname))

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = ce.evaluate(ce.load_run(path), KEY.rpartition("/")[0], data_dir="sample", progress=False)
        text = report.to_json()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return list(found), text


def test_every_folder_and_study_has_its_row():
    rows = re.findall(r"^\| `([\w/]+)/` \|", SECTIONS["Folders"], re.MULTILINE)
    folders = {path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.glob("*/__init__.py")} - {"sample"}
    studies = {path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.glob("studies/*/__init__.py")}
    assert sorted(rows) == sorted(folders | studies)


def test_files_stand_in_the_folder_of_their_row():
    for row in SECTIONS["Folders"].strip().split("\n"):
        for name in re.findall(r"`(\w+\.\w+)`", row):
            folder = re.findall(r"`([\w/]+)/`", row)[0]
            assert (PACKAGE / folder / name).is_file(), row


def test_every_type_stands_where_the_table_says():
    rows = re.findall(r"^\| `(\w+)` \| `([\w/]+)\.py` \|", SECTIONS["The types that carry data"], re.MULTILINE)
    assert len(rows) >= 10
    for name, path in rows:
        module = importlib.import_module(f"cxc_eccv.{path.replace('/', '.')}")
        assert getattr(module, name).__module__ == module.__name__, name


def test_the_walk_is_the_way_a_call_takes(entered):
    passed, text = entered
    assert len(STEPS) > 12
    assert [step for step in STEPS if step not in passed] == []
    assert sorted(STEPS, key=passed.index) == STEPS
    assert f'"{KEY}"' in text


def test_the_stages_are_the_files_of_the_walk():
    told = [path for path, _ in STEPS if path.startswith("evaluation/")]
    stages = [f"evaluation/{name}.py" for name in ("calls", "request", "plan", "score", "make_report")]
    assert [path for path in dict.fromkeys(told) if path in stages] == stages


def test_every_path_of_the_page_exists():
    paths = {path for path, _ in STEPS} | set(re.findall(r"`((?:\w+/)+(?:\w+\.\w+)?)`", TEXT)) - {"cxc_eccv/"}
    assert len(paths) > 40
    for path in paths:
        assert (PACKAGE / path).exists(), path


def test_what_the_page_tells_to_change_is_there():
    names = re.findall(r"`([A-Za-z_]+)`", SECTIONS["Where would I put ..."])
    code = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py") if "sample" not in path.parts)
    assert {"rank_positives", "RowReader", "SOURCE", "MetricInput"} <= set(names)
    assert [name for name in names if not re.search(rf"\b{name}\b", code)] == []
