"""A set of files, or a file, is replaced whole or not at all, and what is not ours stays where it is."""

import csv
import errno
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from cxc_eccv.errors import InvalidOption, WriteFailed
from cxc_eccv.writing import (
    cache_held,
    refuse_unwritable,
    replaced_file,
    replaced_folder,
    resumable,
    unshield,
    write_rows,
    write_texts,
)

INTERRUPTED = """
import os, signal
from cxc_eccv.writing import resumable
with resumable("Finished parts are kept in run.npz.parts."):
    os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.parametrize(("rank", "told"), [("0", "\nFinished parts are kept in run.npz.parts.\n"), ("1", "")])
def test_sigterm_says_what_is_kept(rank, told):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        env={**os.environ, "RANK": rank},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, told)


def test_resumable_keeps_the_handler_of_its_caller():
    received = []
    before = signal.signal(signal.SIGTERM, lambda *_: received.append("caller"))
    try:
        with resumable("Parts are kept."):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == ["caller", "caller"]


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


def test_named_old_files_are_removed(tmp_path):
    target = tmp_path / "deep" / "data"
    write_set(target, {"a": "1", "b": "2"})
    write_set(target, {"b": "3"}, names=["a", "b"])
    assert below(target) == {"b": "3"}
    assert neighbours(target) == ["data"]


def test_error_keeps_the_old_folder_alone(tmp_path):
    target = tmp_path / "data"
    write_set(target, {"a": "old"})
    with pytest.raises(OSError, match=r"No such file.*data'"), replaced_folder(target) as folder:
        [(folder / name).write_text("new") for name in ("a", "no such folder/b")]
    assert below(target) == {"a": "old"}
    assert neighbours(target) == ["data"]


def test_two_do_not_write_the_same_folder(tmp_path):
    raises = pytest.raises(WriteFailed, match="another process is writing")
    with FileLock(tmp_path / ".data.lock"), raises, replaced_folder(tmp_path / "data", wait=0):
        pass
    write_set(tmp_path / "data", {"a": "1"})
    assert below(tmp_path / "data") == {"a": "1"}


def test_writer_waits_for_another_process(tmp_path):
    code = "import sys, time\nfrom pathlib import Path\nfrom cxc_eccv.writing import replaced_folder\n"
    code += "with replaced_folder(Path(sys.argv[1])) as folder:\n    print(flush=True)\n    time.sleep(0.5)\n"
    code += "    (folder / 'a').write_text('first')\n    (folder / 'b').write_text('first')"
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "data")], stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        write_set(tmp_path / "data", {"a": "second"})
    assert other.returncode == 0
    assert below(tmp_path / "data") == {"a": "second"}


def test_what_is_not_ours_is_kept(tmp_path):
    target = tmp_path / "data"
    theirs = {"deep/thesis.tex": "years of work", "clip.npz": "a model"}
    put(target, theirs)
    write_set(target, {"a": "1", "b": "2"})
    write_set(target, {"a": "3"})
    assert below(target) == {"a": "3", **theirs}
    assert neighbours(target) == ["data"]


def test_killed_writer_leaves_old_files_and_no_obstacle(tmp_path):
    target = tmp_path / "data"
    write_set(target, {"a": "old"})
    code = "import os, sys\nfrom pathlib import Path\nfrom cxc_eccv.writing import replaced_file, replaced_folder\n"
    code += "with replaced_folder(Path(sys.argv[1])) as folder, replaced_file(Path(sys.argv[1], 'f')) as part:\n"
    code += "    (folder / 'a').write_text('new')\n    part.write_text('new')\n    os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", code, str(target)], check=False).returncode == -signal.SIGKILL
    assert {name: text for name, text in below(target).items() if not name.startswith(".")} == {"a": "old"}
    write_set(target, {"a": "new"})
    replace_file(target / "f", "new")
    assert below(target) == {"a": "new", "f": "new"}
    assert neighbours(target) == ["data"]


@pytest.mark.parametrize("name", ["a", "deep/d"])
def test_folder_in_place_of_file_is_kept(tmp_path, name):
    target = tmp_path / "out"
    put(target / name, MINE)
    with pytest.raises(InvalidOption, match=rf"{name} is a folder.*Move it away"):
        refuse_unwritable(target, SETS[1])
    with pytest.raises(InvalidOption, match="Move it away"):
        write_set(target, SETS[1], names=())
    assert below(target / name) == MINE
    assert neighbours(target)[0] == "out"


def replace_file(target, text):
    with replaced_file(target) as part:
        part.write_text(text)


def test_a_file_is_whole_or_as_it_was(tmp_path):
    target = tmp_path / "deep" / "file"
    replace_file(target, "old")
    with pytest.raises(TypeError), replaced_file(target) as part:
        part.write_text("half") / "a file"
    assert below(target.parent) == {"file": "old"}


def test_folder_behind_a_link_is_replaced(tmp_path):
    write_set(tmp_path / "real", {"a": "old"})
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_set(tmp_path / "link", {"a": "new"})
    assert (tmp_path / "link").is_symlink()
    assert below(tmp_path / "real") == {"a": "new"}


def test_full_disk_names_the_target_and_loses_nothing(tmp_path):
    write_set(tmp_path / "data", {"a": "old"})
    replace_file(tmp_path / "file", "old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with pytest.raises(OSError, match=r"File too large: '.*/data'"):
            write_set(tmp_path / "data", {"a": "x" * 2000})
        with pytest.raises(OSError, match=r"File too large: '.*/file'"):
            replace_file(tmp_path / "file", "x" * 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert below(tmp_path / "data") == {"a": "old"}
    assert neighbours(tmp_path / "file") == ["data", "file"]


def test_error_about_another_file_stays_as_it_is(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent\.npz"), replaced_folder(tmp_path / "data"):
        (tmp_path / "absent.npz").read_bytes()
    with pytest.raises(OSError, match="not a model"), replaced_folder(tmp_path / "data"):
        raise OSError("not a model")


def test_read_only_place_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    for file in (True, False):
        with pytest.raises(PermissionError, match=str(tmp_path)):
            refuse_unwritable(tmp_path / "new", file=file)


def test_impossible_place_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="file/data"):
        refuse_unwritable(tmp_path / "file" / "data")
    with pytest.raises(InvalidOption, match=r"file is a file\. Name a folder"):
        refuse_unwritable(tmp_path / "file")
    with pytest.raises(InvalidOption, match=r"is a folder\. Name a file"):
        refuse_unwritable(tmp_path, file=True)
    with pytest.raises(OSError, match=os.strerror(errno.ENAMETOOLONG)):
        refuse_unwritable(tmp_path / ("x" * 300))
    with pytest.raises(InvalidOption, match="is a mounted disk"):
        refuse_unwritable(Path("/proc"))
    assert neighbours(tmp_path / "file") == ["file"]


def test_cache_that_cannot_be_written_keeps_nothing(tmp_path):
    with cache_held(tmp_path / "a") as keeps:
        assert keeps
        with cache_held(tmp_path / "a") as again:
            assert not again
    (tmp_path / "file").touch()
    with cache_held(tmp_path / "file" / "a") as keeps:
        assert not keeps


def test_current_folder_is_written_in_place(tmp_path, monkeypatch):
    put(tmp_path / "here", {"a": "old", "mine": "kept"})
    monkeypatch.chdir(tmp_path / "here")
    write_set(Path(), {"a": "new"})
    assert below(Path()) == {"a": "new", "mine": "kept"}


def test_cells_are_no_formulas_and_texts_return(tmp_path):
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


@pytest.mark.parametrize("change", ["own", "filled in", "written"])
def test_only_files_as_they_were_written_are_replaced(tmp_path, change):
    if change != "own":
        write_texts(tmp_path / "out", {"questions.csv": "old", "instructions.md": "x"}, recorded=True)
        write_texts(tmp_path / "out", {"page.html": "y"}, recorded=True)
    file = tmp_path / "out" / "questions.csv"
    file.parent.mkdir(exist_ok=True)
    if change != "written":
        file.write_text("mine")
    before = file.read_text()
    new = {"questions.csv": "new", "instructions.md": "z"}
    if change == "written":
        write_texts(file.parent, new, recorded=True)
        assert {name: (file.parent / name).read_text() for name in new} == new
    else:
        with pytest.raises(InvalidOption, match=r"has files that no command wrote: questions\.csv"):
            write_texts(file.parent, new, recorded=True)
        assert file.read_text() == before


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no /proc")
def test_folder_that_takes_no_file_is_refused():
    for file in (True, False):
        with pytest.raises((WriteFailed, PermissionError), match="/proc"):
            refuse_unwritable(Path("/proc/new"), file=file)
