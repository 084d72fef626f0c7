"""Reads and writes the files that hold arrays: NumPy archives and safetensors, both strictly and reproducibly.

Archives are read with checksums and without pickle, and written without time stamps. Safetensors files are read with
bfloat16; those that we wrote have a checksum.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import safetensors
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedRun
from cxc_eccv.parquet import array_of_npy, refuse_expansion
from cxc_eccv.runs.run import parse_json
from cxc_eccv.writing import replaced_file

END = struct.Struct("<4s16xH")
"""The last record of an archive: its mark, and the length of the comment after it."""

LOCAL = struct.Struct("<4s2xHH4xIIIHH")
"""The header of a member: mark, flags, method, checksum, sizes packed and plain, lengths of name and extra."""

STREAMED = 8
"""The flag of a member whose checksum and sizes follow it."""

DESCRIPTORS = (0, 12, 16, 20, 24)
"""Bytes that may follow a streamed member: checksum and sizes of 32 or 64 bits, with a mark or without."""

LARGE = 0xFFFFFFFF

METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "<i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "<u1",
}  # fmt: skip
NAMES = {np.dtype(code): name for name, code in TYPES.items() if name != "BF16"}
CHECKSUM = "sha256"
"""Entry of the metadata with our checksum of names, types, shapes and values, as the format has none."""


def read_arrays(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """All arrays of a ``.npz`` or ``.safetensors`` file by name, and the metadata of the latter."""
    return (read_npz(path), {}) if path.suffix.lower() == ".npz" else read_safetensors(path)


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], texts: Mapping[str, str | None]) -> None:
    """Write arrays and texts, but those that are None, to a ``.npz`` or ``.safetensors`` file in one step."""
    entries = {name: text for name, text in texts.items() if text is not None}
    with replaced_file(path) as part:
        if path.suffix.lower() == ".npz":
            write_npz(part, {**arrays, **{name: np.array(text) for name, text in entries.items()}})
        else:
            write_safetensors(part, arrays, entries)


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of a ``.npz`` file by name; refuses unaccounted bytes and pickled objects."""
    with path.open("rb") as file:
        if file.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX:
            raise MalformedRun(f"{path}: is a single .npy array; save named arrays with np.savez")
        try:
            with zipfile.ZipFile(file) as archive:
                _refuse_loose_bytes(file, archive)
                members = archive.infolist()
                _refuse_expansion(path, members)
                arrays = {_name(member): _read_member(path, archive, member) for member in members}
        except (zipfile.BadZipFile, ValueError, EOFError, OSError, NotImplementedError, struct.error) as error:
            raise MalformedRun(
                f"{path}: not a readable .npz archive, cut short or damaged ({error}); save it again"
            ) from None
    if len(arrays) < len(members):
        names = [member.filename for member in members]
        raise MalformedRun(f"{path}: holds an array twice among {names}; save it again")
    return arrays


def _refuse_expansion(path: Path, members: Sequence[zipfile.ZipInfo]) -> None:
    try:
        refuse_expansion(*(sum(getattr(member, size) for member in members) for size in ("compress_size", "file_size")))
    except ValueError as error:
        raise MalformedRun(f"{path}: {error}; save a file of real vectors or scores with np.savez") from None


def _refuse_loose_bytes(file: IO[bytes], archive: zipfile.ZipFile) -> None:
    """Raise BadZipFile if bytes belong to no member, or a header differs from the directory."""
    file.seek(-22, 2)  # the last record; NumPy writes no comment after it
    if END.unpack(file.read(22)) != (b"PK\x05\x06", 0):
        raise zipfile.BadZipFile("bytes follow the archive's end")
    members = sorted(archive.infolist(), key=lambda member: member.header_offset)
    starts = [*(member.header_offset for member in members), archive.start_dir]
    if starts[0] != 0:
        raise zipfile.BadZipFile("there are bytes before the archive or within its directory")
    for member, (start, stop) in zip(members, itertools.pairwise(starts), strict=True):
        spare = stop - start - _measure(file, member)
        if spare not in (DESCRIPTORS if member.flag_bits & STREAMED else (0,)):
            raise zipfile.BadZipFile(f"{spare} bytes after {member.filename} belong to no member")


