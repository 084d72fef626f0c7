"""Reads and writes safetensors files, with bfloat16, and with a checksum in files that we wrote."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedRun
from cxc_eccv.runs.checks import parse_json

TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "<i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "<u1",
}  # fmt: skip
NAMES = {np.dtype(code): name for name, code in TYPES.items() if name != "BF16"}
CHECKSUM = "sha256"
"""Entry of the metadata with our checksum of names, types, shapes and values, as the format has none."""


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
