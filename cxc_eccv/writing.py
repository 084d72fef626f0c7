"""Write files and sets of files whole: first beside their place, then moved in by rename.

Files that this package did not write are neither moved nor removed. Errors of the system are raised as they are, with
the place that the user named.
"""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import json
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType

from cxc_eccv.errors import InvalidOption, WriteFailed
from cxc_eccv.terminal import say

FileContent = str | Callable[[Path], object]
"""The text of a file, or a function that writes it."""

FORMULA = tuple("=+-@\t\r\uff1d\uff0b\uff0d\uff20")
"""A spreadsheet runs a text that begins with one of these as a formula."""

SHIELD = "'"
"""Before such a text, or one that begins with this sign, it makes the cell a text."""

LOCK_TIMEOUT = 60.0
"""Seconds to wait for another process that writes to the same place."""

DISK_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of disks, which name no file when they come from writing to an open one."""

WRITTEN_RECORD = ".written.sha256"
"""Name of the file beside others that says what was written."""

MOVE_AWAY = "Move it away, or choose another output."


@contextmanager
def replaced_folder(target: Path, names: Collection[str] = (), *, wait: float = LOCK_TIMEOUT) -> Iterator[Path]:
    """Give an empty folder to write to; without an error, its files then move to ``target``.

    A new folder appears by one rename. In an existing one, the new files replace the files ``names`` of the old set.
    """
    refuse_unwritable(target, names)
    place = target.resolve()
    building = _neighbour(place, "building")
    with locked(target, wait):
        shutil.rmtree(building, ignore_errors=True)  # what a killed process left
        try:
            with name_in_errors(target, building):
                building.mkdir()
                yield building
                files = list(_files_below(building))
                _refuse_obstacles(target, files)
                if not place.exists():
                    building.rename(place)
                    return
                for name in {*names} - {*files}:
                    (place / name).unlink(missing_ok=True)
                    for folder in Path(name).parents[:-1]:
                        with suppress(OSError):  # it is not empty
                            (place / folder).rmdir()
                for name in files:
                    (place / name).parent.mkdir(parents=True, exist_ok=True)
                    (building / name).replace(place / name)
        finally:
            shutil.rmtree(building, ignore_errors=True)


def _files_below(folder: Path) -> Iterator[str]:
    return (path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def _refuse_obstacles(target: Path, names: Collection[str]) -> None:
    """Refuse a folder in the place of a file to write, or a file in that of a folder."""
    for name in names:
        for folder in Path(name).parents[:-1]:
            if (target / folder).is_file():
                raise InvalidOption(f"{target / folder} is a file, but files must be written below it. {MOVE_AWAY}")
        if (target / name).is_dir():
            raise InvalidOption(f"{target / name} is a folder, but a file of this name must be written. {MOVE_AWAY}")


@contextmanager
def replaced_file(target: Path, *, wait: float = LOCK_TIMEOUT) -> Iterator[Path]:
    """Give a path to write to; without an error, the file then replaces ``target``."""
    refuse_unwritable(target, file=True)
    place = target.resolve()
    building = _neighbour(place, "building")
    with locked(target, wait):
        try:
            with name_in_errors(target, building):
                yield building
                building.replace(place)
        finally:
            building.unlink(missing_ok=True)


@contextmanager
def name_in_errors(target: Path, building: Path) -> Iterator[None]:
    """Name ``target`` in errors of the system about what is built for it, or written to it without a name."""
    try:
        yield
    except OSError as error:
        named = error.filename
        of_building = Path(named).is_relative_to(building) if isinstance(named, str) else error.errno in DISK_FAULTS
        if of_building:
            raise OSError(error.errno, error.strerror, str(target)) from None
        raise


@contextmanager
def recorded_folder(target: Path, names: Collection[str]) -> Iterator[Path]:
    """As :func:`replaced_folder`, but refuse to replace files that are not as an earlier call wrote them.

    The hidden file :data:`WRITTEN_RECORD` beside them, in the format of ``sha256sum``, names what was written.
    """
    record = target / WRITTEN_RECORD
    lines = record.read_text(encoding="utf-8", errors="replace").splitlines() if record.is_file() else []
    present = [name for name in names if (target / name).is_file()]
    written = [name for name in present if _describe_file(target, name) in lines]
    refuse_foreign(target, present, written, "command", f"Move them away, or name another folder than {target}")
    with replaced_folder(target, names) as folder:
        yield folder
        kept = [line for line in lines if line.partition("  ")[2] not in names]
        text = "\n".join([*kept, *(_describe_file(folder, name) for name in names if (folder / name).is_file())]) + "\n"
        (folder / WRITTEN_RECORD).write_text(text, encoding="utf-8", newline="\n")


def _describe_file(folder: Path, name: str) -> str:
    return f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}"


def write_texts(target: Path, texts: Mapping[str, FileContent], *, recorded: bool = False) -> list[Path]:
    """Write texts by file name to a folder, all or none; its other files are kept, and if ``recorded`` changed ones.

    In place of a text stands a function that writes the file.
    """
    with (recorded_folder if recorded else replaced_folder)(target, texts) as folder:
        for name, text in texts.items():
            if callable(text):
                text(folder / name)
            else:
                (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return [target / name for name in texts]


def write_json(target: Path, content: Mapping[str, object]) -> Path:
    """Write a JSON file in one step."""
    with replaced_file(target) as part:
        text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
        part.write_text(text + "\n", encoding="utf-8", newline="\n")
    return target


def write_rows(target: Path, rows: Sequence[Mapping[str, object]]) -> Path:
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


def read_whole_lines(path: Path) -> list[bytes]:
    """The lines of a file of JSON lines, none without a file; a last one that a killed process cut is left out."""
    content = path.read_bytes() if path.is_file() else b""
    return content[: _end_of_lines(content)].splitlines()


def append_lines(path: Path, lines: Iterable[str]) -> None:
    r"""Append JSON lines after the last complete one, in one write; the caller holds the file's lock.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "lines.jsonl"
        ...     _ = path.write_text('[1]\n[2')
        ...     append_lines(path, ["[3]"])
        ...     read_whole_lines(path)
        [b'[1]', b'[3]']
    """
    content = path.read_bytes() if path.is_file() else b""
    end = _end_of_lines(content)
    text = "".join(f"{line}\n" for line in lines).encode()
    with name_in_errors(path, path), path.open("r+b" if content else "wb") as file:
        file.truncate(end)
        file.seek(end)
        file.write(text if content[:end].endswith(b"\n") or not end else b"\n" + text)


def _end_of_lines(content: bytes) -> int:
    """The length of the complete lines; an editor may leave the last one without a line feed."""
    end = content.rfind(b"\n") + 1
    try:
        json.loads(content[end:])
    except ValueError:
        return end
    return len(content)


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
    place.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(_neighbour(place, "lock"))
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
            _neighbour(place, "lock").unlink()
        lock.release()


@contextmanager
def cache_held(place: Path) -> Iterator[bool]:
    """Lock a place of a cache; gives False if nothing can be kept there."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(place))
            keeps = True
        except (OSError, WriteFailed):
            keeps = False
        yield keeps


