"""Download raw files into the cache, and photographs into a folder: with retries, in one step, and resumable.

One process at a time writes a download to ``<file>.part`` and renames it once it is complete and verified. If the hash
of the file is known, the part survives a broken connection or a killed process, and the next attempt asks the server
for the rest (HTTP Range). The part is deleted if the hash is unknown, if the server refuses, or if the hash is wrong.
"""

from __future__ import annotations

import lzma
import os
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import IO

import pooch
import requests
from filelock import FileLock
from PIL import Image
from tqdm import tqdm

from cxc_eccv.errors import DownloadFailed, HashMismatch, MalformedSource
from cxc_eccv.sources.catalog import Archive, Entry
from cxc_eccv.sources.download import Expected, expected_of, open_plain, pin, record_of, verify
from cxc_eccv.writing import explained, locked, refuse_unwritable
from cxc_eccv.writing import resumable as noted


def download(entry: Entry, archive: Archive | None, cache: Path, *, progress: bool = True) -> Path:
    """Download a file, or extract it from ``archive``, into the cache; return its verified path."""
    try:
        if archive is None:
            return _ensure(entry, cache, partial(_deliver, entry, progress))
        return _ensure(entry, cache, partial(_extract, entry, archive, cache, progress))
    except OSError as error:
        raise DownloadFailed(
            f"the download cache {cache} is not usable ({error}); choose another one with CXC_ECCV_CACHE"
        ) from error


def _ensure(item: Entry | Archive, cache: Path, produce: Callable[[Path, Expected], None]) -> Path:
    """The verified file in the cache; if it is missing, ``produce`` writes and verifies the part."""
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
        raise DownloadFailed("it has no address")
    resumable = item.sha256 is not None
    resumed = resumable and part.is_file()
    kept = f"The part of {part.stem} that arrived is kept; the same command continues the download."
    with noted(kept) if resumable else nullcontext():
        receive(item.url, part, size=item.size, resumable=resumable, progress=progress)
    try:
        _verify_part(part, expected, f"{item.url} delivered this file, which has been deleted.")
    except HashMismatch:
        if not resumed:
            raise
        # The part may be of another version of the file: download the whole file.
        _deliver(item, progress, part, expected)


def _extract(entry: Entry, archive: Archive, cache: Path, progress: bool, part: Path, expected: Expected) -> None:
    bundle = _ensure(archive, cache, partial(_deliver, archive, progress))
    try:
        with open_plain(part) as sink:
            for block in _member(bundle, entry.member or ""):
                refuse_larger(sink.tell() + len(block), expected.size)
                sink.write(block)
            os.fsync(sink.fileno())
    except Exception:
        part.unlink(missing_ok=True)
        raise
    _verify_part(part, expected, f"It is the member {entry.member!r} of {bundle}.")


def _member(bundle: Path, member: str) -> Iterator[bytes]:
    """Blocks of a member; a damaged archive is deleted, so that the next attempt downloads it again."""
    try:
        with zipfile.ZipFile(bundle) as opened:
            if member not in opened.namelist():
                raise MalformedSource(bundle, "", f"members {', '.join(opened.namelist())}", f"a member {member!r}")
            with opened.open(member) as source:
                while block := source.read(1 << 20):
                    yield block
    # An unknown compression raises NotImplementedError, a member with a password RuntimeError.
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError) as error:
        bundle.unlink(missing_ok=True)
        record_of(bundle).unlink(missing_ok=True)
        raise DownloadFailed(
            f"the downloaded archive was damaged ({error}) and has been deleted. Run the command again to download it."
        ) from error


def _verify_part(part: Path, expected: Expected, remedy: str) -> None:
    try:
        verify(part, expected, remedy)
    except HashMismatch:
        part.unlink()
        raise


LARGEST = 2 << 30  # most bytes of a file of unknown size, several times the largest in the catalog

ATTEMPTS = 4

PAUSE = 1.0  # seconds before the second attempt; doubled before each further one

LONGEST_PAUSE = 60.0

TIMEOUT = 30.0  # seconds without a byte after which a connection counts as broken

PASSING_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})


def receive(url: str, part: Path, *, size: int | None, resumable: bool, progress: bool) -> None:
    """Download ``url`` to ``part``, with retries; ``size`` in bytes, if known, is checked."""
    reason = ""
    for attempt in range(ATTEMPTS):
        try:
            return _request(url, part, size, resumable, progress)
        except requests.HTTPError as error:
            reason = str(error)
            if error.response is None or error.response.status_code not in PASSING_STATUSES:
                part.unlink(missing_ok=True)
                raise DownloadFailed(f"the server refused the request: {reason}") from None
            pause = _pause(attempt, error.response)
        except requests.RequestException as error:
            reason, pause = str(error), _pause(attempt)
        if attempt + 1 < ATTEMPTS:
            time.sleep(pause)
    if not resumable:
        part.unlink(missing_ok=True)
    raise DownloadFailed(f"{ATTEMPTS} attempts to download it failed; the last error: {reason}")


def _pause(attempt: int, response: requests.Response | None = None) -> float:
    wanted = response.headers.get("Retry-After", "") if response is not None else ""
    return min(float(wanted) if wanted.isdecimal() else PAUSE * 2**attempt, LONGEST_PAUSE)


