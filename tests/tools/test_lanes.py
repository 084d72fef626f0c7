"""Which tests pytest runs without -m, and what it says of those it leaves out."""

import re
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest
def test_plain(): pass
@pytest.mark.thorough
def test_thorough(): pass
@pytest.mark.slow
@pytest.mark.thorough
def test_slow(): pass
@pytest.mark.network
def test_of_network(): pass
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run pytest on two such files, one of them in a thorough room; gives its last lines."""
    conftest = Path(__file__).parents[1] / "conftest.py"
    for name, text in {"conftest.py": conftest.read_text(), "test_a.py": TESTS, "data/test_b.py": TESTS}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run(*arguments):
        markers = [f"markers={' '.join(('thorough', 'slow', 'network', 'gpu'))}".replace(" ", "\n")]
        options = ["-p", "no:cacheprovider", "-q", "--import-mode=importlib", "--rootdir=.", "-o", *markers]
        pytest.main([*options, *arguments])
        printed = capsys.readouterr().out
        passed = re.search(r"(\d+) passed", printed)
        left_out = re.search(r"Left out: (.*?)\. Name a file", printed)
        return int(passed[1]) if passed else 0, left_out[1] if left_out else ""

    return run


@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_fast_lane_says_what_it_leaves_out(run, workers):
    assert run(workers) == (1, "1 network, 1 slow, 1 thorough, all of data")


def test_named_file_runs_whole(run):
    assert run("-n0", "test_a.py") == (3, "1 network")
    assert run("-n0", "test_a.py::test_slow", "data/test_b.py") == (4, "1 network")


def test_named_thorough_room_runs_whole(run):
    assert run("-n0", "data") == (3, "1 network")


def test_markers_on_the_command_line_decide(run):
    assert run("-n0", "-m", "network") == (2, "")
