"""A folder, or a file, is replaced as a whole or not at all."""

import csv
import errno
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

from cxc_eccv.errors import InvalidOption, WriteFailed
from cxc_eccv.sources.reading import read_rows
from cxc_eccv.writing import refuse_unwritable, remedy_of, replaced_file, replaced_folder, write_rows

DIES = """
import os, signal, sys
from pathlib import Path
from cxc_eccv import writing
if sys.argv[2] == "between renames":
    def die(source, target):
        os.kill(os.getpid(), signal.SIGKILL)
    rename = Path.rename
    Path.rename = lambda self, to: die(self, to) if self.name.endswith(".building") else rename(self, to)
with writing.replaced_folder(Path(sys.argv[1])) as folder:
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
    with pytest.raises(WriteFailed, match="data: No such file"):
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
    with FileLock(tmp_path / ".data.lock"), pytest.raises(WriteFailed, match="another process is writing"):
        run_in_other_process(tmp_path / "data")
    replace(tmp_path / "data", a="1")
    assert texts(tmp_path / "data") == {"a": "1"}


def run_in_other_process(target):
    code = "from pathlib import Path\nfrom cxc_eccv.writing import replaced_folder\n"
    code += f"with replaced_folder(Path({str(target)!r}), wait=0): pass"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise WriteFailed(done.stderr.splitlines()[-1])


def test_a_process_waits_for_one_that_is_nearly_done(tmp_path):
    code = "import sys, time\nfrom pathlib import Path\nfrom cxc_eccv.writing import replaced_folder\n"
    code += "with replaced_folder(Path(sys.argv[1])) as folder:\n    print(flush=True)\n    time.sleep(0.5)\n"
    code += "    (folder / 'a').write_text('first')\n    (folder / 'b').write_text('first')"
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "data")], stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        replace(tmp_path / "data", a="second")
    assert other.returncode == 0
    assert texts(tmp_path / "data") == {"a": "second"}


def test_what_is_not_ours_is_kept(tmp_path):
    target = tmp_path / "data"
    (target / "deep").mkdir(parents=True)
    (target / "deep" / "thesis.tex").write_text("years of work")
    (target / "clip.npz").write_text("a model")
    with replaced_folder(target, ["a", "b"]) as folder:
        (folder / "a").write_text("1")
        (folder / "b").write_text("2")
    with replaced_folder(target, ["a", "b"]) as folder:
        (folder / "a").write_text("3")
    assert {path.name for path in target.iterdir()} == {"a", "clip.npz", "deep"}
    assert (target / "a").read_text() == "3"
    assert (target / "deep" / "thesis.tex").read_text() == "years of work"
    assert neighbours(target) == ["data"]


def test_what_is_not_ours_goes_back_after_a_kill_between_swap_and_its_move(tmp_path):
    target, previous = tmp_path / "data", tmp_path / ".data.previous"
    replace(target, a="new")
    replace(previous, a="old", thesis="years of work")
    with pytest.raises(ZeroDivisionError), replaced_folder(target, ["a"]):
        raise ZeroDivisionError
    assert texts(target) == {"a": "new", "thesis": "years of work"}
    assert neighbours(target) == ["data"]


def test_a_place_where_no_file_can_be_made_is_told_at_once():
    with pytest.raises(WriteFailed, match="cannot write /proc/data"):
        replace(Path("/proc/data"), a="1")


def test_what_cannot_go_back_is_left_where_it_is_and_told(tmp_path):
    target, previous = tmp_path / "data", tmp_path / ".data.previous"
    replace(target, thesis="later work")
    replace(previous, thesis="years of work")
    with pytest.raises(WriteFailed, match="thesis is to go back to"), replaced_folder(target, ["a"]):
        pass
    assert texts(target) == {"thesis": "later work"}
    assert texts(previous) == {"thesis": "years of work"}


WRITES = """
import sys
from itertools import count
from pathlib import Path
from cxc_eccv.writing import replaced_file, replaced_folder
target, name = Path(sys.argv[1]), sys.argv[2]
print(flush=True)
for number in count():
    with replaced_folder(target / "folder", ["a", "b"]) as folder:
        for file in ("a", "b"):
            (folder / file).write_text(f"{name}{number}" * 1000)
    with replaced_file(target / "file") as part:
        part.write_text(f"{name}{number} " * 1000)
