"""The file a run is read from: there and readable, or a clear word; its text, its JSON and its hash."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NoReturn

from cxc_eccv.errors import MalformedRun

__all__ = ["json_of", "refuse_unreadable", "sha256_of", "text_of"]


def refuse_unreadable(path: Path) -> None:
    """Nothing where the file can be opened.

    Raises:
        MalformedRun: it is not there, is a folder, or may not be read.

    Example:
        >>> refuse_unreadable(Path("absent.npz"))
        Traceback (most recent call last):
        cxc_eccv.errors.MalformedRun: absent.npz: no such file
    """
    if not path.is_file():
        raise MalformedRun(f"{path}: {'is a folder, not a file' if path.is_dir() else 'no such file'}")
    try:
        path.open("rb").close()
    except OSError as error:
        raise MalformedRun(f"{path}: cannot be read ({error.strerror})") from None


def sha256_of(path: Path) -> str:
    """Hex digest of the file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def text_of(path: Path) -> str:
    """The file's text.

    Raises:
        MalformedRun: it is empty or not UTF-8.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise MalformedRun(f"{path}: byte {error.start} is not UTF-8; save the rankings as plain text") from None
    if not text.strip():
        raise MalformedRun(f"{path}: is empty; it may not have been written to its end, save it again")
    return text


def json_of(path: Path, text: str) -> Any:  # noqa: ANN401 - whatever the text holds
    """The value of a JSON text in which every number is whole and no key is given twice.

    Raises:
        MalformedRun: it is not JSON, is nested too deeply, or holds another number or a key twice.

    Example:
        >>> json_of(Path("run.json"), '{"i2t": {"5": [30, 1e1]}}')
        Traceback (most recent call last):
        cxc_eccv.errors.MalformedRun: run.json: the number 1e1 is no whole number; ids are the COCO ids
    """

    def unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entries = dict(pairs)
        if len(entries) < len(pairs):
            seen: set[str] = set()
            repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise MalformedRun(f"{path}: key {repeated!r:.80} is given twice; keep one")
        return entries

    def refuse(number: str) -> NoReturn:
        raise MalformedRun(f"{path}: the number {number:.40} is no whole number; ids are the COCO ids")

    try:
        return json.loads(text, object_pairs_hook=unrepeated, parse_float=refuse, parse_constant=refuse)
    except (ValueError, RecursionError) as error:  # a ValueError too where a number has thousands of digits
        raise MalformedRun(f"{path}: not JSON ({error}); it may be cut short, save it again") from None
