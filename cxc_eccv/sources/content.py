"""The bytes of raw files: transparent gzip, hashes remembered within the process, verification."""

from __future__ import annotations

import gzip
import hashlib
import time
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from cxc_eccv.errors import HashMismatch, MalformedSource

__all__ = ["Expected", "Fingerprint", "fingerprint", "read_bytes", "sha256_of", "verify"]

BLOCK = 1 << 20

UNSETTLED = 2_000_000_000
"""Nanoseconds within which a file system may give two changes of a file the same time."""


class Fingerprint(NamedTuple):
    """What identifies a file's content, un-gzipped where it is compressed."""

    sha256: str
    size: int


class Expected(NamedTuple):
    """What a file should hold; None where it is not known."""

    sha256: str | None
    size: int | None = None


def read_bytes(path: str | Path) -> bytes:
    """The file's content; a file named ``*.gz`` is un-gzipped."""
    return b"".join(_blocks(Path(path)))


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as raw:
        stream = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
        try:
            while block := stream.read(BLOCK):
                yield block
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise MalformedSource(path, "", f"incomplete or damaged data ({error})", "a complete gzip file") from None


def fingerprint(path: str | Path) -> Fingerprint:
    """sha256 and size of the file's content; computed once per process unless the file may have changed."""
    file = Path(path)
    status = file.stat()
    # No program sets the time of the change of a file. Of one just written the next change may show the same times.
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    settled = abs(time.time_ns() - changed) > UNSETTLED
    look = 0 if settled else time.perf_counter_ns()
    return _fingerprint(file.resolve(), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, look)


@lru_cache(maxsize=1024)
def _fingerprint(path: Path, *_state: int) -> Fingerprint:
    digest, size = hashlib.sha256(), 0
    for block in _blocks(path):
        digest.update(block)
        size += len(block)
    return Fingerprint(digest.hexdigest(), size)


def sha256_of(path: str | Path) -> str:
    """Hexadecimal sha256 of the file's content, un-gzipped where it is compressed."""
    return fingerprint(path).sha256


def verify(path: Path, expected: Expected, remedy: str) -> None:
    """Raise HashMismatch unless a file holds what is expected, its size first; it ends with the remedy."""
    if expected.sha256 is None and expected.size is None:
        return
    plain_size = None if path.suffix == ".gz" else path.stat().st_size
    size = fingerprint(path).size if plain_size is None else plain_size
    if expected.size is not None and size != expected.size:
        kind = "is truncated" if size < expected.size else "is too long"
        raise HashMismatch(f"{path} {kind}: found {size:,} bytes, expected {expected.size:,}. {remedy}")
    if expected.sha256 is not None and sha256_of(path) != expected.sha256:
        raise HashMismatch(
            f"{path} is not the file the catalog describes: found sha256 {sha256_of(path)}, "
            f"expected {expected.sha256}. {remedy}"
        )
