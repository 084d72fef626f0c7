"""The file a run is read from: there and readable, or a clear word; and its hash."""

from __future__ import annotations

import hashlib
from pathlib import Path

from cxc_eccv.errors import MalformedRun

__all__ = ["refuse_unreadable", "sha256_of", "text_of"]


def refuse_unreadable(path: Path) -> None:
    """Nothing where the file can be opened.

    Raises:
        MalformedRun: it is not there, is a folder, or may not be read.

    Example:
        >>> refuse_unreadable(Path("absent.npz"))
        Traceback (most recent call last):
        cxc_eccv.errors.MalformedRun: absent.npz: no such file
    """
    if not path.is_file():
        raise MalformedRun(f"{path}: {'is a folder, not a file' if path.is_dir() else 'no such file'}")
    try:
        path.open("rb").close()
    except OSError as error:
        raise MalformedRun(f"{path}: cannot be read ({error.strerror})") from None


def sha256_of(path: Path) -> str:
    """Hex digest of the file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def text_of(path: Path) -> str:
    """The file's text.

    Raises:
        MalformedRun: it is empty or not UTF-8.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise MalformedRun(f"{path}: byte {error.start} is not UTF-8; save the rankings as plain text") from None
    if not text.strip():
        raise MalformedRun(f"{path}: is empty; it may not have been written to its end, save it again")
    return text
