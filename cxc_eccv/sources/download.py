"""From a catalog name to a verified local file, and its content: mirror folder, then the cache, then a download.

A mirror folder whose catalog names another edition than ``official``, such as the embedded sample, is used alone: files
that it lacks are not taken from elsewhere, so editions never mix.
"""

from __future__ import annotations

import os
import re
import shutil
import zipfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
from filelock import FileLock
from platformdirs import user_cache_dir

from cxc_eccv.damage import refuse_damage
from cxc_eccv.errors import (
    DownloadFailed,
    HashMismatch,
    InvalidOption,
    MalformedSource,
    ServerUnreachable,
    SourceMissing,
    refuse_long_name,
)
from cxc_eccv.hashing import fingerprint, hash_content
from cxc_eccv.sources.catalog import OFFICIAL, SAMPLE, Archive, Catalog, Entry, fingerprint_files, load_catalog
from cxc_eccv.sources.connecting import CONNECT_SECONDS, refuse_unreachable
from cxc_eccv.sources.reading import shown
from cxc_eccv.types.provenance import ModifiedFile

Content = TypeVar("Content")

OFFLINE_VARIABLES = ("CXC_ECCV_OFFLINE", "HF_HUB_OFFLINE")

RETRIES = 3

TIMEOUT = 30.0  # seconds without a byte after which a connection counts as broken

State = Literal["in mirror", "present", "to download", "user-provided", "not in edition"]


def verify(path: Path, sha256: str | None, size: int | None, remedy: str) -> None:
    """Raise HashMismatch, with the remedy, unless size and hash of a file are as expected; None if unknown."""
    if size is not None and fingerprint(path).size != size:
        actual = fingerprint(path).size
        kind = "is truncated" if actual < size else "is too long"
        raise HashMismatch(f"{path} {kind}: found {actual:,} bytes, expected {size:,}. {remedy}")
    if sha256 is not None and hash_content(path) != sha256:
        raise HashMismatch(
            f"{path} is not the file that the catalog describes: found sha256 {hash_content(path)}, "
            f"expected {sha256}. {remedy}"
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
    refuse_long_name(folder)
    if not folder.is_dir():
        raise InvalidOption(f"{origin}: {str(data_dir)!r} is not a folder")
    return folder


def image_folder(images: str | Path) -> Path:
    """The folder of photographs ``images``; ``sample`` is that of the embedded sample unless a folder has this name."""
    folder = Path(images).expanduser()
    refuse_long_name(folder)
    if folder.is_dir():
        return folder
    if str(images) == SAMPLE:
        return sample_images()
    raise InvalidOption(f"{images} is not a folder. Name the folder with the images.")


def sample_images() -> Path:
    """The folder of images of the embedded sample."""
    return Path(str(resources.files("cxc_eccv"))) / SAMPLE / "coco" / "images"


def cache_folder() -> Path:
    """The download cache: ``CXC_ECCV_CACHE``, else the operating system's cache folder of the user."""
    chosen = os.environ.get("CXC_ECCV_CACHE", "")
    return Path(chosen).expanduser().resolve() if chosen else Path(user_cache_dir("cxc_eccv"))


def encodings_folder() -> Path:
    """Where the download cache keeps the encodings of models."""
    return cache_folder() / "encodings"


def _is_on(name: str) -> bool:
    return os.environ.get(name, "").strip().lower() in {"1", "true", "yes", "on"}


def offline_reason(offline: bool | None) -> str:
    """Why downloads are off; empty if they are on. ``offline`` decides; None follows the environment variables."""
    if offline is not None:
        return "offline=True" if offline else ""
    return next((f"{name}={os.environ[name]}" for name in OFFLINE_VARIABLES if _is_on(name)), "")


def find_catalog(data_dir: str | Path | None = None) -> Catalog:
    """The official catalog, with the entries that the mirror folder's ``catalog.toml`` replaces."""
    official = load_catalog()
    folder = mirror_folder(data_dir)
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
    catalog = find_catalog(data_dir)
    entry = catalog.entry(name)
    if lacking := why_not_in_edition(f"{name} ({entry.path})", data_dir):
        raise SourceMissing(lacking)
    if obstacle := _obstacle(entry, offline):
        raise SourceMissing(_missing(entry, data_dir, obstacle))
    archive = catalog.archives[entry.archive] if entry.archive else None
    try:
        return _download(entry, archive, cache_folder(), progress)
    except ServerUnreachable as error:
        obstacle = f"{error} (no network? `CXC_ECCV_DATA={SAMPLE}` works without)"
        raise ServerUnreachable(_missing(entry, data_dir, obstacle)) from error
    except DownloadFailed as error:
        raise DownloadFailed(_missing(entry, data_dir, str(error))) from error


def locate(name: str, data_dir: str | Path | None = None, *, allow_modified: bool = False) -> Path | None:
    """A verified local copy of a raw file, or None if there is no copy; never downloads."""
    catalog = find_catalog(data_dir)
    entry = catalog.entry(name)
    path = _in_mirror(entry, data_dir)
    if path is not None:
        if not allow_modified:
            verify(path, entry.sha256, entry.size, _replacement(entry))
        return path
    path = _in_cache(entry, catalog)
    if path is not None:
        _verify_cached(entry, path)
    return path


def state(entry: Entry, data_dir: str | Path | None = None) -> State:
    """Whether a raw file is on this machine, without verifying it."""
    catalog = find_catalog(data_dir)
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
    path = cache_folder() / entry.path
    return path if catalog.edition == OFFICIAL and path.is_file() else None


def why_not_in_edition(what: str, data_dir: str | Path | None = None) -> str:
    """Why a file is not taken from elsewhere, and what to do; empty for the official edition."""
    edition = find_catalog(data_dir).edition
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
    searched = " or ".join(f"{place}" for place in (mirror_folder(data_dir), cache_folder()) if place)
    return f"{entry.name}: {entry.path} is not in {searched}, and {obstacle}.\n{where_from(entry, data_dir)}"


def where_from(entry: Entry, data_dir: str | Path | None = None) -> str:
    """Lines for the end of an error that say where to get a raw file and where to put it."""
    folder = mirror_folder(data_dir)
    address = entry.url or "none"
    if entry.url and entry.member:
        address += f", member {entry.member}"
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


def _download(entry: Entry, archive: Archive | None, cache: Path, progress: bool) -> Path:
    """Download a file, or extract it from ``archive``, into the cache; return its verified path."""

    def bring(item: Entry | Archive) -> Path:
        target = cache / item.path
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(f".{target.name}.lock")):
            if target.is_file():  # another process brought it meanwhile
                pass
            elif item is entry and archive is not None:
                _extract(entry, bring(archive), target)
            else:
                retrieve(item.url or "", target, _read_known_hash(item, target), progress=progress)
        _verify_cached(item, target)
        return target

    try:
        return bring(entry)
    except OSError as error:
        raise DownloadFailed(
            f"the download cache {cache} is not usable ({error}); choose another one with CXC_ECCV_CACHE"
        ) from error


