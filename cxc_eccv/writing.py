"""Write files and sets of files in one step: first beside their place, then moved in by rename.

A reader never sees half a file or files of two sets. Files that this package did not write are neither moved nor
removed.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from cxc_eccv.errors import CxcEccvError, InvalidOption, WriteFailed

FORMULA = tuple("=+-@\t\r\uff1d\uff0b\uff0d\uff20")
"""A spreadsheet runs a text that begins with one of these as a formula."""

SHIELD = "'"
"""Before such a text, or one that begins with this sign, it makes the cell a text."""

PATIENCE = 60.0
"""Seconds to wait for another process that writes to the same place."""

FULL = "Free some space there, or choose another place."
NOT_ALLOWED = "Choose a place that you may write to."
MOVE_AWAY = "Move it away, or choose another output."
REMEDIES = {
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EFBIG: FULL,
    errno.EACCES: NOT_ALLOWED,
    errno.EPERM: NOT_ALLOWED,
    errno.EROFS: NOT_ALLOWED,
    errno.ENAMETOOLONG: "Choose a shorter name.",
    errno.ENOTDIR: "A file stands where a folder is needed; choose another place.",
    errno.EEXIST: "A file stands where a folder is needed; choose another place.",
    errno.EISDIR: "Name a file, not a folder.",
    errno.ENOENT: "Check the path.",
    errno.EMFILE: "Close other programs, or raise the limit of open files (ulimit -n).",
}


OF_DISKS = (errno.EIO, errno.EROFS)
"""Further errors of disks; when writing to an open file they do not name it."""

RUST = re.compile(r"\(os error (\d+)\)")
"""The end of system errors in messages of safetensors and tokenizers."""

TORCH = ("PytorchStreamWriter", "unexpected pos", "iostream error")
"""Signs that torch failed to write a file, which usually means a full disk."""


UNFINISHED = ".cxc_eccv-unfinished"
"""Folder for a new set of files that a killed process has not moved to their places."""

NEW, OLD = "new", "old"
"""In it, the files of the new set, and an empty file for each old file that is still to be removed. While ``new`` does
not exist, the old set is complete."""


@contextmanager
def replaced_folder(target: Path, names: Collection[str] = (), *, wait: float = PATIENCE) -> Iterator[Path]:
    """Give an empty folder to write to; without an error, its files then move to ``target``.

    A new folder appears by one rename. In an existing one, the new files replace the files ``names`` of the old set.
    This first finishes the moves of a killed process, and waits for another process that writes there.
    """
    refuse_unwritable(target, names)
    place = target.resolve()
    building, new = _neighbour(place, "building"), place / UNFINISHED / NEW
    with locked(target, wait), explained(target, building):
        _move_in(place)
        if building.is_symlink():
            building.unlink()
        elif building.exists():
            shutil.rmtree(building)
        building.mkdir()
        try:
            yield building
            files = list(_files_below(building))
            _refuse_obstacles(target, files)
            if not place.exists():
                building.rename(place)
                return
            for name in {*names, *files}:
                mark = new.with_name(OLD) / name
                mark.parent.mkdir(parents=True, exist_ok=True)
                mark.touch()
            building.rename(new)
            _move_in(place)
        finally:
            shutil.rmtree(building, ignore_errors=True)
            if not new.exists():
                shutil.rmtree(new.parent, ignore_errors=True)


def finish_interrupted(target: Path) -> None:
    """Finish moving a set of files that a killed process left; call it before reading the folder."""
    if (target / UNFINISHED).is_dir():
        with locked(target, PATIENCE), explained(target):
            _move_in(target.resolve())


def _move_in(target: Path) -> None:
    """Remove the old files, then move the new ones in; after an interruption, calling it again continues."""
    unfinished = target / UNFINISHED
    old, new = unfinished / OLD, unfinished / NEW
    replaced, files = list(_files_below(old)) if new.is_dir() else [], list(_files_below(new))
    _refuse_obstacles(target, [*replaced, *files])
    for name in replaced:
        (target / name).unlink(missing_ok=True)
        for folder in Path(name).parents[:-1]:
            with suppress(OSError):  # the folder is not empty
                (target / folder).rmdir()
        (old / name).unlink()
    for name in files:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (new / name).replace(target / name)
    if unfinished.is_dir():
        shutil.rmtree(unfinished)


def _files_below(folder: Path) -> Iterator[str]:
    return (path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def _refuse_obstacles(target: Path, names: Collection[str]) -> None:
    """Refuse a folder, or anything else that is not a file, in the place of a file to write."""
    for name in names:
        place = target / name
        folders = [target / folder for folder in Path(name).parents[:-1]]
        obstacle = next(
            (path for path in folders if os.path.lexists(path) and (path.is_symlink() or not path.is_dir())), None
        )
        if obstacle is not None:
            raise InvalidOption(f"{obstacle} is not a folder, but files must be written below it. {MOVE_AWAY}")
        if place.is_dir() or (place.exists() and not place.is_file()):
            what = "a folder" if place.is_dir() else "not a plain file"
            raise InvalidOption(f"{place} is {what}, but a file of this name must be written. {MOVE_AWAY}")


@contextmanager
def replaced_file(target: Path, *, wait: float = PATIENCE) -> Iterator[Path]:
    """Give a path to write to; without an error, the file then replaces ``target``."""
    refuse_unwritable(target, file=True)
    place = target.resolve()
    building = _neighbour(place, "building")
    with locked(target, wait), explained(target, building):
        # Remove what a dead process left: somebody may have put a link there.
        building.unlink(missing_ok=True)
        try:
            yield building
            building.replace(place)
        finally:
            building.unlink(missing_ok=True)


def write_texts(target: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write texts by file name to a folder, all or none; its other files are kept."""
    with replaced_folder(target, texts) as folder:
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return [target / name for name in texts]


