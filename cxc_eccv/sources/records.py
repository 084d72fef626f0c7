"""The records a catalog is made of, and the checks that turn TOML tables into them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from cxc_eccv.errors import MalformedSource

__all__ = ["Archive", "Entry", "Group", "record_from"]


@dataclass(frozen=True, slots=True)
class Group:
    """One data source: files that share authors, terms and citations.

    Attributes:
        name: key of the group.
        title: what it is, for headings.
        licence: its terms in words.
        homepage: where its authors present it.
        citations: keys of the papers to cite, the source's own first.
    """

    name: str
    title: str
    licence: str
    homepage: str
    citations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Archive:
    """A zip archive that holds several raw files.

    Attributes:
        name: key of the archive.
        url: official address.
        path: place in the download cache.
        sha256: 64 hexadecimal digits, or None where none is published.
        size: bytes, or None where unknown.
    """

    name: str
    url: str
    path: str
    sha256: str | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One raw file.

    Attributes:
        name: key of the file.
        group: key of its group.
        path: place in a mirror folder and in the download cache; a mirror may hold ``path + ".gz"`` instead.
        title: what the file holds.
        url: official address, that of the archive for a member; None for derived and user-provided files.
        sha256: of the original bytes, 64 hexadecimal digits; None where none is published.
        size: original bytes; None where unknown.
        licence: terms in words, the group's unless the file has its own.
        citation: key of the paper to cite.
        archive: key of the archive that holds the file, or None.
        member: name inside the archive, or None.
        optional: nothing that is built by default needs the file.
        derived_from: names of the entries this file was made from; empty for an original.
    """

    name: str
    group: str
    path: str
    title: str
    url: str | None = None
    sha256: str | None = None
    size: int | None = None
    licence: str = ""
    citation: str = ""
    archive: str | None = None
    member: str | None = None
    optional: bool = False
    derived_from: tuple[str, ...] = ()


Record = TypeVar("Record", Group, Archive, Entry)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_address(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("http://", "https://"))


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_text(item) for item in value)


def _is_inner_path(value: object) -> bool:
    if not isinstance(value, str) or not value or "\\" in value:
        return False
    path = PurePosixPath(value)
    return not path.is_absolute() and ".." not in path.parts and path.as_posix() == value and value != "."


FORMS: dict[str, tuple[Callable[[object], bool], str]] = {
    "sha256": (
        lambda value: isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value) is not None,
        "64 lower-case hexadecimal digits",
    ),
    "size": (lambda value: type(value) is int and value > 0, "a positive number of bytes"),
    "optional": (lambda value: isinstance(value, bool), "true or false"),
    "derived_from": (_is_texts, "a list of names"),
    "citations": (_is_texts, "a list of names"),
    "path": (_is_inner_path, "a path inside the mirror folder, with forward slashes"),
    "url": (_is_address, "an http(s) address"),
    "homepage": (_is_address, "an http(s) address"),
}
"""Key to a test of its value and the value's description; any other key holds text."""


def record_from(kind: type[Record], file: Path, place: str, table: object, inherited: Mapping[str, Any]) -> Record:
    """One record from one TOML table.

    Args:
        kind: the record's class.
        file: the catalog file, for errors.
        place: key of the table, for errors.
        table: the TOML value.
        inherited: field values that the table may leave out, ``name`` included.

    Raises:
        MalformedSource: not a table, an unknown or missing key, a value of the wrong form.

    Example:
        >>> record_from(Archive, Path("c.toml"), "archives.a", {"url": "https://x/a.zip"}, {"name": "a"})
        Traceback (most recent call last):
        ...
        cxc_eccv.errors.MalformedSource: c.toml, archives.a: found no key 'path', expected one
    """
    if not isinstance(table, dict):
        raise MalformedSource(file, place, repr(table), "a table")
    known = [item.name for item in fields(kind) if item.name != "name"]
    for key, value in table.items():
        if key not in known:
            raise MalformedSource(file, place, f"the unknown key {key!r}", f"one of {', '.join(known)}")
        holds, description = FORMS.get(key, (_is_text, "text"))
        if not holds(value):
            raise MalformedSource(file, f"{place}.{key}", repr(value), description)
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    values: dict[str, Any] = {**inherited, **given}
    for item in fields(kind):
        if item.default is MISSING and item.name not in values:
            raise MalformedSource(file, place, f"no key {item.name!r}", "one")
    return kind(**values)
