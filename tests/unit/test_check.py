"""The one command of all checks: which data it takes, how it runs the tests, and what it counts in the end."""

import doctest
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[2]


@pytest.fixture
def check(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import check

    return check


def pytest_at(path, *arguments, **environment):
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", str(path), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ | environment)


def test_the_data_beside_the_checkout_is_taken_where_none_is_named(check, tmp_path, monkeypatch):
    mirror = tmp_path / "shared" / "data"
    assert check.choose_data("", mirror) == (
        "",
        f"No real data, as CXC_ECCV_DATA is unset and {mirror} is absent: tests that read it are skipped.",
    )
    mirror.mkdir(parents=True)
    assert check.choose_data("", mirror) == (str(mirror), f"Real data: {mirror}, as CXC_ECCV_DATA is unset.")
    monkeypatch.chdir(tmp_path)
    mine = f"Real data: {tmp_path / 'mine'}, which CXC_ECCV_DATA names."
    assert check.choose_data("mine", mirror) == (str(tmp_path / "mine"), mine)
    assert check.choose_data("sample", mirror)[0] == ""
    assert ROOT.parent / "shared" / "data" == check.MIRROR


def test_every_check_gets_that_data_and_the_tests_are_counted_in_the_end(check, tmp_path, monkeypatch, capsys):
    ran = []

    def record(command, env, **_):
        ran.append((command[1:], env["CXC_ECCV_DATA"]))
        for argument in command:
            if argument.startswith("--junit-xml="):
                report = '<testsuites><testsuite tests="9" skipped="2"/></testsuites>'
                Path(argument.partition("=")[2]).write_text(report)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(check.subprocess, "run", record)
    monkeypatch.setattr(check, "MIRROR", tmp_path)
    monkeypatch.setattr(sys, "argv", ["check.py", "-n", "0", "tests/unit"])
    monkeypatch.delenv("CXC_ECCV_DATA", raising=False)
    assert check.main() == 0
    assert {data for _, data in ran} == {str(tmp_path)}
    tests = ran[-1][0]
    assert tests[:6] == ["-m", "pytest", "-n", "2", "--dist", "loadfile"]
    assert tests[-3:] == ["-n", "0", "tests/unit"]  # the last -n counts
    told = capsys.readouterr().out.splitlines()
    assert told[0] == f"Real data: {tmp_path}, as CXC_ECCV_DATA is unset."
    assert told[-1].startswith("All checks passed: ruff, format, types, layers, generators, tests.")
    assert told[-1].endswith(" 7 tests passed, 2 skipped.")


def test_the_tool_s_examples_are_right(check):
    assert doctest.testmod(check) == doctest.TestResults(failed=0, attempted=3)


def test_a_test_without_its_data_is_skipped_and_named_and_fails_where_data_is_named(tmp_path):
    path = "tests/data/test_photographs.py"
    without = pytest_at(path, CXC_ECCV_DATA="")
    assert (without.returncode, without.stdout.count("does not point at the real files")) == (0, 2), without.stdout
    lacking = pytest_at(path, CXC_ECCV_DATA=str(tmp_path))
    assert lacking.returncode == 1, lacking.stdout
    assert "2 errors" in lacking.stdout
    assert "was skipped: " in lacking.stdout


def test_no_clock_and_in_ci_no_chance_decides_over_examples():
    assert settings().deadline is None
    assert settings().derandomize == bool(os.environ.get("CI"))


def test_ci_and_the_readme_run_the_same_checks():
    command = 'python3 -m venv .venv && .venv/bin/pip install -e ".[dev]" && .venv/bin/python tools/check.py'
    assert f"{command}\n" in (ROOT / "README.md").read_text(encoding="utf-8")
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[-1]
    assert script.replace("$root/", "").replace("${root}", ".").replace('"', "") == command.replace('"', "")
