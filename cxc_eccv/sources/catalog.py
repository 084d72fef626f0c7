"""The catalog of raw files: official address, hash, size, licence, citation and place in a mirror folder."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from cxc_eccv.errors import MalformedSource, SourceMissing, UnknownName
from cxc_eccv.sources.records import Archive, Entry, Group, record_from

__all__ = ["OFFICIAL", "Archive", "Catalog", "Entry", "Group", "load_catalog"]

OFFICIAL = "official"
"""Edition of the data as its authors published it."""

OFFICIAL_FILE = Path(__file__).with_name("catalog.toml")

Source = TypeVar("Source", Group, Archive)

SECTIONS = ("edition", "version", "groups", "archives", "citations", "entries")


@dataclass(frozen=True, slots=True, eq=False)
class Catalog:
    """All raw files of one edition of the data.

    Attributes:
        edition: ``official``, or the name that a mirror folder's own catalog gives itself (``sample``).
        version: version of the data.
        groups, archives, entries: key to record, in the order of the file.
        citations: key to BibTeX.

    Example:
        >>> catalog = load_catalog()
        >>> catalog.edition, "sts_val" in catalog, catalog.entry("sts_val").size
        ('official', True, 3092201)
        >>> [entry.path for entry in catalog.of_group("pcme")][:1]
        ['coco/pcme_coco_train_ids.npy']
        >>> print(catalog.bibtex("cxc").splitlines()[0])
        @inproceedings{parekh2021crisscrossed,
    """

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
        """The file of that name.

        Raises:
            UnknownName: there is none; suggests the nearest.
        """
        if name not in self.entries:
            raise UnknownName("source", name, self.entries)
        return self.entries[name]

    def group(self, name: str) -> Group:
        """The group of that name.

        Raises:
            UnknownName: there is none; suggests the nearest.
        """
        if name not in self.groups:
            raise UnknownName("source group", name, self.groups)
        return self.groups[name]

    def of_group(self, name: str) -> tuple[Entry, ...]:
        """The files of a group, in catalog order."""
        group = self.group(name)
        return tuple(entry for entry in self if entry.group == group.name)

    def modified(self, files: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """Those of some raw files whose content is not what the catalog describes.

        Args:
            files: catalog name to the sha256 of the file that was read.

        Returns:
            Name to ``expected`` and ``found``; empty where all is as it should be. Of a file without a published hash
            nothing can be said.

        Example:
            >>> load_catalog().modified({"sts_val": "ab12"})["sts_val"]["found"]
            'ab12'
        """
        known = {name: self.entry(name).sha256 for name in sorted(files)}
        return {
            name: {"expected": expected, "found": files[name]}
            for name, expected in known.items()
            if expected is not None and files[name] != expected
        }

    def bibtex(self, group: str) -> str:
        """BibTeX of all papers of a group, its own paper first."""
        return "\n\n".join(self.citations[key] for key in self.group(group).citations)


def load_catalog(path: str | Path | None = None, *, base: Catalog | None = None) -> Catalog:
    """Read and check a catalog.

    Args:
        path: a TOML file in the form of the official ``catalog.toml``; None for the official one.
        base: catalog that the file builds on, as a mirror folder's own catalog does on the official one. The file may
            then list a subset, and leave out ``version``, groups, and ``group``, ``path``, ``title``, ``licence``,
            ``citation`` and ``optional`` of entries that the base has. Addresses, hashes and sizes are never inherited
            by an entry it lists; entries it does not list stay as in the base.

    Raises:
        SourceMissing: no such file.
        MalformedSource: not TOML, an unknown or missing key, a hash that is not 64 hexadecimal digits, a path given
            twice, a reference to nothing; names file and key.

    Example:
        >>> len(load_catalog().entries), load_catalog().version
        (72, '1.0.0')
    """
    file = OFFICIAL_FILE if path is None else Path(path)
    if not file.is_file():
        raise SourceMissing(f"no catalog at {file}")
    return _parsed(file.resolve(), file.stat().st_mtime_ns, base)


@lru_cache(maxsize=32)
def _parsed(file: Path, _mtime_ns: int, base: Catalog | None) -> Catalog:
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise MalformedSource(file, "", str(error), "valid TOML") from None
    for key in document:
        if key not in SECTIONS:
            raise MalformedSource(file, "", f"the unknown key {key!r}", f"one of {', '.join(SECTIONS)}")
    base = base or Catalog("", "", {}, {}, {}, {})
    groups = _records(Group, file, document, "groups", base.groups)
    archives = _records(Archive, file, document, "archives", base.archives)
    texts = {key: _text(file, f"citations.{key}", text) for key, text in _section(file, document, "citations")}
    listed = {
        name: _completed(
            file, record_from(Entry, file, f"entries.{name}", table, _inherited(name, base)), groups, archives
        )
        for name, table in _section(file, document, "entries")
    }
    catalog = Catalog(
        edition=_text(file, "edition", document.get("edition")),
        version=_text(file, "version", document.get("version", base.version)),
        groups=MappingProxyType(groups),
        archives=MappingProxyType(archives),
        citations=MappingProxyType({**base.citations, **{key: text.strip() for key, text in texts.items()}}),
        entries=MappingProxyType({**base.entries, **listed}),
    )
    _check_references(file, catalog)
    return catalog


def _records(
    kind: type[Source], file: Path, document: dict[str, Any], section: str, known: Mapping[str, Source]
) -> dict[str, Source]:
    tables = _section(file, document, section)
    own = {name: record_from(kind, file, f"{section}.{name}", table, {"name": name}) for name, table in tables}
    return {**known, **own}


def _section(file: Path, document: dict[str, Any], key: str) -> Iterable[tuple[str, object]]:
    table = document.get(key, {})
    if not isinstance(table, dict):
        raise MalformedSource(file, key, repr(table), "a table")
    return table.items()


def _text(file: Path, place: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise MalformedSource(file, place, "nothing" if value is None else repr(value), "text")
    return value


def _inherited(name: str, base: Catalog) -> dict[str, object]:
    fields = ("group", "path", "title", "licence", "citation", "optional")
    entry = base.entries.get(name)
    return {"name": name} | ({key: getattr(entry, key) for key in fields} if entry else {})


def _completed(file: Path, entry: Entry, groups: Mapping[str, Group], archives: Mapping[str, Archive]) -> Entry:
    """The entry with its group's terms and its archive's address."""
    place = f"entries.{entry.name}"
    if entry.group not in groups:
        raise MalformedSource(file, f"{place}.group", repr(entry.group), f"one of {', '.join(groups)}")
    if (entry.archive is None) != (entry.member is None):
        raise MalformedSource(file, place, "one of archive and member", "both or neither")
    if entry.archive is not None and entry.archive not in archives:
        raise MalformedSource(file, f"{place}.archive", repr(entry.archive), f"one of {', '.join(archives)}")
    if entry.archive is not None and entry.url is not None:
        raise MalformedSource(file, place, "both url and archive", "one of them")
    group = groups[entry.group]
    return replace(
        entry,
        url=archives[entry.archive].url if entry.archive else entry.url,
        licence=entry.licence or group.licence,
        citation=entry.citation or group.citations[0],
    )


def _check_references(file: Path, catalog: Catalog) -> None:
    for group in catalog.groups.values():
        _check_known(file, f"groups.{group.name}.citations", group.citations, catalog.citations)
    owners: dict[str, str] = {}
    for item in (*catalog, *catalog.archives.values()):
        section = "entries" if isinstance(item, Entry) else "archives"
        if item.path in owners:
            found = f"{item.path!r}, the path of {owners[item.path]} too"
            raise MalformedSource(file, f"{section}.{item.name}.path", found, "every path once")
        owners[item.path] = f"{section}.{item.name}"
    for entry in catalog:
        _check_known(file, f"entries.{entry.name}.citation", [entry.citation], catalog.citations)
        _check_known(file, f"entries.{entry.name}.derived_from", entry.derived_from, catalog.entries)


def _check_known(file: Path, place: str, names: Iterable[str], known: Mapping[str, object]) -> None:
    for name in names:
        if name not in known:
            raise MalformedSource(file, place, repr(name), f"one of {', '.join(known)}")
