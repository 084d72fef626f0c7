"""tools/gpu.sh, the one command for a machine with a GPU, on one without."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.studies  # it tests and measures trainers

SCRIPT = Path(__file__).parents[2] / "tools" / "gpu.sh"


def run(python, **variables):
    environment = {**os.environ, "PYTHON": str(python), **variables}
    return subprocess.run([SCRIPT], env=environment, capture_output=True, text=True, check=False, timeout=900)


@pytest.mark.slow
def test_table_is_printed_without_a_gpu():
    done = run(sys.executable, CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "torch finds no CUDA device" in done.stderr
    first, blank, head, _, *rows = done.stdout.splitlines()
    assert "no GPU; torch " in first
    assert (blank, head) == ("", "| work | figure | ratio |")
    assert [row.split()[1] for row in rows] == ["encode"] * (len(rows) - 5) + ["train"] * 3 + ["rank"] * 2
    assert all(row.count("|") == 4 for row in rows)


@pytest.mark.thorough
def test_failing_test_stops_it(tmp_path):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\ncase "$*" in *pytest*) exit 3 ;; *) echo ran ;; esac\n')
    python.chmod(0o755)
    done = run(python)
    assert (done.returncode, done.stdout) == (3, "")
