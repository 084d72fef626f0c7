"""A set of files, or a file, is replaced whole or not at all, and what is not ours stays where it is."""

import csv
import errno
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pytest
from filelock import FileLock

from cxc_eccv.errors import InvalidOption, WriteFailed
from cxc_eccv.writing import (
    UNFINISHED,
    finish_interrupted,
    refuse_unwritable,
    remedy_of,
    replaced_file,
    replaced_folder,
    unshield,
    write_rows,
)

SETS = {"a": "old", "b": "old", "deep/c": "old"}, {"a": "new", "deep/d": "new", "e": "new"}
MINE = {"mine": "kept", "deep/mine": "kept"}


def below(folder):
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def neighbours(target):
    return sorted(path.name for path in target.parent.iterdir())


def put(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def write_set(target, files, names=tuple(SETS[0])):
    with replaced_folder(target, names) as folder:
        put(folder, files)


def test_of_the_old_files_that_are_named_none_remains(tmp_path):
    target = tmp_path / "deep" / "data"
    write_set(target, {"a": "1", "b": "2"})
    write_set(target, {"b": "3"}, names=["a", "b"])
    assert below(target) == {"b": "3"}
    assert neighbours(target) == ["data"]


def test_an_error_leaves_the_old_folder_and_no_rest(tmp_path):
    target = tmp_path / "data"
    write_set(target, {"a": "old"})
    with pytest.raises(WriteFailed, match="data: No such file"), replaced_folder(target) as folder:
        [(folder / name).write_text("new") for name in ("a", "no such folder/b")]
    assert below(target) == {"a": "old"}
    assert neighbours(target) == ["data"]


def test_two_do_not_write_the_same_folder(tmp_path):
    raises = pytest.raises(WriteFailed, match="another process is writing")
    with FileLock(tmp_path / ".data.lock"), raises, replaced_folder(tmp_path / "data", wait=0):
        pass
    write_set(tmp_path / "data", {"a": "1"})
    assert below(tmp_path / "data") == {"a": "1"}


def test_a_process_waits_for_one_that_is_nearly_done(tmp_path):
    code = "import sys, time\nfrom pathlib import Path\nfrom cxc_eccv.writing import replaced_folder\n"
    code += "with replaced_folder(Path(sys.argv[1])) as folder:\n    print(flush=True)\n    time.sleep(0.5)\n"
    code += "    (folder / 'a').write_text('first')\n    (folder / 'b').write_text('first')"
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "data")], stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        write_set(tmp_path / "data", {"a": "second"})
    assert other.returncode == 0
    assert below(tmp_path / "data") == {"a": "second"}


def test_what_is_not_ours_is_kept(tmp_path):
    target, theirs = tmp_path / "data", {"deep/thesis.tex": "years of work", "clip.npz": "a model"}
    put(target, theirs)
    write_set(target, {"a": "1", "b": "2"})
    write_set(target, {"a": "3"})
    assert below(target) == {"a": "3", **theirs}
    assert neighbours(target) == ["data"]


def test_a_place_where_no_file_can_be_made_is_told_at_once():
    with pytest.raises(WriteFailed, match="cannot write /proc/data"):
        write_set(Path("/proc/data"), {"a": "1"})


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


class Killed(BaseException):
    """Stands for the end of the process: nothing after it is run, the cleaning up neither."""


@pytest.fixture
def die_at(monkeypatch):
    """Let the process die before its n-th change of a file or folder from now on."""

    def arm(moment):
        changes, calls = 0, {name: getattr(os, name) for name in ("mkdir", "rename", "replace", "unlink", "rmdir")}

        def counted(call):
            def change(*arguments, **options):
                nonlocal changes
                changes += 1
                if changes > moment:  # and none after it
                    raise Killed
                return call(*arguments, **options)

            return change

        for name, call in calls.items():
            monkeypatch.setattr(os, name, counted(call))
        return lambda: [monkeypatch.setattr(os, name, call) for name, call in calls.items()]

    return arm


