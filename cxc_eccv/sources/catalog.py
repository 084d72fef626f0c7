"""The catalog of raw files: its records, the checks of its TOML file, look-ups by name; and how the data is named."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from cxc_eccv.damage import refuse_damage
from cxc_eccv.errors import MalformedSource, SourceMissing, UnknownName
from cxc_eccv.sources.reading import check_content
from cxc_eccv.types.provenance import DataFacts, ModifiedFile
from cxc_eccv.types.strict_json import ANYTHING, Each, Kind, Loose, Shape


@dataclass(frozen=True, slots=True)
class Group:
    """One data source: files with common authors, terms and citations (keys, with its own paper first)."""

    name: str
    title: str
    licence: str
    homepage: str
    citations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Archive:
    """A zip archive that holds several raw files; ``path`` is its place in the download cache."""

    name: str
    url: str
    path: str
    sha256: str | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One raw file."""

    name: str
    group: str
    path: str  # in the download cache and in a mirror folder, which may hold it with .gz instead
    title: str
    url: str | None = None  # that of the archive for a member; None for derived and user-provided files
    sha256: str | None = None  # None where none is published
    size: int | None = None  # in bytes, as it was published
    licence: str = ""  # the group's, unless the file has its own
    archive: str | None = None  # key of the archive that holds the file
    member: str | None = None  # its name there
    derived_from: tuple[str, ...] = ()  # names of entries


Record = TypeVar("Record", Group, Archive, Entry)


def _written(pattern: str, expected: str) -> Kind:
    return Kind(lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None, expected)


TEXT_SHAPE = _written(r"(?s).*\S.*", "text")
ADDRESS_SHAPE = _written(r"https?://.+", "an http(s) address")
Shapes = Mapping[str, Shape]

FIELD_SHAPES: Shapes = {
    "sha256": _written(r"[0-9a-f]{64}", "64 lower-case hexadecimal digits"),
    "path": _written(
        r"(?!(.*/)?\.{1,2}(/|$))[^/\\]+(/[^/\\]+)*", "a path inside the mirror folder, with forward slashes"
    ),
    "url": ADDRESS_SHAPE,
    "homepage": ADDRESS_SHAPE,
    "size": Kind(lambda value: type(value) is int and value > 0, "a positive number of bytes"),
    "citations": [TEXT_SHAPE],
    "derived_from": [TEXT_SHAPE],
}
"""Key to what its value must be; other keys hold any text."""


def _check_table(file: Path, place: str, table: object, shape: Loose) -> None:
    check_content(file, table, shape, place)
    for key in table if isinstance(table, dict) else ():
        if key not in shape.entries:
            raise MalformedSource(file, place, f"the unknown key {key!r}", f"one of {', '.join(shape.entries)}")


OFFICIAL = "official"  # Edition of the data as its authors published it

OFFICIAL_FILE = Path(__file__).with_name("catalog.toml")

INHERITED = ("group", "path", "title", "licence")
"""Values that an entry of a mirror folder's catalog inherits from the official one; address, hash and size are not."""

CATALOG_SECTIONS = ("groups", "archives", "entries")


@dataclass(frozen=True, slots=True, eq=False)
class Catalog:
    """All raw files of one edition of the data: records by name, in the order of the file; citations are BibTeX."""

    edition: str
    version: str
    groups: Mapping[str, Group] = field(repr=False)
    archives: Mapping[str, Archive] = field(repr=False)
    citations: Mapping[str, str] = field(repr=False)
    entries: Mapping[str, Entry] = field(repr=False)

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())

    def entry(self, name: str) -> Entry:
        """The file with a name."""
        if name not in self.entries:
            raise UnknownName("source", name, self.entries, listed="sources")
        return self.entries[name]

    def group(self, name: str) -> Group:
        """The group with a name."""
        if name not in self.groups:
            raise UnknownName("source group", name, self.groups)
        return self.groups[name]

    def of_group(self, name: str) -> tuple[Entry, ...]:
        """The files of a group, in catalog order."""
        group = self.group(name)
        return tuple(entry for entry in self if entry.group == group.name)

    def modified(self, files: Mapping[str, str]) -> dict[str, ModifiedFile]:
        """The files (name to hash) that differ from the catalog."""
        known = {name: self.entry(name).sha256 for name in sorted(files) if name in self}
        return {
            name: ModifiedFile(expected, files[name])
            for name, expected in known.items()
            if expected is not None and files[name] != expected
        }


def load_catalog(path: str | Path | None = None, *, base: Catalog | None = None) -> Catalog:
    """Read and check a catalog: a TOML file, or the official catalog.

    The catalog of a mirror folder extends the official one, its ``base``: it may list only some entries and leave out
    ``version``, groups and inherited values. Entries that it does not list stay as they are in the base.
    """
    file = OFFICIAL_FILE if path is None else Path(path)
    if not file.is_file():
        raise SourceMissing(f"no catalog at {file}")
    return _parse(file.resolve(), file.stat().st_mtime_ns, base)


