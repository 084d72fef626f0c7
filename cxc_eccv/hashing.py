"""Hashes of files: of their bytes, or of what a gzipped file holds."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, NamedTuple

from cxc_eccv.damage import refuse_damage


class Fingerprint(NamedTuple):
    """Identifies the content of a file, decompressed if it is gzipped."""

    sha256: str
    size: int


def hash_file(path: Path) -> str:
    """The SHA-256 hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_content(path: str | Path) -> str:
    """The SHA-256 hex digest of a file's content, decompressed if it is gzipped."""
    return fingerprint(path).sha256


def fingerprint(path: str | Path) -> Fingerprint:
    """SHA-256 and size of a file's content, computed once per process while the file does not change."""
    file = Path(path).resolve()
    status = file.stat()
    return _fingerprint(file, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@lru_cache(maxsize=1024)
def _fingerprint(path: Path, *_state: int) -> Fingerprint:
    with open_content(path) as stream:
        digest = hashlib.file_digest(stream, "sha256")  # type: ignore[arg-type] # any stream will do
        return Fingerprint(digest.hexdigest(), stream.tell())


@contextmanager
def open_content(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to read its content; a file named ``*.gz`` is decompressed."""
    with refuse_damage(path), gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        yield stream  # type: ignore[misc] # a GzipFile can do what is asked of IO
