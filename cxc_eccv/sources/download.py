"""Downloading into the cache: one process at a time, retried, resumed, put in place atomically.

While a file is under way its bytes lie in ``<file>.part``; the file itself appears only when it is complete and
verified. A part of a file with a known hash outlives a broken connection or a kill, and the next try asks the server
for the rest (HTTP Range). Every other part is deleted: when the hash is unknown, when the server refuses, and when the
hash turns out wrong.
"""

from __future__ import annotations

import lzma
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from filelock import FileLock

from cxc_eccv.errors import DownloadFailed, HashMismatch, MalformedSource
from cxc_eccv.sources.content import Expected, verify
from cxc_eccv.sources.own_file import open_own
from cxc_eccv.sources.pins import expected_of, pin, record_of
from cxc_eccv.sources.records import Archive, Entry
from cxc_eccv.sources.transfer import receive, refuse_larger

__all__ = ["download"]


def download(entry: Entry, archive: Archive | None, cache: Path, *, progress: bool = True) -> Path:
    """Bring a file into the cache, unless another process has done so meanwhile.

    Args:
        entry: the file; it has an address.
        archive: the zip archive it is a member of, or None.
        cache: the cache folder; made when missing.
        progress: show a bar on standard error.

    Returns:
        The verified file in the cache.

    Raises:
        DownloadFailed: the address does not deliver, the archive is damaged, or the cache cannot be written.
        HashMismatch: the address delivers something else.
        MalformedSource: the archive lacks the member.
    """
    try:
        if archive is None:
            return _ensure(entry, cache, partial(_deliver, entry, progress))
        return _ensure(entry, cache, partial(_extract, entry, archive, cache, progress))
    except OSError as error:
        raise DownloadFailed(
            f"the download cache {cache} is not usable ({error}); name another one in CXC_ECCV_CACHE"
        ) from error


def _ensure(item: Entry | Archive, cache: Path, produce: Callable[[Path, Expected], None]) -> Path:
    """The verified file in the cache; ``produce`` fills and verifies the part where the file is missing."""
    target = cache / item.path
    locks = cache / ".locks"
    for folder in (locks, target.parent):
        folder.mkdir(parents=True, exist_ok=True)
    with FileLock(locks / (item.path.replace("/", "--") + ".lock")):
        expected = expected_of(item, target)
        if target.is_file():
            verify(target, expected, f"Delete {target} to download it again.")
        else:
            part = target.with_name(f"{target.name}.part")
            produce(part, expected)
            part.replace(target)
        pin(item, target)
    return target


def _deliver(item: Entry | Archive, progress: bool, part: Path, expected: Expected) -> None:
    if item.url is None:
        raise DownloadFailed("it has no official address")
    resumable = item.sha256 is not None
    resumed = resumable and part.is_file()
    receive(item.url, part, size=item.size, resumable=resumable, progress=progress)
    try:
        _verify_part(part, expected, f"{item.url} delivered it; it has been deleted.")
    except HashMismatch:
        if not resumed:
            raise
        # The old part may stem from another version of the file: only a fresh copy tells.
        receive(item.url, part, size=item.size, resumable=resumable, progress=progress)
        _verify_part(part, expected, f"{item.url} delivered it; it has been deleted.")


def _extract(entry: Entry, archive: Archive, cache: Path, progress: bool, part: Path, expected: Expected) -> None:
    bundle = _ensure(archive, cache, partial(_deliver, archive, progress))
    try:
        with open_own(part) as sink:
            for block in _member(bundle, entry.member or ""):
                refuse_larger(sink.tell() + len(block), expected.size)
                sink.write(block)
            os.fsync(sink.fileno())
    except Exception:
        part.unlink(missing_ok=True)
        raise
    _verify_part(part, expected, f"It is the member {entry.member!r} of {bundle}.")


def _member(bundle: Path, member: str) -> Iterator[bytes]:
    """Blocks of a member; a damaged archive is deleted, so that the next try downloads it again."""
    try:
        with zipfile.ZipFile(bundle) as opened:
            if member not in opened.namelist():
                raise MalformedSource(bundle, "", f"members {', '.join(opened.namelist())}", f"a member {member!r}")
            with opened.open(member) as source:
                while block := source.read(1 << 20):
                    yield block
    # An unknown compression is a NotImplementedError, a member with a password a RuntimeError.
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError) as error:
        bundle.unlink(missing_ok=True)
        record_of(bundle).unlink(missing_ok=True)
        raise DownloadFailed(f"the downloaded archive was damaged ({error}) and has been deleted; try again") from error


def _verify_part(part: Path, expected: Expected, remedy: str) -> None:
    try:
        verify(part, expected, remedy)
    except HashMismatch:
        part.unlink()
        raise