def _measure(file: IO[bytes], member: zipfile.ZipInfo) -> int:
    """Bytes of a member with its header, which must equal the entry in the directory."""
    file.seek(member.header_offset)
    mark, flags, method, checksum, packed, plain, name, extra = LOCAL.unpack(file.read(LOCAL.size))
    file.seek(name, 1)
    fields = file.read(extra)
    if LARGE in (packed, plain):
        large = _split_fields(fields).get(1, b"")
        plain, packed = struct.unpack("<QQ", large[:16])
    directory = [member.flag_bits, member.compress_type, member.CRC, member.compress_size, member.file_size]
    header = [flags, method, checksum, packed, plain]
    if flags & STREAMED:
        directory, header = directory[:2], header[:2]
    if mark != b"PK\x03\x04" or header != directory:
        raise zipfile.BadZipFile(f"the header of {member.filename} and the directory differ")
    return LOCAL.size + int(name) + int(extra) + member.compress_size


def _split_fields(extra: bytes) -> dict[int, bytes]:
    fields = {}
    while len(extra) >= 4:
        kind, size = struct.unpack("<HH", extra[:4])
        fields[kind] = extra[4 : 4 + size]
        extra = extra[4 + size :]
    return fields


def _name(member: zipfile.ZipInfo) -> str:
    return member.filename.removesuffix(".npy")


def _read_member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    name = _name(member)
    if member.compress_type not in METHODS or member.flag_bits & 1:
        raise MalformedRun(f"{path}, {name}: is encrypted, or not compressed as by NumPy; save the file with np.savez")
    try:
        with archive.open(member) as stream:
            return array_of_npy(stream, member.file_size)
    except (ValueError, zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, MemoryError) as error:
        raise MalformedRun(f"{path}, {name}: cut short or damaged ({error}); save the file again") from None


def write_npz(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays uncompressed; equal arrays give equal bytes."""
    with zipfile.ZipFile(path, "w", allowZip64=True) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")
            with archive.open(entry, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array, order="C"), allow_pickle=False)


def read_safetensors(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """All tensors of a ``.safetensors`` file by name, with bfloat16 as float32, and its metadata."""
    content = path.read_bytes()
    try:
        tensors = safetensors.deserialize(content)  # type: ignore[no-untyped-call]
    except safetensors.SafetensorError as error:
        raise MalformedRun(f"{path}: not a safetensors file, cut short or damaged ({error}); save it again") from None
    length = int.from_bytes(content[:8], "little")
    header = parse_json(path, content[8 : 8 + length].decode())  # refuses repeated names, unlike the official reader
    metadata: dict[str, str] = header.get("__metadata__") or {}
    checksum = metadata.pop(CHECKSUM, None)
    if checksum not in (None, _checksum(tensors, metadata)):
        raise MalformedRun(f"{path}: its content does not match its checksum; the file is damaged, save it again")
    return {name: _array(path, name, entry) for name, entry in tensors}, metadata


def write_safetensors(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Write arrays; equal arrays give equal bytes, as the order of the metadata is fixed."""
    entries = {name: {"dtype": NAMES[array.dtype], "shape": list(array.shape)} for name, array in arrays.items()}
    data = {name: np.ascontiguousarray(array).data.cast("B") if array.size else b"" for name, array in arrays.items()}
    tensors = [(name, {**entry, "data": data[name]}) for name, entry in entries.items()]
    header: dict[str, Any] = {"__metadata__": {**metadata, CHECKSUM: _checksum(tensors, metadata)}}
    offset = 0
    for name, entry in entries.items():
        header[name] = {**entry, "data_offsets": [offset, offset + len(data[name])]}
        offset += len(data[name])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for part in data.values():
            file.write(part)


def _checksum(tensors: list[tuple[str, dict[str, Any]]], metadata: Mapping[str, str]) -> str:
    content = hashlib.sha256(json.dumps(sorted(metadata.items())).encode())
    for name, entry in sorted(tensors, key=lambda tensor: tensor[0]):
        content.update(json.dumps([name, entry["dtype"], list(entry["shape"])]).encode())
        content.update(entry["data"])
    return content.hexdigest()


def _array(path: Path, name: str, entry: Mapping[str, Any]) -> NDArray[Any]:
    kind = entry["dtype"]
    if kind not in TYPES:
        raise MalformedRun(f"{path}, {name}: has type {kind}; save one of {', '.join(TYPES)}")
    array = np.frombuffer(entry["data"], dtype=TYPES[kind]).reshape(entry["shape"])
    return (array.astype(np.uint32) << 16).view(np.float32) if kind == "BF16" else array