@contextmanager
def resumable(kept: str) -> Iterator[None]:
    """Say on an interruption of the work inside what is kept.

    Ctrl-C gets a note, which the command line prints. On SIGTERM, which torchrun and schedulers send, the first process
    prints the sentence and dies as it would have; only the main thread of Python can be told of it.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM) if in_main_thread else None

    def tell(number: int, _frame: FrameType | None) -> None:
        if os.environ.get("RANK", "0") == "0":
            say(f"\n{kept}", err=True)
        signal.signal(number, before)
        os.kill(os.getpid(), number)

    if before is not None:  # None is a handler that was not set from Python
        signal.signal(signal.SIGTERM, tell)
    try:
        yield
    except KeyboardInterrupt as interruption:
        interruption.add_note(kept)
        raise
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def refuse_unwritable(target: Path, names: Collection[str] = (), *, file: bool = False) -> None:
    """Refuse, before long work, a ``target`` that cannot be written, or files ``names`` in it."""
    place = target.resolve()
    if place.exists() and place.is_dir() == file:
        raise InvalidOption(f"{target} is a {'folder. Name a file.' if file else 'file. Name a folder.'}")
    if not file and os.path.ismount(place):
        # Files are first written beside the target, and a rename cannot cross disks.
        raise InvalidOption(f"{target} is a mounted disk. Name a folder in it, for example {target / 'report'}.")
    nearest = next(path for path in place.parents if path.exists())
    if not nearest.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(target))
    for path in (nearest, place) if place.exists() else (nearest,):
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        if path.is_dir():
            _try_to_write(path, target)
    _refuse_obstacles(target, names)


def _try_to_write(folder: Path, target: Path) -> None:
    """Raise WriteFailed unless a file can be made in a folder: permissions do not tell, as of ``/proc``."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        reason = f"no file can be made in {folder} ({error.strerror})"
        raise WriteFailed(f"{target} cannot be written: {reason}. Choose another output.") from None


def refuse_foreign(target: Path, names: Iterable[str], written: Collection[str], writer: str, remedy: str) -> None:
    """Refuse to replace those of the files ``names`` in a folder that are not among ``written``, by this package."""
    foreign = sorted(name for name in names if name not in written)
    if foreign:
        shown = ", ".join(foreign[:3]) + (" and others" if len(foreign) > 3 else "")
        raise InvalidOption(f"{target} has files that no {writer} wrote: {shown}. {remedy}.")


def check_output(output: str | Path, suffixes: Collection[str]) -> Path:
    """The path of a file to write; refuse, before long work, one of another format or that cannot be written."""
    path = Path(output)
    if path.suffix.lower() not in suffixes:
        raise InvalidOption(f"output {path}: the name must end in {' or '.join(suffixes)}")
    if not path.parent.is_dir():
        raise InvalidOption(f"output {path}: there is no folder {path.parent}; make it first")
    refuse_unwritable(path, file=True)
    return path


def _neighbour(target: Path, role: str) -> Path:
    return target.with_name(f".{target.name}.{role}")
