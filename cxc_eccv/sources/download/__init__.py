"""From a catalog name to a verified local file: mirror folder first, then the cache, then a download.

A mirror folder whose catalog names another edition than ``official``, such as the embedded sample, is used alone: files
that it lacks are not taken from elsewhere, so editions never mix.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import IO, Literal, NamedTuple

from platformdirs import user_cache_dir

from cxc_eccv.errors import DownloadFailed, HashMismatch, InvalidOption, MalformedSource, SourceMissing, WriteFailed
from cxc_eccv.sources.catalog import OFFICIAL, SAMPLE, Archive, Catalog, Entry, load_catalog
from cxc_eccv.sources.reading import read_blocks, shown
from cxc_eccv.writing import is_plain, replaced_file

OFFLINE_VARIABLES = ("CXC_ECCV_OFFLINE", "HF_HUB_OFFLINE")

State = Literal["in mirror", "present", "to download", "user-provided", "not in edition"]


UNSETTLED = 2_000_000_000  # nanoseconds within which two changes of a file may get the same time


class Fingerprint(NamedTuple):
    """Identifies the content of a file, decompressed if it is gzipped."""

    sha256: str
    size: int


class Expected(NamedTuple):
    """Expected hash and size of a file; None if unknown."""

    sha256: str | None
    size: int | None = None


def fingerprint(path: str | Path) -> Fingerprint:
    """sha256 and size of a file's content, computed once per process unless the file may have changed."""
    file = Path(path)
    status = file.stat()
    # Programs cannot set a file's ctime. Right after a change, a second change may show the same times.
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    settled = abs(time.time_ns() - changed) > UNSETTLED
    look = 0 if settled else time.perf_counter_ns()
    return _fingerprint(file.resolve(), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, look)


@lru_cache(maxsize=1024)
def _fingerprint(path: Path, *_state: int) -> Fingerprint:
    digest, size = hashlib.sha256(), 0
    for block in read_blocks(path):
        digest.update(block)
        size += len(block)
    return Fingerprint(digest.hexdigest(), size)


def sha256_of(path: str | Path) -> str:
    """Hexadecimal sha256 of a file's content, decompressed if it is gzipped."""
    return fingerprint(path).sha256


def verify(path: Path, expected: Expected, remedy: str) -> None:
    """Raise HashMismatch, with the remedy, unless size and hash of a file are as expected."""
    if expected.sha256 is None and expected.size is None:
        return
    plain_size = None if path.suffix == ".gz" else path.stat().st_size
    size = fingerprint(path).size if plain_size is None else plain_size
    if expected.size is not None and size != expected.size:
        kind = "is truncated" if size < expected.size else "is too long"
        raise HashMismatch(f"{path} {kind}: found {size:,} bytes, expected {expected.size:,}. {remedy}")
    if expected.sha256 is not None and sha256_of(path) != expected.sha256:
        raise HashMismatch(
            f"{path} is not the file that the catalog describes: found sha256 {sha256_of(path)}, "
            f"expected {expected.sha256}. {remedy}"
        )


def mirror_folder(data_dir: str | Path | None = None) -> Path | None:
    """The local mirror folder: ``data_dir``, else ``CXC_ECCV_DATA``, else None."""
    origin = "data_dir (--data-dir)"
    if data_dir is None:
        data_dir = os.environ.get("CXC_ECCV_DATA", "")
        origin = "CXC_ECCV_DATA"
        if not data_dir:
            return None
    if data_dir == SAMPLE:
        return Path(str(resources.files("cxc_eccv"))) / SAMPLE
    folder = Path(data_dir).expanduser()
    if not folder.is_dir():
        raise InvalidOption(f"{origin}: {str(data_dir)!r} is not a folder")
    return folder


def image_folder(images: str | Path) -> Path:
    """The folder of photographs ``images``; ``sample`` is that of the embedded sample unless a folder has this name."""
    folder = Path(images).expanduser()
    if folder.is_dir():
        return folder
    if str(images) == SAMPLE:
        return Path(str(resources.files("cxc_eccv"))) / SAMPLE / "coco" / "images"
    raise InvalidOption(f"{images} is not a folder. Name the folder with the images.")


