"""A cache of parsed raw files, as Arrow files.

Parsing JSON and CSV takes seconds; mapping tables into memory takes milliseconds. The key of an entry covers the hash
of the raw bytes and the source code of the readers, so a change of either is noticed. The content of an entry is
checked on every use, and a damaged entry is replaced. If nothing can be written, the raw files are parsed every time.

An entry is a sequence of uncompressed Arrow streams. The first holds the outline of the result: which parts are in
which of the other tables. At the end is a digest of all streams and of the key.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources import readers
from cxc_eccv.sources.download import fingerprint, tables_folder

Content = TypeVar("Content")

RECORDS: dict[str, Callable[..., object]] = {
    name: getattr(readers, name)
    for name in ("CategorySets", "EntailmentPairs", "Instances", "KarpathySplit", "SentencePairs")
}
"""Types that readers return besides tables, arrays, tuples and mappings; results of other types are not kept."""

SMALLEST = 1 << 16  # bytes of raw files below which parsing is as quick as a look into the cache

KEPT = 100  # newest entries that are kept, three times what all data of one edition needs

LONGEST_WRITE = 3600.0  # seconds after which a draft must be from a killed process

DIGEST_SIZE = 32

FAULTS = (OSError, RuntimeError, TypeError, ValueError, MalformedSource, pa.ArrowException)
"""Errors of the cache, which are ignored; the reader reports errors of raw files itself."""

FORM = 1  # version of the entries; raise it when :func:`_outline` or the files change


def parse(reader: Callable[..., Content], files: Path | Sequence[Path], *arguments: str) -> Content:
    """``reader(files, *arguments)`` through the cache, for readers of this package."""
    paths = [files] if isinstance(files, Path) else list(files)
    entry = None
    with suppress(*FAULTS):
        if sum(path.stat().st_size for path in paths) >= SMALLEST:
            folder, key = tables_folder(), _key(reader, paths, arguments)
            entry = folder / f"{hashlib.sha256(key).hexdigest()}.arrow" if folder and key else None
    if entry is None:
        return reader(files, *arguments)
    with suppress(*FAULTS):
        return cast("Content", _load(entry, key))
    content = reader(files, *arguments)
    with suppress(*FAULTS):
        if _key(reader, paths, arguments) == key:  # the raw files did not change meanwhile
            _save(entry, key, content)
    return content


def _key(reader: Callable[..., object], paths: Sequence[Path], arguments: Sequence[str]) -> bytes:
    """Everything that the result depends on, with the suffixes of the files; empty if the reader is unknown."""
    name = getattr(reader, "__name__", "")
    if getattr(readers, name, None) is not reader:
        return b""
    raw = [(path.suffixes, *fingerprint(path)) for path in paths]
    return json.dumps([FORM, readers_version(), name, arguments, raw]).encode()


@cache
def readers_version() -> str:
    """Digest of the source code of the readers; OSError if the package comes without source."""
    digest = hashlib.sha256(pa.__version__.encode())
    for folder in ("sources", "sources/readers", "types"):
        files = sorted(Path(__file__).parents[1].glob(f"{folder}/*.py"))
        if not files:
            raise FileNotFoundError(folder)
        for file in files:
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _load(entry: Path, key: bytes) -> object:
    """The result of an entry; OSError if it cannot be read, ValueError if it is damaged or of another key."""
    if not entry.is_file():  # reading a pipe would wait
        raise FileNotFoundError(entry)
    with pa.memory_map(str(entry)) as file:
        whole = file.read_buffer()
    content = whole.slice(0, max(whole.size - DIGEST_SIZE, 0))
    if _digest(key, content) != whole.slice(content.size).to_pybytes():
        raise ValueError("the digest differs")
    stream, tables = pa.BufferReader(content), []
    while stream.tell() < content.size:
        tables.append(pa.ipc.open_stream(stream).read_all())
    return _result(json.loads(tables[0]["outline"][0].as_py()), tables)


def _save(entry: Path, key: bytes, content: object) -> None:
    """Write an entry beside its place and move it there, so that nobody reads half of it."""
    tables = [pa.table({})]
    tables[0] = pa.table({"outline": [json.dumps(_outline(content, tables))]})
    sink = pa.BufferOutputStream()
    for table in tables:
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
    written = sink.getvalue()
    entry.parent.mkdir(parents=True, exist_ok=True)
    draft = entry.with_name(f"{secrets.token_hex(16)}.part")
    try:
        with draft.open("xb") as file:
            file.write(written)
            file.write(_digest(key, written))
        draft.replace(entry)
    finally:
        draft.unlink(missing_ok=True)
    _drop_oldest(entry.parent)


def _drop_oldest(folder: Path) -> None:
    """Remove the oldest entries, and the drafts of killed processes."""
    written = {path: path.stat().st_mtime for path in folder.iterdir() if path.suffix in (".arrow", ".part")}
    entries = sorted((path for path in written if path.suffix == ".arrow"), key=written.__getitem__)
    drafts = [path for path in written if path.suffix == ".part" and written[path] < time.time() - LONGEST_WRITE]
    for path in (*entries[:-KEPT], *drafts):
        path.unlink(missing_ok=True)


def _digest(key: bytes, content: pa.Buffer) -> bytes:
    """Digest of key and content: an entry under another name is invalid."""
    digest = hashlib.blake2b(key, digest_size=DIGEST_SIZE)
    digest.update(content)
    return digest.digest()


def _outline(value: object, tables: list[pa.Table]) -> object:
    """A result as JSON; its tables and arrays are appended to ``tables``."""
    if isinstance(value, pa.Table):
        tables.append(value)
        return {"table": len(tables) - 1}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        tables.append(pa.table({"values": value.reshape(-1)}))
        return {"array": len(tables) - 1, "shape": value.shape}
    if is_dataclass(value) and type(value).__name__ in RECORDS:
        parts = {field.name: _outline(getattr(value, field.name), tables) for field in fields(value)}
        return {"record": type(value).__name__, "parts": parts}
    if isinstance(value, Mapping):
        return {"mapping": [[name, _outline(item, tables)] for name, item in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_outline(item, tables) for item in value]}
    if not isinstance(value, str | int | float):
        raise TypeError(f"cannot keep {type(value)}")
    return {"plain": value}


def _result(outline: Any, tables: Sequence[pa.Table]) -> object:  # noqa: ANN401 - JSON holds anything
    """The result of an outline, the inverse of :func:`_outline`."""
    match outline:
        case {"table": number}:
            return tables[number]
        case {"array": number, "shape": shape}:
            return tables[number]["values"].to_numpy().reshape(shape)
        case {"record": name, "parts": parts}:
            return RECORDS[name](**{field: _result(part, tables) for field, part in parts.items()})
        case {"mapping": items}:
            return {name: _result(item, tables) for name, item in items}
        case {"tuple": items}:
            return tuple(_result(item, tables) for item in items)
    return outline["plain"]