def retrieve(
    url: str,
    target: Path,
    sha256: str | None = None,
    *,
    progress: bool = False,
) -> None:
    """Download a file to its place, in one step and with retries, which a server that cannot be reached does not get.

    Raises:
        ServerUnreachable: there is no connection to the server.
        DownloadFailed: the server does not deliver the file.
        HashMismatch: it delivers another file than the one with this hash.
    """
    import pooch  # imported late, as requests: most runs need no network
    import requests
    import urllib3

    refuse_unreachable(url)
    pooch.get_logger().setLevel("WARNING")
    place = pooch.create(
        target.parent, "", registry={target.name: sha256}, urls={target.name: url}, retry_if_failed=RETRIES
    )
    download = pooch.HTTPDownloader(progressbar=progress, timeout=(CONNECT_SECONDS, TIMEOUT))

    def download_if_reachable(address: str, file: str, known: pooch.Pooch) -> None:
        try:
            download(address, file, known)
        except (requests.exceptions.ProxyError, requests.ConnectTimeout) as error:  # which pooch would try again
            raise ServerUnreachable(f"{urlsplit(address).hostname} cannot be reached") from error

    try:
        place.fetch(target.name, downloader=download_if_reachable)
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        reason = getattr(error.args[0], "reason", None) if error.args else None  # without the pool of connections
        raise DownloadFailed(f"the server did not deliver it: {reason or error}") from None
    except ValueError as error:
        raise HashMismatch(f"{url} delivered another file: {error}") from None


def _extract(entry: Entry, bundle: Path, target: Path) -> None:
    member = entry.member or ""
    part = target.with_name(f"{target.name}.part")
    expected = f"an archive with a member {member!r}; delete it to download it again"
    try:
        with refuse_damage(bundle, expected=expected), zipfile.ZipFile(bundle) as archive:
            if member not in archive.namelist():
                raise MalformedSource(bundle, "", f"the members {shown(archive.namelist())}", expected)
            with archive.open(member) as source, part.open("wb") as sink:
                shutil.copyfileobj(source, sink)
        verify(part, entry.sha256, entry.size, f"It is the member {member!r} of {bundle}.")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


SHA256 = re.compile("[0-9a-f]{64}")


def _find_record(file: Path) -> Path:
    """The file beside ``file`` that records its hash at first use, in the format of ``sha256sum``."""
    return file.with_name(f"{file.name}.sha256")