def _cache_folder() -> Path:
    """The download cache: ``CXC_ECCV_CACHE``, else the operating system's cache folder of the user."""
    chosen = os.environ.get("CXC_ECCV_CACHE", "")
    return Path(chosen).expanduser().resolve() if chosen else Path(user_cache_dir("cxc_eccv"))


def tables_folder() -> Path | None:
    """Where the download cache keeps tables of parsed raw files; None if ``CXC_ECCV_NO_TABLE_CACHE`` is set."""
    return None if _is_on("CXC_ECCV_NO_TABLE_CACHE") else _cache_folder() / "tables"


def encodings_folder() -> Path:
    """Where the download cache keeps the encodings of models."""
    return _cache_folder() / "encodings"


def _is_on(name: str) -> bool:
    return os.environ.get(name, "").strip().lower() in {"1", "true", "yes", "on"}


def offline_reason(offline: bool | None) -> str:
    """Why downloads are off; empty if they are on. ``offline`` decides; None follows the environment variables."""
    if offline is not None:
        return "offline=True" if offline else ""
    return next((f"{name}={os.environ[name]}" for name in OFFLINE_VARIABLES if _is_on(name)), "")


def catalog_of(data_dir: str | Path | None = None) -> Catalog:
    """The official catalog, with the entries that the mirror folder's ``catalog.toml`` replaces."""
    official, folder = load_catalog(), mirror_folder(data_dir)
    mirrors = folder / "catalog.toml" if folder else None
    return load_catalog(mirrors, base=official) if mirrors and mirrors.is_file() else official


def fetch(
    name: str,
    data_dir: str | Path | None = None,
    *,
    offline: bool | None = None,
    allow_modified: bool = False,
    progress: bool = True,
) -> Path:
    """A verified local copy of a raw file, downloaded if necessary; it may be gzipped (``*.gz``)."""
    path = locate(name, data_dir, allow_modified=allow_modified)
    if path is not None:
        return path
    catalog = catalog_of(data_dir)
    entry = catalog.entry(name)
    if lacking := why_not_in_edition(f"{name} ({entry.path})", data_dir):
        raise SourceMissing(lacking)
    if obstacle := _obstacle(entry, offline):
        raise SourceMissing(_missing(entry, data_dir, obstacle))
    from cxc_eccv.sources.download.download import download  # imported late: most runs need no network

    archive = catalog.archives[entry.archive] if entry.archive else None
    try:
        return download(entry, archive, _cache_folder(), progress=progress)
    except DownloadFailed as error:
        raise DownloadFailed(_missing(entry, data_dir, str(error))) from error


def fetch_photographs(addresses: Mapping[str, str], folder: Path) -> tuple[int, int]:
    """Download photographs, file name to address; return how many were downloaded and how many were there before."""
    if reason := offline_reason(None):
        raise InvalidOption(f"downloads are off ({reason}). Unset the variable to download photographs.")
    from cxc_eccv.sources.download.download import download_photographs  # imported late, as above

    return download_photographs(addresses, folder)


def locate(name: str, data_dir: str | Path | None = None, *, allow_modified: bool = False) -> Path | None:
    """A verified local copy of a raw file, or None if there is no copy; never downloads."""
    catalog = catalog_of(data_dir)
    entry = catalog.entry(name)
    path = _in_mirror(entry, data_dir)
    if path is not None:
        if not allow_modified:
            verify(path, Expected(entry.sha256, entry.size), _replacement(entry))
        return path
    path = _in_cache(entry, catalog)
    if path is not None:
        verify(path, expected_of(entry, path), f"Delete {path} to download it again.")
        pin(entry, path)
    return path


def state(entry: Entry, data_dir: str | Path | None = None) -> State:
    """Whether a raw file is on this machine, without verifying it."""
    catalog = catalog_of(data_dir)
    if _in_mirror(entry, data_dir):
        return "in mirror"
    if catalog.edition != OFFICIAL:
        return "not in edition"
    if _in_cache(entry, catalog):
        return "present"
    return "to download" if entry.url else "user-provided"


def _in_mirror(entry: Entry, data_dir: str | Path | None) -> Path | None:
    folder = mirror_folder(data_dir)
    if folder is None:
        return None
    return next((path for path in (folder / entry.path, folder / f"{entry.path}.gz") if path.is_file()), None)


