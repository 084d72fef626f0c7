"""The files of mteb's pull request: its list of tasks stays sorted, and the tasks read a pinned dataset."""

import ast
import importlib.util
import re
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

from cxc_eccv.builders.mteb_layout import SUBSETS, mteb_files

pytest.importorskip("mteb", reason="mteb is not installed: pip install '.[mteb]'")

TOOL = Path(__file__).parents[2] / "tools" / "mteb_pull_request.py"
TASKS = mteb_files(is_benchmark=False)["mteb_tasks.py"]
REVISION = "0" * 40


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("mteb_pull_request", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def listing():
    return Path(distribution("mteb").locate_file("mteb/tasks/retrieval/eng/__init__.py")).read_text()


def test_list_of_tasks_names_all_and_stays_sorted(tool, listing, tmp_path):
    names = tool.TASK_CLASS.findall(TASKS)
    assert sorted(names) == sorted(SUBSETS.values())
    added = tool.add_import(listing, names)
    (listed,) = [node.value for node in ast.parse(added).body if isinstance(node, ast.Assign)]
    assert set(names) <= set(ast.literal_eval(listed))
    assert len(added.splitlines()) == len(listing.splitlines()) + 2 * len(names) + 2
    assert tool.add_import(added, names) == added
    (tmp_path / "__init__.py").write_text(added)
    check = [sys.executable, "-m", "ruff", "check", "--isolated", "--preview", "--select", "I,RUF022", tmp_path]
    subprocess.run(check, check=True, stdout=subprocess.DEVNULL)


def test_tasks_read_a_commit_of_the_dataset(tool):
    names = {}
    exec(compile(tool.pin_dataset(TASKS, "org/data", REVISION), "tasks", "exec"), names)
    for name in SUBSETS.values():
        assert names[name].metadata.dataset == {"path": "org/data", "revision": REVISION}


def test_citation_of_coco_is_mtebs_own():
    """A test of mteb refuses two spellings of one title."""
    mscoco = pytest.importorskip("mteb.tasks.retrieval.eng.mscoco_i2t_retrieval", reason="mteb moved its task")
    own = re.search(r"title = \{Microsoft coco.*\}", mscoco.MSCOCOI2TRetrieval.metadata.bibtex_citation)[0]
    assert own in TASKS
    assert "@inproceedings{lin2014microsoft," in TASKS


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--revision", "main", "expected a commit of 40 hexadecimal digits; main would move"),
        ("--dataset", "data", "expected a repository on the Hub"),
        ("--mteb", ".", "is no clone of mteb"),
    ],
)
def test_what_would_not_be_accepted_is_refused(tmp_path, option, value, message):
    (tmp_path / "mteb_tasks.py").write_text(TASKS)
    clone = tmp_path / "mteb" / "tasks" / "retrieval" / "eng"
    clone.mkdir(parents=True)
    (clone / "__init__.py").touch()
    options = {"--dataset": "org/data", "--revision": REVISION, "--mteb": str(tmp_path)} | {option: value}
    words = [word for pair in options.items() for word in pair]
    done = subprocess.run([sys.executable, TOOL, tmp_path, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert message in done.stderr