def killed_at_each_change(die_at, prepare, write):
    """The folder that ``prepare`` makes, after each place at which ``write`` to it can die."""
    for moment in count():
        target = prepare(moment)
        revive = die_at(moment)
        try:
            write(target)
            died = False
        except (Killed, WriteFailed):
            died = True
        finally:
            revive()
        if not died:
            assert moment > 5, "the test kills nothing"
            return
        yield target


@pytest.mark.thorough
@pytest.mark.parametrize("again", ["the same", "another", "nothing new"])
def test_a_kill_at_any_moment_leaves_one_set_and_moves_nothing_of_the_user(tmp_path, die_at, again):
    def prepare(moment):
        put(tmp_path / f"{moment}" / "out", {**SETS[0], **MINE})
        return tmp_path / f"{moment}" / "out"

    seen = set()
    for target in killed_at_each_change(die_at, prepare, lambda target: write_set(target, SETS[1])):
        found = {name: text for name, text in below(target).items() if not name.startswith(UNFINISHED)}
        assert MINE.items() <= found.items()
        ours = {name: text for name, text in found.items() if name not in MINE}
        assert ours.items() <= SETS[0].items() or ours.items() <= SETS[1].items()
        assert ours in SETS or (target / UNFINISHED).is_dir(), "an incomplete set can be told"
        if again == "the same":
            write_set(target, SETS[1])
            assert below(target) == {**MINE, **SETS[1]}
        elif again == "another":
            write_set(target, {"z": "other"}, names=["z"])
            assert below(target) in [{**MINE, **own, "z": "other"} for own in SETS]
        else:
            finish_interrupted(target)
            assert below(target) in [{**MINE, **own} for own in SETS]
        seen.add((ours == SETS[0], ours == SETS[1]))
        if again != "nothing new":
            assert neighbours(target) == ["out"]
    assert seen == {(True, False), (False, False), (False, True)}


def test_a_new_folder_appears_whole(tmp_path, die_at):
    for target in killed_at_each_change(
        die_at, lambda moment: tmp_path / f"{moment}" / "out", lambda target: write_set(target, SETS[1])
    ):
        assert not target.exists() or below(target) == SETS[1]
        write_set(target, SETS[1])
        assert neighbours(target) == ["out"]


@pytest.mark.parametrize("name", ["a", "deep/d"])
@pytest.mark.parametrize("kind", ["folder", "link to a folder", "pipe"])
def test_what_the_user_has_in_the_place_of_a_file_is_left_there(tmp_path, name, kind):
    target = tmp_path / "out"
    place = target / name
    place.parent.mkdir(parents=True)
    if kind == "pipe":
        os.mkfifo(place)
    else:
        theirs = place if kind == "folder" else tmp_path / "theirs"
        put(theirs, MINE)
        if theirs != place:
            place.symlink_to(theirs)
    with pytest.raises(InvalidOption, match=rf"{name} is (a folder|not a plain file).*Move it away"):
        refuse_unwritable(target, SETS[1])
    with pytest.raises(InvalidOption, match="Move it away"):
        write_set(target, SETS[1], names=())
    assert os.path.lexists(place)
    assert not place.is_dir() or below(place) == MINE
    assert neighbours(target)[0] == "out"


def test_no_folder_behind_a_link_is_written_to(tmp_path):
    put(tmp_path / "theirs", MINE)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "deep").symlink_to(tmp_path / "theirs")
    with pytest.raises(InvalidOption, match="deep is not a folder"):
        write_set(tmp_path / "out", SETS[1])
    assert below(tmp_path / "theirs") == MINE


