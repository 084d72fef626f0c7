"""Hashes of cached files whose official hash is not published: recorded at first use, enforced from then on."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.content import Expected, sha256_of
from cxc_eccv.sources.own_file import open_own
from cxc_eccv.sources.reading import shown
from cxc_eccv.sources.records import Archive, Entry

__all__ = ["expected_of", "pin", "record_of"]


SHA256 = re.compile(rb"[0-9a-f]{64}")


def record_of(file: Path) -> Path:
    """The file beside ``file`` that keeps its hash, in the form of ``sha256sum``.

    Example:
        >>> record_of(Path("coco/dataset_coco.json")).name
        'dataset_coco.json.sha256'
    """
    return file.with_name(f"{file.name}.sha256")


def expected_of(item: Entry | Archive, file: Path) -> Expected:
    """What a cached file must hold: the catalog's hash, else the recorded one, else unknown.

    Raises:
        MalformedSource: the record holds no hash.
    """
    if item.sha256 is not None or not record_of(file).is_file():
        return Expected(item.sha256, item.size)
    record = record_of(file)
    words = record.read_bytes().split()[:1]
    if not words or not SHA256.fullmatch(words[0]):
        expected = f"the sha256 of {file.name}; delete both to download it again"
        raise MalformedSource(record, "", shown(words[0]) if words else "an empty file", expected)
    return Expected(words[0].decode(), item.size)


def pin(item: Entry | Archive, file: Path) -> None:
    """Record the hash of a cached file, where the catalog has none and nothing is recorded yet."""
    record = record_of(file)
    if item.sha256 is not None or record.is_file():
        return
    draft = record.with_name(f"{record.name}.{os.getpid()}.part")
    # A cache prepared by someone else may be read-only: then there is nothing to enforce, and no reason to fail.
    with suppress(PermissionError):
        with open_own(draft) as sink:
            sink.write(f"{sha256_of(file)}  {file.name}\n".encode())
        draft.replace(record)
