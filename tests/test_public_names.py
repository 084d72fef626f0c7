"""The public namespace: what it holds, and that importing it stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import cxc_eccv

pytestmark = pytest.mark.thorough

PUBLIC = [
    "Library",
    "MultiPositiveCollator",
    "attach_images",
    "build_folder",
    "collect_positives",
    "compare",
    "evaluate",
    "evaluate_model",
    "load",
    "load_embeddings",
    "load_report",
    "load_reports",
    "load_run",
    "metric",
    "multi_positive_loss",
    "save_embeddings",
]


def test_members_are_pinned():
    assert cxc_eccv.__all__ == PUBLIC
    for name in PUBLIC:
        assert getattr(cxc_eccv, name).__module__.startswith("cxc_eccv.")
    assert set(PUBLIC) <= set(dir(cxc_eccv))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'evaluat'"):
        cxc_eccv.evaluat  # noqa: B018


def test_modules_import_only_version_from_the_package():
    """The linter cannot see an import through its ``__getattr__``."""
    package = Path(cxc_eccv.__file__).parent
    modules = {path.stem if path.is_file() else path.name for path in package.iterdir()}
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "import cxc_eccv" not in text and "from cxc_eccv import" not in text:
            continue
        tree = ast.parse(text)
        taken = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "cxc_eccv"
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "cxc_eccv":
                taken |= {alias.name for alias in node.names}
            if isinstance(node, ast.Import):
                assert not any(alias.name == "cxc_eccv" and alias.asname for alias in node.names), path
        assert taken <= {"__version__"} | modules, path


@pytest.mark.parametrize("name", ["cxc_eccv.evaluation", "cxc_eccv.types"])
def test_a_report_shows_itself_whatever_was_imported(name, warm_python):
    code = f"import {name}\nfrom cxc_eccv.report import Report\nreport = Report(())\n"
    code += "print(report)\nassert 'No task' in report._repr_html_()"
    printed = subprocess.run([*warm_python, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "No task could be scored." in printed


def test_import_loads_nothing_heavy():
    heavy = ("numpy", "pyarrow", "datasets", "torch")
    code = f"import sys, cxc_eccv.training; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_core_and_a_report_need_nothing_heavy():
    heavy = ("datasets", "evaluate", "typer", "torch", "scipy.optimize", "scipy.stats")
    code = "import sys, cxc_eccv.registry, cxc_eccv.evaluation, cxc_eccv.report.console\n"
    code += f"print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
