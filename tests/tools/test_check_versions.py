"""The check of every Python: which requirements it holds at their oldest, and what it says of what does not resolve."""

import doctest
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]


@pytest.fixture
def check(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import check_versions

    return check_versions


def test_examples_are_right(check):
    assert doctest.testmod(check) == doctest.TestResults(failed=0, attempted=4)


def test_every_requirement_has_a_lower_bound(check):
    """So that the lane of the oldest versions holds each."""
    requirements = list(check.list_requirements())
    pinned = [Requirement(line) for line in check.pin_oldest(requirements)]
    assert [one.name for one in pinned] == [Requirement(line).name for line in requirements]


def test_fast_lane_needs_no_torch(check):
    names = {Requirement(line).name for line in check.list_requirements(["test"])}
    assert not names & {"torch", "transformers", "accelerate", "sentence-transformers", "mteb", "torchmetrics"}
    assert {"pytest", "hypothesis", "krippendorff", "evaluate"} <= names


def test_python_that_does_not_start_is_passed_over(check, monkeypatch, tmp_path):
    """As the shims of pyenv for versions that are not chosen."""
    broken = tmp_path / "python3.11"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert check.find_python("3.11") is None
    there = tmp_path / ".pyenv" / "versions" / "3.11.7" / "bin" / "python3.11"
    there.parent.mkdir(parents=True)
    there.symlink_to(sys.executable)
    assert check.find_python("3.11") == str(there)


def test_extras_without_wheels_are_named(check, monkeypatch):
    def run(command, **_):
        wanted = Path(command[-1]).read_text(encoding="utf-8")
        error = "WARNING: slow\nERROR: no torch for this Python\n" if "torch>=" in wanted else ""
        return subprocess.CompletedProcess(command, bool(error), "", error)

    monkeypatch.setattr(check.subprocess, "run", run)
    resolved, sentence = check.explain_wheels("python", "3.99")
    assert not resolved
    there, missing = sentence.split("; not ")
    assert "the package and" in there
    assert "metrics" in there
    assert "train (ERROR: no torch for this Python)" in missing