def test_two_writers_that_are_killed_never_mix(tmp_path):
    put(tmp_path / "folder", {"a": "old", "b": "old", "mine": "kept"})
    replace_file(tmp_path / "file", "old")
    moments = random.Random(0)
    for _ in range(2):
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
        finish_interrupted(tmp_path / "folder")
        found = below(tmp_path / "folder")
        assert found.pop("mine") == "kept"
        assert found["a"] == found["b"]
        assert len(set((tmp_path / "file").read_text().split())) == 1
    replace_file(tmp_path / "file", "end")
    write_set(tmp_path / "folder", {"a": "end"}, names=["b"])
    assert neighbours(tmp_path / "file") == ["file", "folder"]


def replace_file(target, text):
    with replaced_file(target) as part:
        part.write_text(text)


def test_a_file_is_whole_or_as_it_was(tmp_path):
    target = tmp_path / "deep" / "file"
    replace_file(target, "old")
    with pytest.raises(TypeError), replaced_file(target) as part:
        part.write_text("half") / "a file"
    assert below(target.parent) == {"file": "old"}


def test_no_link_of_somebody_is_written_through(tmp_path):
    (tmp_path / "precious").write_text("precious")
    (tmp_path / ".file.building").symlink_to(tmp_path / "precious")
    replace_file(tmp_path / "file", "new")
    assert below(tmp_path) == {"file": "new", "precious": "precious"}


def test_a_folder_behind_a_link_is_replaced_where_it_is(tmp_path):
    write_set(tmp_path / "real", {"a": "old"})
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_set(tmp_path / "link", {"a": "new"})
    assert (tmp_path / "link").is_symlink()
    assert below(tmp_path / "real") == {"a": "new"}


def test_a_full_disk_is_told_with_its_remedy_and_nothing_is_lost(tmp_path):
    write_set(tmp_path / "data", {"a": "old"})
    replace_file(tmp_path / "file", "old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with pytest.raises(WriteFailed, match=r"cannot write .*data: File too large\. Free some space"):
            write_set(tmp_path / "data", {"a": "x" * 2000})
        with pytest.raises(WriteFailed, match=r"cannot write .*file: File too large\. Free some space"):
            replace_file(tmp_path / "file", "x" * 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert below(tmp_path / "data") == {"a": "old"}
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
        write_set(tmp_path / "data", {})


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
    with pytest.raises(InvalidOption, match="is a mounted disk"):
        refuse_unwritable(Path("/proc"))
    assert neighbours(tmp_path / "file") == ["file"]


def test_the_folder_one_works_in_is_written_to_and_stays(tmp_path, monkeypatch):
    put(tmp_path / "here", {"a": "old", "mine": "kept"})
    monkeypatch.chdir(tmp_path / "here")
    write_set(Path(), {"a": "new"})
    assert below(Path()) == {"a": "new", "mine": "kept"}


def test_errors_of_the_system_have_remedies():
    for number in (errno.ENOSPC, errno.EROFS, errno.ENAMETOOLONG, errno.EACCES):
        assert remedy_of(OSError(number, "")).endswith(".")
    assert remedy_of(OSError("no number")) == ""


def test_no_cell_is_a_formula_and_every_text_comes_back(tmp_path):
    """What a person opens in a spreadsheet is somebody else's text."""
    signs = "=+-@\t\uff1d\uff0b\uff0d\uff20"
    hostile = [f"{sign}HYPERLINK(1)" for sign in signs] + ["'tis", "''", "'=1", "'", "", 'a, "b"', "[1]", " =1"]
    rows = [{"text": text} for text in hostile]
    with write_rows(tmp_path / "rows.csv", rows).open(newline="") as file:
        cells = [row["text"] for row in csv.DictReader(file)]
    assert not [cell for cell in cells if cell.startswith(tuple(signs))]
    assert [unshield(cell) for cell in cells] == hostile
    lines = write_rows(tmp_path / "rows.jsonl", rows).read_text().splitlines()
    assert [json.loads(line) for line in lines] == rows
    assert [unshield(cell) for cell in ("'tis", "-1")] == ["'tis", "-1"], "cells written by hand"