"""


def test_kills_at_any_moment_and_two_writers_never_mix(tmp_path):
    replace(tmp_path / "folder", a="old", b="old", mine="kept")
    replace_file(tmp_path / "file", "old")
    moments = random.Random(0)
    for _ in range(8):
        writers = [
            subprocess.Popen([sys.executable, "-c", WRITES, str(tmp_path), name], stdout=subprocess.PIPE)
            for name in "xy"
        ]
        for writer in writers:
            writer.stdout.readline()
        time.sleep(moments.uniform(0.05, 0.2))
        for writer in writers:
            writer.kill()
            assert writer.wait() == -signal.SIGKILL
            writer.stdout.close()
        with pytest.raises(ZeroDivisionError), replaced_folder(tmp_path / "folder", ["a", "b"]):
            raise ZeroDivisionError
        found = texts(tmp_path / "folder")
        assert found.pop("mine") == "kept"
        assert found["a"] == found["b"]
        assert len(set((tmp_path / "file").read_text().split())) == 1
    replace_file(tmp_path / "file", "end")
    assert neighbours(tmp_path / "file") == ["file", "folder"]


def test_a_folder_that_another_process_swaps_at_this_moment_is_not_denied(tmp_path, monkeypatch):
    replace(tmp_path / "folder", a="old")
    away, may = iter([False, False]), os.access
    monkeypatch.setattr(os, "access", lambda path, mode: may(path, mode) and next(away, True))
    replace(tmp_path / "folder", a="new")
    assert texts(tmp_path / "folder") == {"a": "new"}


def replace_file(target, text):
    with replaced_file(target) as part:
        part.write_text(text)


def test_a_file_is_whole_or_as_it_was(tmp_path):
    target = tmp_path / "deep" / "file"
    replace_file(target, "old")
    with pytest.raises(TypeError), replaced_file(target) as part:
        part.write_text("half") / "a file"
    assert texts(target.parent) == {"file": "old"}


def test_no_link_of_somebody_is_written_through(tmp_path):
    (tmp_path / "precious").write_text("precious")
    (tmp_path / ".file.building").symlink_to(tmp_path / "precious")
    replace_file(tmp_path / "file", "new")
    assert texts(tmp_path) == {"file": "new", "precious": "precious"}


def test_a_folder_behind_a_link_is_replaced_where_it_is(tmp_path):
    replace(tmp_path / "real", a="old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    replace(tmp_path / "link", a="new")
    assert (tmp_path / "link").is_symlink()
    assert texts(tmp_path / "real") == {"a": "new"}


def test_a_full_disk_is_told_with_its_remedy_and_nothing_is_lost(tmp_path):
    replace(tmp_path / "data", a="old")
    replace_file(tmp_path / "file", "old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with pytest.raises(WriteFailed, match=r"cannot write .*data: File too large\. Free some space"):
            replace(tmp_path / "data", a="x" * 2000)
        with pytest.raises(WriteFailed, match=r"cannot write .*file: File too large\. Free some space"):
            replace_file(tmp_path / "file", "x" * 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert texts(tmp_path / "data") == {"a": "old"}
    assert neighbours(tmp_path / "file") == ["data", "file"]


def test_an_error_about_another_file_is_not_about_the_target(tmp_path):
    with pytest.raises(FileNotFoundError), replaced_folder(tmp_path / "data"):
        (tmp_path / "absent.npz").read_bytes()
    with pytest.raises(OSError, match="not a model"), replaced_folder(tmp_path / "data"):
        raise OSError("not a model")


def test_a_place_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    opened = os.open

    def refuse(path, *arguments, **options):
        """What the system does to all but root."""
        if Path(path).parent == tmp_path:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(WriteFailed, match=r"data: Permission denied\. Choose a place that you may write"):
        replace(tmp_path / "data")


def test_a_file_system_that_is_read_only_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    for file in (True, False):
        with pytest.raises(WriteFailed, match="Choose a place that you may write"):
            refuse_unwritable(tmp_path / "new", file=file)


def test_a_place_that_cannot_be_is_told_before_the_work(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(WriteFailed, match=r"Not a directory\. A file stands where a folder is needed"):
        refuse_unwritable(tmp_path / "file" / "data")
    with pytest.raises(InvalidOption, match=r"file is a file\. Name a folder"):
        refuse_unwritable(tmp_path / "file")
    with pytest.raises(InvalidOption, match=r"is a folder\. Name a file"):
        refuse_unwritable(tmp_path, file=True)
    with pytest.raises(WriteFailed, match=r"File name too long\. Choose a shorter name"):
        refuse_unwritable(tmp_path / ("x" * 250))
    with pytest.raises(InvalidOption, match="a disk is mounted there"):
        refuse_unwritable(Path("/proc"))
    assert neighbours(tmp_path / "file") == ["file"]


def test_the_folder_one_works_in_is_not_swapped_from_under_one(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for target in (Path(), Path("..")):
        with pytest.raises(InvalidOption, match="the folder you work in"):
            replace(target, a="1")
    replace(Path("report"), a="1")


def test_errors_of_the_system_have_remedies():
    for number in (errno.ENOSPC, errno.EROFS, errno.ENAMETOOLONG, errno.EACCES):
        assert remedy_of(OSError(number, "")).endswith(".")
    assert remedy_of(OSError("no number")) == ""


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_rows_come_back_as_they_were_and_no_cell_is_a_formula(tmp_path, ending):
    """What a person opens in a spreadsheet is somebody else's text."""
    signs = "=+-@\t\uff1d\uff0b\uff0d\uff20"
    hostile = [f"{sign}HYPERLINK(1)" for sign in signs] + ["'tis", "''", "'=1", "'", "", 'a, "b"', "[1]", " =1"]
    path = write_rows(tmp_path / f"rows{ending}", [{"text": text} for text in hostile])
    assert [row["text"] for _, row in read_rows(path, ["text"])] == hostile
    if ending == ".csv":
        cells = [row["text"] for row in csv.DictReader(path.read_text().splitlines())]
        assert not [cell for cell in cells if cell.startswith(tuple(signs))]


def test_what_was_written_by_hand_is_read_as_it_stands(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("text\n'tis\n-1\n")
    assert [row["text"] for _, row in read_rows(path, ["text"])] == ["'tis", "-1"]
