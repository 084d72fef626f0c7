"""Builds in several processes: errors cross over, and a process that dies is explained."""

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cxc_eccv.builders.config import BuildOptions
from cxc_eccv.builders.writing.folder import build_folder
from cxc_eccv.errors import DataError, HashMismatch, MalformedSource, UnknownName
from cxc_eccv.sources.download import mirror_folder

pytestmark = pytest.mark.thorough

UNGUARDED = """
import sys
from cxc_eccv.builders.config import BuildOptions
from cxc_eccv.builders.writing.folder import build_folder
build_folder(sys.argv[1], configs=["sts"], data_dir="sample", num_proc=2, progress=False)
"""


@pytest.fixture
def mirror(tmp_path):
    return Path(shutil.copytree(mirror_folder("sample"), tmp_path / "mirror"))


def test_an_error_of_another_process_is_raised_here(tmp_path, mirror):
    with (mirror / "cxc" / "sts_test.csv").open("a") as file:
        file.write("no rating\n")
    options = BuildOptions(allow_modified=True)
    with pytest.raises(MalformedSource, match=r"sts_test\.csv"):
        build_folder(tmp_path / "data", configs=["sts"], data_dir=mirror, num_proc=2, options=options, progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["mirror"]


@pytest.mark.parametrize(
    "error",
    [
        MalformedSource("a.csv", "line 7", "score 7.2", "a number"),
        UnknownName("config", "stss", ["sts"]),
        HashMismatch("a.csv: found 7 bytes, expected 9"),
        DataError("no"),
    ],
)
def test_every_kind_of_error_survives_the_way(error):
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is type(error)
    assert (str(arrived), vars(arrived)) == (str(error), vars(error))


def test_a_script_without_its_guard_is_told(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    command = [sys.executable, str(script), str(tmp_path / "data")]
    settings = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=settings)
    assert done.returncode == 1
    assert 'outside of `if __name__ == "__main__":`' in done.stderr.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]
