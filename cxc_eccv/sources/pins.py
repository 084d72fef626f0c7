"""Hashes of cached files whose official hash is not published: recorded at first use, enforced from then on."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from cxc_eccv.sources.content import Expected, sha256_of
from cxc_eccv.sources.records import Archive, Entry

__all__ = ["expected_of", "pin", "record_of"]


def record_of(file: Path) -> Path:
    """The file beside ``file`` that keeps its hash, in the form of ``sha256sum``.

    Example:
        >>> record_of(Path("coco/dataset_coco.json")).name
        'dataset_coco.json.sha256'
    """
    return file.with_name(f"{file.name}.sha256")


def expected_of(item: Entry | Archive, file: Path) -> Expected:
    """What a cached file must hold: the catalog's hash, else the recorded one, else unknown."""
    if item.sha256 is not None or not record_of(file).is_file():
        return Expected(item.sha256, item.size)
    return Expected(record_of(file).read_text(encoding="utf-8").split()[0], item.size)


def pin(item: Entry | Archive, file: Path) -> None:
    """Record the hash of a cached file, where the catalog has none and nothing is recorded yet."""
    record = record_of(file)
    if item.sha256 is not None or record.is_file():
        return
    draft = record.with_name(f"{record.name}.{os.getpid()}.part")
    # A cache prepared by someone else may be read-only: then there is nothing to enforce, and no reason to fail.
    with suppress(PermissionError):
        draft.write_text(f"{sha256_of(file)}  {file.name}\n", encoding="utf-8")
        draft.replace(record)
