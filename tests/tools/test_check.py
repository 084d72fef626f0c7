"""The one command of all checks: which data it takes, how it runs the tests, and what it counts in the end."""

import doctest
import importlib
import json
import re
import subprocess
import sys
import threading
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]


@pytest.fixture
def check(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import check

    return check


def test_check_uses_data_beside_the_checkout(check, tmp_path, monkeypatch):
    mirror = tmp_path / "shared" / "data"
    assert check.choose_data("", mirror) == (
        "",
        f"No real data, as CXC_ECCV_DATA is unset and {mirror} is absent: tests that read it are skipped.",
    )
    mirror.mkdir(parents=True)
    assert check.choose_data("", mirror) == (str(mirror), f"Real data: {mirror}, as CXC_ECCV_DATA is unset.")
    monkeypatch.chdir(tmp_path)
    mine = f"Real data: {tmp_path / 'mine'}, from CXC_ECCV_DATA."
    assert check.choose_data("mine", mirror) == (str(tmp_path / "mine"), mine)
    assert check.choose_data("sample", mirror)[0] == ""
    assert ROOT.parent / "shared" / "data" == check.MIRROR


def test_every_check_gets_data_and_tests_are_counted(check, tmp_path, monkeypatch, capsys):
    ran = []

    def record(command, env, **_):
        assert "PYTHONDONTWRITEBYTECODE" not in env
        ran.append((command[1:], env["CXC_ECCV_DATA"]))
        for argument in command:
            if argument.startswith("--junit-xml="):
                report = '<testsuites><testsuite tests="9" skipped="2"/></testsuites>'
                Path(argument.partition("=")[2]).write_text(report)
        return subprocess.CompletedProcess(command, 0)

    def start(command, **options):
        return SimpleNamespace(wait=lambda: record(command, **options).returncode)

    monkeypatch.setattr(check.subprocess, "run", record)
    monkeypatch.setattr(check.subprocess, "Popen", start)
    monkeypatch.setattr(check, "MIRROR", tmp_path)
    monkeypatch.setattr(sys, "argv", ["check.py", "-n", "0", "tests/metrics"])
    monkeypatch.delenv("CXC_ECCV_DATA", raising=False)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert check.main() == 0
    assert {data for _, data in ran} == {str(tmp_path)}
    (tests,) = (command for command, _ in ran if "pytest" in command)
    assert tests[:7] == ["-m", "pytest", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
    assert tests[7:9] == ["-m", "not slow and not gpu and not network"]  # the thorough ones too
    assert tests[-3:] == ["-n", "0", "tests/metrics"]  # the last -n counts
    told = capsys.readouterr().out.splitlines()
    assert told[0] == f"Real data: {tmp_path}, as CXC_ECCV_DATA is unset."
    assert told[-1].startswith("All checks passed: ruff, format, types, layers, generators, core, tests.")
    assert told[-1].endswith(" 7 tests passed, 2 skipped.")


def test_the_tool_s_examples_are_right(check):
    assert doctest.testmod(check) == doctest.TestResults(failed=0, attempted=3)
    assert doctest.testmod(importlib.import_module("check_core")) == doctest.TestResults(failed=0, attempted=1)


SKIPS = """
import pytest
def test_of_data(real_library):
    pytest.skip("CXC_ECCV_DATA holds no such file")
def test_of_a_program():
    pytest.skip("no such program")
"""


@pytest.mark.parametrize(
    ("failing", "ended"), [("mypy", True), ("generate_metric_modules.py", True), ("pytest", False)]
)
def test_failing_check_sets_status_and_stops_tests(check, monkeypatch, failing, ended):
    tests = threading.Event()
    ends = []

    def run(command, **_):
        return subprocess.CompletedProcess(command, 3 if any(failing in word for word in command) else 0)

    def start(command, **_):
        def wait():
            return 3 if failing == "pytest" else -15 * tests.wait(60)

        return SimpleNamespace(wait=wait, terminate=lambda: (ends.append("tests"), tests.set()))

    monkeypatch.setattr(check.subprocess, "run", run)
    monkeypatch.setattr(check.subprocess, "Popen", start)
    monkeypatch.setattr(sys, "argv", ["check.py"])
    assert check.main() == 3
    assert ends == ["tests"] * ended


@pytest.mark.parametrize(("data", "status", "counts"), [("", 0, "2 skipped"), (".", 1, "1 failed, 1 skipped")])
def test_missing_data_fails_tests_when_data_is_given(tmp_path, monkeypatch, capsys, data, status, counts):
    """A test that lacks something else, such as a program, is still skipped."""
    (tmp_path / "test_skips.py").write_text(SKIPS)
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"))
    monkeypatch.setenv("CXC_ECCV_DATA", data)
    monkeypatch.setattr(sys, "path", [*sys.path])
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "-q", "-rs", "--import-mode=importlib"]
    ended = pytest.main([*options, "--rootdir", str(tmp_path), str(tmp_path / "test_skips.py")])
    printed = capsys.readouterr().out
    assert (ended, counts in printed) == (status, True), printed
    assert "no such program" in printed
    assert ("test_of_data was skipped: Skipped: CXC_ECCV_DATA holds no such file" in printed) == bool(status)


@pytest.fixture
def checkout(tmp_path):
    """A checkout of a few files, one of them new and one ignored."""
    files = {
        "cxc_eccv/__init__.py": "",
        "cxc_eccv/kernels/_kernels.abi3.so": "compiled",
        "cxc_eccv/studies/explain/explained_page.py": "",
        "tests/studies/test_page.py": "",
        "tests/test_registry.py": "",
        "tools/experiments/simulate_labels.py": "",
        "tools/check.py": "",
        ".gitignore": "*.so\ndata\n",
        "data/raw.json": "",
        "pyproject.toml": (ROOT / "pyproject.toml").read_text(encoding="utf-8"),
    }
    for name, text in files.items():
        (tmp_path / "checkout" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "checkout" / name).write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "--quiet", str(tmp_path / "checkout")], check=True)
    return tmp_path / "checkout"


