"""A folder that appears at once: written beside its place, swapped in by rename."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from cxc_eccv.errors import DataError, InvalidOption

__all__ = ["replaced_folder"]


@contextmanager
def replaced_folder(target: Path) -> Iterator[Path]:
    """Give an empty folder to write to; on leaving without an error it takes the place of ``target``.

    The folder is a hidden neighbour of ``target``, so the swap is two renames on one file system. A process that
    dies at any point leaves ``target`` as it was; the next call removes what the dead one left, and puts back the
    old folder where it died between the two renames.

    Args:
        target: the folder to create or replace, whatever it holds.

    Yields:
        The empty folder to write to.

    Raises:
        DataError: another process is writing the same target.
        InvalidOption: the parent folder cannot be written.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "data"
        >>> with replaced_folder(target) as folder:
        ...     _ = (folder / "a.txt").write_text("new")
        >>> (target / "a.txt").read_text()
        'new'
    """
    target = target.resolve()
    building, previous, lock_path = (_neighbour(target, role) for role in ("building", "previous", "lock"))
    with _locked(target, lock_path):
        _recover(target, building, previous)
        building.mkdir()
        try:
            yield building
            _swap(target, building, previous)
        finally:
            shutil.rmtree(building, ignore_errors=True)


def _neighbour(target: Path, role: str) -> Path:
    return target.with_name(f".{target.name}.{role}")


@contextmanager
def _locked(target: Path, lock_path: Path) -> Iterator[None]:
    lock = FileLock(lock_path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        message = f"another process is building {target} right now. Wait for it, or choose another output folder."
        raise DataError(message) from None
    except OSError as error:
        raise InvalidOption(f"cannot write beside {target}: {error}. Choose an output folder you may write.") from None
    try:
        yield
    finally:
        # Removed while held: a file that a dead process leaves blocks nobody, for the system frees its lock.
        with suppress(OSError):
            lock_path.unlink()
        lock.release()


def _recover(target: Path, building: Path, previous: Path) -> None:
    if building.exists():
        shutil.rmtree(building)
    if not previous.exists():
        return
    if target.exists():
        shutil.rmtree(previous)
    else:
        previous.rename(target)


def _swap(target: Path, building: Path, previous: Path) -> None:
    if not target.exists():
        building.rename(target)
        return
    target.rename(previous)
    try:
        building.rename(target)
    except OSError:
        previous.rename(target)
        raise
    shutil.rmtree(previous)
