"""One file over HTTP into a part file: retries with growing pauses, resumes by Range, a progress bar."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import IO

import pooch
import requests

from cxc_eccv.errors import DownloadFailed
from cxc_eccv.sources.own_file import open_own

__all__ = ["LARGEST", "receive", "refuse_larger"]

LARGEST = 2 << 30
"""Most bytes of a file whose size the catalog does not know: several times the largest one it lists."""

ATTEMPTS = 4

PAUSE = 1.0
"""Seconds before the second attempt; doubled before each further one."""

LONGEST_PAUSE = 60.0

TIMEOUT = 30.0
"""Seconds without a byte after which a connection counts as broken."""

PASSING_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})


def receive(url: str, part: Path, *, size: int | None, resumable: bool, progress: bool) -> None:
    """Fill ``part`` with the complete body at ``url``.

    Args:
        url: http(s) address.
        part: the file to write; what it holds already is resumed where ``resumable``.
        size: bytes of the complete file, or None.
        resumable: a wrong continuation would be noticed, because the file's hash is known.
        progress: show a bar on standard error.

    Raises:
        DownloadFailed: at once for an answer like 404 and for a body larger than the file should be; after four
            attempts for 5xx, 429 and broken connections.
    """
    reason = ""
    for attempt in range(ATTEMPTS):
        try:
            return _request(url, part, size, resumable, progress)
        except requests.HTTPError as error:
            reason = str(error)
            if error.response is None or error.response.status_code not in PASSING_STATUSES:
                part.unlink(missing_ok=True)
                raise DownloadFailed(f"the server refused it: {reason}") from None
            pause = _pause(attempt, error.response)
        except requests.RequestException as error:
            reason, pause = str(error), _pause(attempt)
        if attempt + 1 < ATTEMPTS:
            time.sleep(pause)
    if not resumable:
        part.unlink(missing_ok=True)
    raise DownloadFailed(f"{ATTEMPTS} attempts to download it failed, the last with: {reason}")


def _pause(attempt: int, response: requests.Response | None = None) -> float:
    asked = response.headers.get("Retry-After", "") if response is not None else ""
    return min(float(asked) if asked.isdecimal() else PAUSE * 2**attempt, LONGEST_PAUSE)


def _request(url: str, part: Path, size: int | None, resumable: bool, progress: bool) -> None:
    with open_own(part, keep=resumable) as sink:
        answer = _Answer(sink, size)
        if answer.offset and answer.offset == size:
            return
        # Compressed transfer would make offsets and lengths those of other bytes.
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


def refuse_larger(found: int, size: int | None) -> None:
    """Stop a file that grows beyond what it should be, before it fills the disk.

    Raises:
        DownloadFailed: it is larger than ``size``, or than any file may be where that is None.
    """
    if found > (LARGEST if size is None else size):
        expected = f"files of at most {LARGEST:,}" if size is None else f"{size:,}"
        raise DownloadFailed(f"it is larger than it should be: more than {found - 1:,} bytes, expected {expected}")


class _Answer:
    """Takes the server's answer: where its bytes belong in the part file, and how many there may be."""

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
            raise requests.ConnectionError("the server cannot continue the partial file; starting again")
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
        # urllib3 before 2.0 takes a body that ends early for a complete one.
        if self._end is not None and self._sink.tell() != self._end:
            raise requests.ConnectionError(f"the body ended after {self._sink.tell():,} of {self._end:,} bytes")