def test_core_copy_has_tracked_files_without_studies(check, checkout, tmp_path):
    """The compiled kernels are copied although git ignores them."""
    import check_core

    check_core.copy_core(checkout, tmp_path / "core")
    there = {str(path.relative_to(tmp_path / "core")) for path in (tmp_path / "core").rglob("*") if path.is_file()}
    assert there == {
        ".gitignore",
        "cxc_eccv/__init__.py",
        "cxc_eccv/kernels/_kernels.abi3.so",
        "pyproject.toml",
        "tests/test_registry.py",
        "tools/check.py",
    }
    settings_ = tomllib.loads((tmp_path / "core" / "pyproject.toml").read_text(encoding="utf-8"))
    assert "(studies)" in settings_["tool"]["importlinter"]["contracts"][0]["layers"]
    assert "cxc_eccv.studies" not in json.dumps(settings_["tool"]["importlinter"])


def test_only_tests_of_studies_import_studies(check):
    """Their materials are importable by name."""
    import check_core

    left_out = {ROOT / name for name in check_core.LEFT_OUT}
    materials = {path.stem for path in (ROOT / "tests" / "studies" / "materials").rglob("*.py")}
    imports = re.compile(rf"cxc_eccv\.studies|^ *(?:import|from) (?:{'|'.join(materials)})\b", re.MULTILINE)
    for path in (ROOT / "tests").rglob("*.py"):
        if not left_out & {path, *path.parents} and path != Path(__file__):
            assert not imports.search(path.read_text(encoding="utf-8")), path


def test_ci_and_the_readme_run_the_same_checks():
    install = '.venv/bin/pip install --no-compile -e ".[dev]"'
    command = f"python3 -m venv --upgrade-deps .venv && {install} && .venv/bin/python tools/check.py"
    assert f"{command}\n" in (ROOT / "README.md").read_text(encoding="utf-8")
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[-1].replace("wait && ", "")
    assert script.replace("$root/", "").replace("${root}", ".").replace('"', "") == command.replace('"', "")