def _in_cache(entry: Entry, catalog: Catalog) -> Path | None:
    path = _cache_folder() / entry.path
    return path if catalog.edition == OFFICIAL and path.is_file() else None


def why_not_in_edition(what: str, data_dir: str | Path | None = None) -> str:
    """Why a file is not taken from elsewhere, and what to do; empty for the official edition."""
    edition = catalog_of(data_dir).edition
    if edition == OFFICIAL:
        return ""
    if edition == SAMPLE:
        return (
            f"{what} is not part of the embedded sample. To use the real data, unset CXC_ECCV_DATA, or choose another "
            "--data-dir."
        )
    return (
        f"{what} is not part of the edition {edition!r} in {mirror_folder(data_dir)}, and editions are never mixed. "
        "Add it there, or choose another --data-dir."
    )


def _obstacle(entry: Entry, offline: bool | None) -> str:
    """Why the file cannot be downloaded; empty where it can."""
    if entry.derived_from:
        return f"it cannot be downloaded: it is derived from {' and '.join(entry.derived_from)}"
    if entry.url is None:
        return "it cannot be downloaded: it is a file of your own"
    reason = offline_reason(offline)
    return f"downloads are off ({reason})" if reason else ""


def _missing(entry: Entry, data_dir: str | Path | None, obstacle: str) -> str:
    searched = " or ".join(f"{place}" for place in (mirror_folder(data_dir), _cache_folder()) if place)
    return f"{entry.name}: {entry.path} is not in {searched}, and {obstacle}.\n{where_from(entry, data_dir)}"


def where_from(entry: Entry, data_dir: str | Path | None = None) -> str:
    """Lines for the end of an error that say where to get a raw file and where to put it."""
    folder = mirror_folder(data_dir)
    address = f"{entry.url}{f', member {entry.member}' if entry.member else ''}" if entry.url else "none"
    return "\n".join(
        [
            f"  official address: {address}",
            f"  sha256: {entry.sha256 or 'not published'}",
            f"  put it at: {(folder or Path('MIRROR')) / entry.path} (or the same with .gz)",
            "Name the mirror folder with --data-dir or CXC_ECCV_DATA.",
        ]
    )


def _replacement(entry: Entry) -> str:
    source = f"the official file ({entry.url})" if entry.url else "the original"
    return f"Replace it with {source}, or use it as it is with --allow-modified (allow_modified=True)."


SHA256 = re.compile(rb"[0-9a-f]{64}")


def record_of(file: Path) -> Path:
    """The file beside ``file`` that records its hash, in the format of ``sha256sum``."""
    return file.with_name(f"{file.name}.sha256")


def expected_of(item: Entry | Archive, file: Path) -> Expected:
    """The hash and size that a cached file must have: the catalog's, else the recorded hash, else unknown."""
    if item.sha256 is not None or not record_of(file).is_file():
        return Expected(item.sha256, item.size)
    record = record_of(file)
    words = record.read_bytes().split()[:1]
    if not words or not SHA256.fullmatch(words[0]):
        expected = f"the sha256 of {file.name}; delete both to download it again"
        raise MalformedSource(record, "", shown(words[0]) if words else "an empty file", expected)
    return Expected(words[0].decode(), item.size)


def pin(item: Entry | Archive, file: Path) -> None:
    """Record the hash of a cached file, unless the catalog has one or a hash is recorded."""
    record = record_of(file)
    if item.sha256 is not None or record.is_file() or not is_plain(record):
        return
    # A cache that somebody else prepared may be read-only; then nothing is recorded.
    with suppress(WriteFailed), replaced_file(record, wait=0) as part:
        part.write_text(f"{sha256_of(file)}  {file.name}\n", encoding="utf-8", newline="\n")


def open_plain(path: Path, *, keep: bool = False) -> IO[bytes]:
    """Open or create a file whose name others can foresee, to read and write; empty it unless ``keep``."""
    refused = f"{path} is a link or not a regular file, and this package did not create it; delete it"
    if path.is_symlink():
        raise DownloadFailed(refused)
    # The system refuses a link that appears after this check; a pipe must not block.
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    number = os.open(path, flags, 0o666)
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(number)
        raise DownloadFailed(refused)
    if not keep:
        os.ftruncate(number, 0)
    return os.fdopen(number, "r+b")
