"""Self-contained source: what it carries, what it renames, what it refuses."""

import ast
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from cxc_eccv import registry

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]


@pytest.fixture
def inline(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from metric_modules.inlining import inline

    return lambda lines: inline('"""Script."""\n' + "\n".join(lines), "# Header.")


@pytest.fixture
def run(tmp_path):
    """The names that a source text defines."""

    def run(text):
        (tmp_path / "bundle.py").write_text(text)
        return runpy.run_path(str(tmp_path / "bundle.py"))

    return run


def test_inlining_takes_only_what_is_used(inline, run):
    text = inline(["from cxc_eccv.metrics.mrr_at_k import mrr_at_k as score", "", "answer = score"])
    names = run(text)
    ranks = names["PositiveRanks"].of([[2, 9], [11]])
    assert names["answer"](ranks, k=10).tolist() == [0.5, 0.0]
    assert "class Judgments" not in text
    assert "class RunTooShallow" not in text
    assert not [line for line in text.splitlines() if line.startswith(("import cxc_eccv", "from cxc_eccv"))]


@pytest.mark.parametrize(
    ("lines", "name", "value"),
    [
        (
            [
                "from cxc_eccv.metrics.mrr import SPEC as FIRST",
                "from cxc_eccv.metrics.map_at_r import SPEC",
                "names = [FIRST.name, SPEC.name]",
            ],
            "names",
            ["mrr", "map_at_r"],
        ),
        (
            ["from cxc_eccv.metrics.mrr import mrr as other", "mrr = 5", "both = (mrr, other.__name__)"],
            "both",
            (5, "mrr_mrr"),
        ),
    ],
)
def test_names_that_clash_are_renamed(inline, run, lines, name, value):
    assert run(inline(lines))[name] == value


def test_names_defined_together_are_renamed_together(inline, run):
    lines = ["from cxc_eccv.runs.rankings import LARGEST_ID as most", "", "MOST_DIGITS = 3", "both = (most, 3)"]
    text = inline(lines)
    assert run(text)["both"] == (2**63 - 1, 3)
    assert text.count("np.iinfo(np.int64).max") == 1


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["import cxc_eccv.types", "", "x = cxc_eccv"], "cannot be followed"),
        (["from cxc_eccv.types import Nothing", "", "x = Nothing"], "defines no Nothing"),
        (["def load():", "    from cxc_eccv.types import TopK", "    return TopK"], "inside a definition"),
    ],
)
def test_what_cannot_be_followed_is_refused(inline, lines, message):
    with pytest.raises(ImportError, match=message):
        inline(lines)


@pytest.fixture(scope="module")
def exports():
    """The files of every metric's export."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        from export_metric import export_files

        return {name: export_files(name) for name in registry.metric_functions()}


def test_exported_modules_are_whole(exports, tmp_path):
    for name, files in exports.items():
        (tmp_path / f"{name}.py").write_text(files[f"{name}.py"])
    undefined = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", tmp_path]
    done = subprocess.run(undefined, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", registry.metric_functions())
def test_exported_module_states_origin_and_requirements(exports, name):
    """Also for what it imports late: WordNet's reader."""
    files = exports[name]
    assert sorted(files) == sorted([f"{name}.py", "app.py", "README.md", "requirements.txt"])
    assert files[f"{name}.py"].startswith("# Exported from cxc_eccv ")
    assert "noqa" not in files[f"{name}.py"]
    nodes = list(ast.walk(ast.parse(files[f"{name}.py"])))
    named = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    named |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    packages = {module.partition(".")[0] for module in named} - sys.stdlib_module_names
    required = {re.split("[<>=]", line)[0] for line in files["requirements.txt"].splitlines()}
    assert packages <= required | {"filelock", "pyarrow"}  # which datasets brings
    assert "cxc_eccv" not in required