@lru_cache(maxsize=32)
def _parse(file: Path, _mtime_ns: int, base: Catalog | None) -> Catalog:
    with refuse_damage(file):
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    base = base or Catalog("", "", {}, {}, {}, {})
    shape: Shapes = {
        "edition": TEXT_SHAPE,
        "version": TEXT_SHAPE,
        "citations": Each(TEXT_SHAPE),
        **dict.fromkeys(CATALOG_SECTIONS, Each(ANYTHING)),
    }
    _check_table(file, "", document, Loose(shape, frozenset(["edition"] if base.version else ["edition", "version"])))
    groups = {**base.groups, **_parse_records(Group, file, document, "groups", {})}
    archives = {**base.archives, **_parse_records(Archive, file, document, "archives", {})}
    entries = _parse_records(Entry, file, document, "entries", base.entries)
    listed = {name: _complete(file, entry, groups, archives) for name, entry in entries.items()}
    catalog = Catalog(
        document["edition"],
        document.get("version", base.version),
        groups=groups,
        archives=archives,
        citations={**base.citations, **{key: text.strip() for key, text in document.get("citations", {}).items()}},
        entries={**base.entries, **listed},
    )
    for group in groups.values():
        _check_known(file, f"groups.{group.name}.citations", group.citations, catalog.citations)
    for entry in listed.values():
        _check_known(file, f"entries.{entry.name}.derived_from", entry.derived_from, catalog.entries)
    return catalog


def _parse_records(
    kind: type[Record], file: Path, document: Mapping[str, Any], section: str, base: Mapping[str, Entry]
) -> dict[str, Record]:
    """The records of a section; those of ``base`` fill in what an entry leaves out."""
    records = {}
    entries = {item.name: FIELD_SHAPES.get(item.name, TEXT_SHAPE) for item in fields(kind) if item.name != "name"}
    needed = {item.name for item in fields(kind) if item.default is MISSING} - {"name"}
    for name, table in document.get(section, {}).items():
        inherited = {key: getattr(base[name], key) for key in INHERITED} if name in base else {}
        _check_table(file, f"{section}.{name}", table, Loose(entries, frozenset(needed - set(inherited))))
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
        records[name] = kind(**{"name": name} | inherited | values)
    return records


def _complete(file: Path, entry: Entry, groups: Mapping[str, Group], archives: Mapping[str, Archive]) -> Entry:
    """The entry with the terms of its group and the address of its archive."""
    _check_known(file, f"entries.{entry.name}.group", [entry.group], groups)
    licence = entry.licence or groups[entry.group].licence
    if entry.archive is None:
        return replace(entry, licence=licence)
    _check_known(file, f"entries.{entry.name}.archive", [entry.archive], archives)
    return replace(entry, licence=licence, url=archives[entry.archive].url)


def _check_known(file: Path, place: str, names: Iterable[str], known: Mapping[str, object]) -> None:
    for name in names:
        if name not in known:
            raise MalformedSource(file, place, repr(name), f"one of {', '.join(known)}")


def fingerprint_files(files: Mapping[str, str]) -> str:
    """Hex sha256 over the names and hashes of raw files, in any order."""
    lines = "".join(f"{name} {digest}\n" for name, digest in sorted(files.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


SPLITS = ("train", "restval", "validation", "test")

RAW_SPLIT = {"train": "train", "restval": "restval", "validation": "val", "test": "test"}

SPLIT_OF_RAW = {raw: split for split, raw in RAW_SPLIT.items()}

SPLIT_NAMES = {"train": "train", "restval": "restval", "val": "validation", "validation": "validation", "test": "test"}

ALL_SPLITS = "all"
"""All splits of a collection that are at hand, as one."""

SAMPLE = "sample"
"""The embedded sample: its edition, and what a user writes for its folder (``./sample`` is another folder)."""

DRAWINGS = {"train": 60, "restval": 10, "validation": 60, "test": 60}
"""Images of each split of the embedded sample."""


def describe_data(data: DataFacts, split: str = "", collection: str = "COCO") -> str:
    """The split and the edition of data in words; empty for data without an edition.

    Args:
        data: its edition and modified files are named.
        split: empty for data of several splits or none.
        collection: name of the images and captions; empty where there are several or none.

    Example:
        >>> describe_data(DataFacts(edition="official"), "test")
        'test split of COCO (official data)'
        >>> describe_data(DataFacts(edition="sample"), "test")
        'test split of the embedded sample (60 drawings): not results on COCO'
    """
    edition = data.edition
    modified = data.modified
    if not edition:
        return ""
    if edition == SAMPLE:
        drawings = DRAWINGS.get(split, sum(DRAWINGS.values()))
        name = f"{'the ' if split else ''}embedded sample ({drawings} drawings): not results on COCO"
    elif edition != OFFICIAL or modified:
        kind = "modified data" if modified else f"edition {edition!r}"
        name = f"{', '.join(filter(None, [collection, kind]))}: not the official data"
    else:
        name = f"{collection} (official data)" if collection else "official data"
    return f"{split} split{'s' * (split == ALL_SPLITS)} of {name}" if split else name