def _read_known_hash(item: Entry | Archive, file: Path) -> str | None:
    """The hash that a cached file must have: the catalog's, else the recorded one, else None."""
    record = _find_record(file)
    if item.sha256 is not None or not record.is_file():
        return item.sha256
    found = record.read_bytes()[:64].decode("ascii", "replace")
    if not SHA256.fullmatch(found):
        expected = f"the sha256 of {file.name}; delete both to download it again"
        raise MalformedSource(record, "", shown(found), expected)
    return found


def _verify_cached(item: Entry | Archive, file: Path) -> None:
    """Verify a cached file; record its hash if the catalog has none."""
    verify(file, _read_known_hash(item, file), item.size, f"Delete {file} to download it again.")
    if item.sha256 is None and not _find_record(file).is_file():
        with suppress(OSError):  # a cache that somebody else prepared may be read-only
            _find_record(file).write_text(f"{hash_content(file)}  {file.name}\n", encoding="utf-8")


class RawFiles:
    """Raw files of one data location by their name in the catalog; each is read when it is needed, once."""

    def __init__(
        self, data_dir: str | Path | None, *, offline: bool | None, allow_modified: bool, progress: bool
    ) -> None:
        if data_dir is not None:
            mirror_folder(data_dir)  # refuses a folder that does not exist
        self.data_dir = data_dir
        self._offline = offline
        self._allow_modified = allow_modified
        self._progress = progress
        self._contents: dict[object, object] = {}
        self._files: dict[str, str] = {}

    @property
    def catalog(self) -> Catalog:
        """The catalog of the mirror folder, if it has one, else the official catalog."""
        return find_catalog(self.data_dir)

    @property
    def edition(self) -> str:
        """``official``, ``sample``, or the name in the catalog of the mirror folder."""
        return self.catalog.edition

    @property
    def offline_reason(self) -> str:
        """Why downloads are off; empty if they are on."""
        return offline_reason(self._offline)

    def read(self, name: str, reader: Callable[[Path], Content]) -> Content:
        """Read a raw file of the catalog, downloaded and verified, once; for sources without their own method.

        Args:
            name: name in the catalog.
            reader: function from the path to the content.

        Raises:
            UnknownName: the catalog has no such file.
            DataError: the file is missing, modified or malformed.

        Example:
            >>> from cxc_eccv.sources.library import Library
            >>> from cxc_eccv.sources.readers import read_positives
            >>> Library("sample").read("eccv_image_to_caption", read_positives).column_names
            ['query_id', 'item_id']
        """
        return self.cached((name, reader), lambda: reader(self.path(name)))

    def read_optional(self, name: str, reader: Callable[[Path], Content]) -> Content | None:
        """The content of a file that is never downloaded; None if it is missing."""
        return self.read(name, reader) if self.has([name]) else None

    def path(self, name: str) -> Path:
        """The path of a raw file, downloaded and verified; its hash is recorded."""
        path = fetch(
            name,
            self.data_dir,
            offline=self._offline,
            allow_modified=self._allow_modified,
            progress=self._progress,
        )
        return self.record(name, path)

    def record(self, name: str, path: Path) -> Path:
        """Record the hash of a file, which may be a user's, under a name; returns its path."""
        if not path.is_file():
            raise SourceMissing(f"{path} is not a file. Name the file with the annotations.")
        self._files[name] = hash_content(path)
        return path

    def locate(self, name: str) -> Path | None:
        """The path of a raw file on this machine, or None."""
        return locate(name, self.data_dir, allow_modified=self._allow_modified)

    def has(self, names: Iterable[str]) -> bool:
        """Whether all these raw files are in the catalog and on this machine."""
        return all(name in self.catalog and self.locate(name) is not None for name in names)

    def files_used(self) -> dict[str, str]:
        """Catalog name to sha256 of every raw file read so far."""
        return dict(sorted(self._files.items()))

    def modified_files(self) -> dict[str, ModifiedFile]:
        """The raw files read so far that differ from the catalog, which only ``allow_modified`` permits."""
        return self.catalog.modified(self._files)

    def fingerprint(self) -> str:
        """Hex sha256 over names and hashes of the raw files read so far."""
        return fingerprint_files(self._files)

    def cached(self, key: object, read: Callable[[], Content]) -> Content:
        """Call ``read`` once for each key and keep the result, which must depend only on raw files.

        Example:
            >>> from cxc_eccv.sources.library import Library
            >>> library = Library("sample")
            >>> library.cached("answer", lambda: 42), library.cached("answer", lambda: 43)
            (42, 42)
        """
        if key not in self._contents:
            self._contents[key] = read()
            pa.default_memory_pool().release_unused()  # pyarrow would keep what reading took for good
        return self._contents[key]  # type: ignore[return-value] # the key determines the type
