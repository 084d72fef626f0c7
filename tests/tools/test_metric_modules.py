"""The generator of the ``evaluate`` modules and the tool that exports one module."""

import shutil
import sys
from importlib import import_module
from pathlib import Path

import pytest

from cxc_eccv import registry
from cxc_eccv.evaluate_modules import MODULES_FOLDER
from cxc_eccv.evaluate_modules.module_cards import arguments, lead

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tools"


@pytest.fixture(autouse=True)
def tools(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))


@pytest.fixture
def run(monkeypatch, capsys):
    """Exit status of a tool and what it says on standard error."""

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        try:
            import_module(name).main()
        except SystemExit as ended:
            return ended.code, capsys.readouterr().err
        return 0, ""

    return run


def test_the_committed_modules_are_what_the_generator_makes():
    from generate_metric_modules import differences, metric_files

    assert differences(MODULES_FOLDER, metric_files()) == []


def test_check_finds_missing_changed_and_extra_files(run, tmp_path):
    folder = shutil.copytree(MODULES_FOLDER, tmp_path / "metrics", ignore=shutil.ignore_patterns("__pycache__"))
    arguments = ("generate_metric_modules", "--check", "--folder", folder)
    assert run(*arguments) == (0, "")
    (folder / "rsum" / "rsum.py").unlink()
    (folder / "mrr" / "mrr.py").write_text("changed")
    (folder / "mrr" / "more.txt").write_text("")
    status, found = run(*arguments)
    assert status == 1
    for line in ("rsum/rsum.py: missing", "mrr/mrr.py: differs", "mrr/more.txt: not a generated file"):
        assert line in found


def test_writing_leaves_exactly_the_generated_files(tmp_path):
    from generate_metric_modules import differences, metric_files, write_files

    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "gone.py").write_text("")
    files = metric_files()
    write_files(tmp_path, files)
    assert differences(tmp_path, files) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == list(registry.metric_functions())


def test_docstring_is_split_into_lead_and_arguments():
    docstring = "One.\n\nTwo.\n\nArgs:\n    k: depth,\n        at least 1.\n    seed: any.\n\nReturns:\n    A."
    assert lead(docstring) == "One.\n\nTwo."
    assert arguments(docstring) == {"k": "depth, at least 1.", "seed": "any."}
    assert arguments("One.") == {}


def test_script_has_plain_imports_and_one_class():
    """What the import scanner of ``evaluate`` and its search for the class ask for."""
    for name in registry.metric_functions():
        lines = (MODULES_FOLDER / name / f"{name}.py").read_text(encoding="utf-8").splitlines()
        imports = [line for line in lines if line.startswith(("import ", "from "))]
        assert "import evaluate" in imports
        assert not [line for line in imports if "#" in line or "," in line or "(" in line]
        assert sum(line.startswith("class ") for line in lines) == 1


def test_unknown_metric_exits_2_without_traceback(run, tmp_path):
    status, found = run("export_metric", "map_at", "--output", tmp_path)
    assert (status, list(tmp_path.iterdir())) == (2, [])
    assert found.startswith("unknown metric 'map_at'; did you mean 'map_at_r'?")