def write_json(target: Path, content: Mapping[str, Any]) -> Path:
    """Write a JSON file in one step."""
    with replaced_file(target) as part:
        text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
        part.write_text(text + "\n", encoding="utf-8", newline="\n")
    return target


def write_rows(target: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows as CSV or JSON lines in one step; texts that a spreadsheet would run are shielded."""
    with replaced_file(target) as part:
        if target.suffix == ".jsonl":
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        else:
            table = io.StringIO()
            writer = csv.DictWriter(table, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
            text = table.getvalue()
        part.write_text(text, encoding="utf-8", newline="\n")
    return target


def _cell(value: object) -> object:
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    return shield(value) if isinstance(value, str) else value


def shield(text: str) -> str:
    """The cell that makes a spreadsheet show a text and never run it as a formula."""
    return SHIELD + text if text.startswith((*FORMULA, SHIELD)) else text


def unshield(cell: str) -> str:
    """The text of a cell that :func:`shield` made; other cells are unchanged."""
    return cell[1:] if cell[:1] == SHIELD and cell[1:].startswith((*FORMULA, SHIELD)) else cell


@contextmanager
def locked(target: Path, wait: float = 0.0) -> Iterator[None]:
    """Lock ``target`` against other processes; the lock of a process that dies is released."""
    from filelock import FileLock, Timeout  # imported here: every command would wait for it, even --help

    place = target.resolve()
    path = _neighbour(place, "lock")
    lock = FileLock(path)
    with explained(target, path):
        place.parent.mkdir(parents=True, exist_ok=True)
        # FileLock would wait for a place where no file can be made.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666))
        try:
            lock.acquire(timeout=wait)
        except Timeout:
            message = f"another process is writing {target}. Wait for it, or choose another output."
            raise WriteFailed(message) from None
    try:
        yield
    finally:
        # Removed while locked. A file that a dead process leaves blocks nobody: the system releases its lock.
        with suppress(OSError):
            path.unlink()
        lock.release()


@contextmanager
def cache_held(*places: Path) -> Iterator[bool]:
    """Lock the first of these places of a cache; gives False if nothing can be kept there."""
    with ExitStack() as stack:
        keeps = all(map(is_plain, places))
        if keeps:
            try:
                stack.enter_context(locked(places[0]))
            except WriteFailed:
                keeps = False
        yield keeps


@contextmanager
def resumable(kept: str) -> Iterator[None]:
    """Note on an interruption of the work inside (Ctrl-C) what is kept; the command line prints it."""
    try:
        yield
    except KeyboardInterrupt as interruption:
        interruption.add_note(kept)
        raise


def is_plain(path: Path) -> bool:
    """Whether a path is free, a file or a folder, and not a link (which others may put into a cache) or a pipe."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def refuse_unwritable(target: Path, names: Collection[str] = (), *, file: bool = False) -> None:
    """Refuse, before long work, a ``target`` that cannot be written, or files ``names`` in it."""
    place = target.resolve()
    with explained(target, place):
        with suppress(FileNotFoundError, NotADirectoryError):
            if stat.S_ISDIR(target.stat().st_mode) == file:
                raise InvalidOption(f"{target} is a {'folder. Name a file.' if file else 'file. Name a folder.'}")
        if not file and os.path.ismount(place):
            # Files are first written beside the target, and a rename cannot cross disks.
            raise InvalidOption(f"{target} is a mounted disk. Name a folder in it, for example {target / 'report'}.")
        with suppress(FileNotFoundError):
            _neighbour(place, "building").lstat()
        nearest = next(path for path in place.parents if path.exists())
        for path in (nearest, place) if place.exists() else (nearest,):
            if not os.access(path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    _refuse_obstacles(target, names)


def check_output(output: str | Path, suffixes: Collection[str]) -> Path:
    """The path of a file to write; refuse, before long work, one of another format or that cannot be written."""
    path = Path(output)
    if path.suffix.lower() not in suffixes:
        raise InvalidOption(f"output {path}: the name must end in {' or '.join(suffixes)}")
    if not path.parent.is_dir():
        raise InvalidOption(f"output {path}: there is no folder {path.parent}; make it first")
    refuse_unwritable(path, file=True)
    return path


@contextmanager
def explained(target: Path, building: Path | None = None) -> Iterator[None]:
    """Turn errors while ``target`` is written into one that names it and says what to do."""
    building = target.absolute() if building is None else building
    try:
        yield
    except WriteFailed as error:
        # Users know files in ``building`` as files in ``target``.
        raise WriteFailed(str(error).replace(f"{building}{os.sep}", f"{target}{os.sep}")) from None
    except CxcEccvError:
        raise
    except Exception as error:
        cause = _system_error(error)
        if cause is None or not _is_about(cause, building, target):
            raise
        raise WriteFailed(f"cannot write {target}: {cause.strerror}. {remedy_of(cause)}".rstrip()) from None


def _system_error(error: Exception) -> OSError | None:
    """The error as an OSError, also if a library reports a full disk in its own way; else None."""
    if isinstance(error, OSError) and error.errno is not None:
        return error
    cause, number = error.__cause__, RUST.search(str(error))
    if number is not None:
        cause = OSError(int(number[1]), os.strerror(int(number[1])))
    elif isinstance(error, RuntimeError) and any(sign in str(error) for sign in TORCH):
        cause = OSError(errno.ENOSPC, "torch could not write a file to its end")
    return cause if isinstance(cause, OSError) and remedy_of(cause) == FULL else None


def remedy_of(error: OSError) -> str:
    """What to do about a system error; empty if unknown."""
    return REMEDIES.get(error.errno or 0, "")


def _neighbour(target: Path, role: str) -> Path:
    return target.with_name(f".{target.name}.{role}")


def _is_about(error: OSError, building: Path, target: Path) -> bool:
    """Whether an error names a file of the target, or names none and is an error of a disk, not of a connection."""
    named = [name for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    if not named:
        return remedy_of(error) == FULL or error.errno in OF_DISKS
    return any(_concerns(name, building, target) for name in named)


def _concerns(file_name: str | bytes, building: Path, target: Path) -> bool:
    named = Path(os.fsdecode(file_name)).absolute()
    beside = named.parent == building.parent and target.name in named.name
    return beside or named in building.parents or not {building, target.resolve()}.isdisjoint((named, *named.parents))
