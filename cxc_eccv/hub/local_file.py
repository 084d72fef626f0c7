"""A file to upload, with its hashes; refused if it is a link, changes meanwhile, or holds the token."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from cxc_eccv.errors import InvalidOption

__all__ = ["LocalFile", "local_file", "local_text"]

BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file to upload.

    Attributes:
        path: place in the repository, with slashes.
        source: the file, or its content.
        size: bytes.
        sha256: of the content.
        git_oid: git's sha1 of the content.
        modified: time of its last change in nanoseconds; 0 where there is no file.
    """

    path: str
    source: Path | bytes
    size: int
    sha256: str
    git_oid: str
    modified: int = 0

    def require_unchanged(self) -> None:
        """Make sure that the file is the one that was looked at.

        Raises:
            InvalidOption: it has changed, or is gone.
        """
        if isinstance(self.source, Path):
            now = _status(self.source, self.path)
            if (now.st_size, now.st_mtime_ns) != (self.size, self.modified):
                raise InvalidOption(f"{self.source} changed while it was being uploaded. Run the command again.")


def local_file(path: Path, name: str, token: str | None = None) -> LocalFile:
    """A plain file of this machine.

    Args:
        path: the file.
        name: its place in the repository.
        token: refused in it.

    Raises:
        InvalidOption: a symbolic link or a special file, a name the Hub cannot keep, or one that holds the token.

    Example:
        >>> local_file(Path(__file__), "a.py").size == Path(__file__).stat().st_size
        True
    """
    status = _status(path, name)
    with path.open("rb") as stream:
        return _digested(name, path, stream, status, token)


def local_text(path: str, text: str, token: str | None = None) -> LocalFile:
    """A file that exists only as text.

    Raises:
        InvalidOption: it holds the token.

    Example:
        >>> local_text("a.txt", "").git_oid
        'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
    """
    content = text.encode()
    return _digested(path, content, BytesIO(content), None, token)


def _status(path: Path, name: str) -> os.stat_result:
    try:
        status = path.lstat()
    except FileNotFoundError:
        raise InvalidOption(f"{path} is gone. Run the command again.") from None
    if stat.S_ISLNK(status.st_mode):
        raise InvalidOption(
            f"{path} is a symbolic link to {path.readlink()}; an upload holds nothing from outside its folder. "
            "Put the file itself there, or remove the link."
        )
    if not stat.S_ISREG(status.st_mode):
        raise InvalidOption(f"{path} is no plain file. Remove it from the folder.")
    if any(ord(letter) < 32 or letter == "\\" for letter in name):
        raise InvalidOption(f"{path!r} holds a backslash or a control character in its name. Rename it.")
    return status


def _digested(
    name: str, source: Path | bytes, stream: BinaryIO, status: os.stat_result | None, token: str | None
) -> LocalFile:
    size = len(source) if isinstance(source, bytes) else source.stat().st_size
    sha256, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    for block in _refusing(token, name, iter(lambda: stream.read(BLOCK), b"")):
        sha256.update(block)
        git.update(block)
    modified = status.st_mtime_ns if status else 0
    return LocalFile(name, source, size, sha256.hexdigest(), git.hexdigest(), modified)


def _refusing(token: str | None, name: str, blocks: Iterable[bytes]) -> Iterator[bytes]:
    secret, tail = (token or "").encode(), b""
    for block in blocks:
        if secret and secret in tail + block:
            raise InvalidOption(f"{name} holds your access token. Remove it there, and revoke the token.")
        tail = (tail + block)[-len(secret) :] if secret else b""
        yield block