def _request(url: str, part: Path, size: int | None, resumable: bool, progress: bool) -> None:
    with open_plain(part, keep=resumable) as sink:
        answer = _Answer(sink, size)
        if answer.offset and answer.offset == size:
            return
        # With compressed transfer, offsets and lengths would count compressed bytes.
        headers = {"Accept-Encoding": "identity"}
        if answer.offset:
            headers["Range"] = f"bytes={answer.offset}-"
        get = pooch.HTTPDownloader(
            progressbar=progress, chunk_size=1 << 16, timeout=TIMEOUT, headers=headers, hooks={"response": answer}
        )
        try:
            get(url, answer, None)
        except DownloadFailed:
            part.unlink()
            raise
        answer.check_complete()
        os.fsync(sink.fileno())


def refuse_larger(n_bytes: int, size: int | None) -> None:
    """Stop a file that grows beyond ``size``, or beyond the largest file if None, before it fills the disk."""
    if n_bytes > (LARGEST if size is None else size):
        expected = f"at most {LARGEST:,}" if size is None else f"{size:,}"
        raise DownloadFailed(f"the file is too large: more than {n_bytes - 1:,} bytes, expected {expected}")


class _Answer:
    """Writes the server's answer into the part file, from the right offset and up to the expected size."""

    def __init__(self, sink: IO[bytes], size: int | None) -> None:
        self._sink, self._size = sink, size
        self._end: int | None = None
        self.offset = sink.seek(0, os.SEEK_END)
        if size is not None and self.offset > size:
            self._restart()

    def __call__(self, response: requests.Response, **_options: object) -> None:
        if response.status_code == requests.codes.ok and self.offset:
            self._restart()
        elif not self._continues(response):
            self._restart()
            response.close()
            raise requests.ConnectionError("the server cannot resume the download; starting again")
        if not response.ok:
            response.close()
        length = response.headers.get("Content-Length", "")
        self._end = self.offset + int(length) if length.isdecimal() else None

    def write(self, block: bytes) -> None:
        refuse_larger(self._sink.tell() + len(block), self._size)
        self._sink.write(block)

    def flush(self) -> None:
        self._sink.flush()

    def _continues(self, response: requests.Response) -> bool:
        if response.status_code == requests.codes.partial_content:
            return response.headers.get("Content-Range", "").startswith(f"bytes {self.offset}-")
        return response.status_code != requests.codes.requested_range_not_satisfiable

    def _restart(self) -> None:
        self._sink.seek(0)
        self._sink.truncate()
        self.offset = 0

    def check_complete(self) -> None:
        # urllib3 before 2.0 takes a truncated body for a complete one.
        if self._end is not None and self._sink.tell() != self._end:
            raise requests.ConnectionError(f"the body ended after {self._sink.tell():,} of {self._end:,} bytes")


AT_ONCE = 8

MOST_FAILURES = 10
"""After so many the rest will hardly arrive: no photograph is asked for any more."""


def download_photographs(addresses: Mapping[str, str], folder: Path) -> tuple[int, int]:
    """Download JPEG files, file name to address, into a folder; return how many were downloaded and how many kept.

    A file that is there and whole is kept. Any other is written under another name first and moved to its place once it
    is checked, so that an interrupted download resumes where it stopped.

    Raises:
        DownloadFailed: some photographs did not arrive; the others are in the folder.
        WriteFailed: the folder cannot be written.
    """
    refuse_unwritable(folder, addresses)
    outcomes: Counter[str] = Counter()
    failures: list[str] = []
    with locked(folder), explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with (
            ThreadPoolExecutor(AT_ONCE) as threads,
            tqdm(total=len(addresses), desc="photographs", unit="image", disable=None) as bar,
        ):
            tasks = {threads.submit(_bring, folder / name, url): url for name, url in addresses.items()}
            try:
                for task in as_completed(tasks):
                    try:
                        outcomes[task.result()] += 1
                    except DownloadFailed as error:
                        failures.append(f"{tasks[task]}: {error}")
                        if len(failures) == MOST_FAILURES:
                            break
                    bar.update()
            finally:
                threads.shutdown(cancel_futures=True)
    if failures:
        raise DownloadFailed(
            f"{folder} has {outcomes.total():,} of the {len(addresses):,} photographs. Run the same command again: it "
            f"downloads only those that are missing. The first error: {failures[0]}"
        )
    return outcomes["downloaded"], outcomes["kept"]


def _bring(file: Path, url: str) -> str:
    if _is_whole(file):
        return "kept"
    part = file.with_name(f"{file.name}.part")
    receive(url, part, size=None, resumable=False, progress=False)
    if not _is_whole(part):
        part.unlink()
        raise DownloadFailed("the server sent something other than a complete JPEG image")
    part.replace(file)
    return "downloaded"


def _is_whole(file: Path) -> bool:
    try:
        with Image.open(file, formats=["JPEG"]) as image:
            image.draft("L", (1, 1))  # decodes all bytes, but at an eighth of the size
            image.load()
    except Exception:  # Pillow's decoders raise errors of many unrelated kinds
        return False
    return True
