"""A folder is replaced as a whole or not at all."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from cxc_eccv.builders.atomic_folder import replaced_folder
from cxc_eccv.errors import DataError, InvalidOption

DIES = """
import os, signal, sys
from pathlib import Path
from cxc_eccv.builders import atomic_folder
if sys.argv[2] == "between renames":
    def die(source, target):
        os.kill(os.getpid(), signal.SIGKILL)
    rename = Path.rename
    Path.rename = lambda self, to: die(self, to) if self.name.endswith(".building") else rename(self, to)
with atomic_folder.replaced_folder(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("new")
    if sys.argv[2] == "half way":
        os.kill(os.getpid(), signal.SIGKILL)
"""


def texts(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def neighbours(target):
    return sorted(path.name for path in target.parent.iterdir())


def replace(target, **files):
    with replaced_folder(target) as folder:
        for name, text in files.items():
            (folder / name).write_text(text)


def test_nothing_of_the_old_folder_remains(tmp_path):
    target = tmp_path / "deep" / "data"
    replace(target, a="1", b="2")
    replace(target, b="3")
    assert texts(target) == {"b": "3"}
    assert neighbours(target) == ["data"]


def test_an_error_leaves_the_old_folder_and_no_rest(tmp_path):
    target = tmp_path / "data"
    replace(target, a="old")
    with pytest.raises(FileNotFoundError):
        replace(target, **{"a": "new", "no such folder/b": "new"})
    assert texts(target) == {"a": "old"}
    assert neighbours(target) == ["data"]


@pytest.mark.parametrize("moment", ["half way", "between renames"])
def test_a_killed_process_loses_nothing_and_the_next_one_cleans_up(tmp_path, moment):
    target = tmp_path / "data"
    replace(target, a="old")
    died = subprocess.run([sys.executable, "-c", DIES, str(target), moment], check=False)
    assert died.returncode == -signal.SIGKILL
    assert ".data.building" in neighbours(target)
    survivor = target if moment == "half way" else tmp_path / ".data.previous"
    assert texts(survivor) == {"a": "old"}
    with pytest.raises(ZeroDivisionError), replaced_folder(target):
        raise ZeroDivisionError
    assert texts(target) == {"a": "old"}
    assert neighbours(target) == ["data"]


def test_two_processes_do_not_write_the_same_folder(tmp_path):
    with FileLock(tmp_path / ".data.lock"), pytest.raises(DataError, match="another process is building"):
        run_in_other_process(tmp_path / "data")
    replace(tmp_path / "data", a="1")
    assert texts(tmp_path / "data") == {"a": "1"}


def run_in_other_process(target):
    code = "from pathlib import Path\nfrom cxc_eccv.builders.atomic_folder import replaced_folder\n"
    code += f"with replaced_folder(Path({str(target)!r})): pass"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise DataError(done.stderr.splitlines()[-1])


def test_a_parent_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    opened = os.open

    def refuse(path, *arguments, **options):
        """What the system does to all but root."""
        if Path(path).parent == tmp_path:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    with (
        pytest.raises(InvalidOption, match=r"cannot write beside .*Permission denied"),
        replaced_folder(tmp_path / "a"),
    ):
        pass


def test_a_parent_that_is_a_file_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InvalidOption, match="cannot write beside"), replaced_folder(tmp_path / "file" / "data"):
        pass
