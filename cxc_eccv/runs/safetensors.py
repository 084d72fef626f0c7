"""The safetensors format, bfloat16 included: length of the header, the header in JSON, then raw data."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedRun

__all__ = ["read_safetensors", "write_safetensors"]

TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "<i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "<u1",
}  # fmt: skip
NAMES = {np.dtype(code): name for name, code in TYPES.items() if name != "BF16"}


def read_safetensors(path: Path) -> dict[str, NDArray[Any]]:
    """All tensors of a ``.safetensors`` file by name; bfloat16 becomes float32, which holds it exactly.

    Raises:
        MalformedRun: cut short, a damaged header, or a tensor type that NumPy has no place for.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_safetensors(Path(folder) / "a.safetensors", {"ids": np.array([3, 4])})
        ...     read_safetensors(Path(folder) / "a.safetensors")
        {'ids': array([3, 4])}
    """
    header, start = _header(path)
    return {name: _tensor(path, name, entry, start) for name, entry in header.items()}


def write_safetensors(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays of the plain integer and float types."""
    header: dict[str, Any] = {}
    offset = 0
    for name, array in arrays.items():
        end = offset + array.nbytes
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(np.ascontiguousarray(array).data)


def _header(path: Path) -> tuple[dict[str, Any], int]:
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > size - 8:
            raise MalformedRun(f"{path}: {size} bytes, cut short before the end of its header; save it again")
        text = file.read(length)
    try:
        header = json.loads(text)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise MalformedRun(f"{path}: not a safetensors file, its header is not JSON ({error})") from None
    if not isinstance(header, dict):
        raise MalformedRun(f"{path}: not a safetensors file, its header is not a JSON object")
    header.pop("__metadata__", None)
    return header, 8 + length


def _tensor(path: Path, name: str, entry: Any, start: int) -> NDArray[Any]:  # noqa: ANN401 - parsed JSON
    try:
        kind, shape = entry["dtype"], [int(size) for size in entry["shape"]]
        begin, end = (int(offset) for offset in entry["data_offsets"])
    except (KeyError, TypeError, ValueError):
        raise MalformedRun(f"{path}, {name}: header entry {entry!r} lacks dtype, shape or data_offsets") from None
    if kind not in TYPES:
        raise MalformedRun(f"{path}, {name}: type {kind}; save one of {', '.join(TYPES)}")
    stored, needed = path.stat().st_size - start, math.prod(shape) * np.dtype(TYPES[kind]).itemsize
    if not 0 <= begin <= end <= stored or end - begin != needed:
        raise MalformedRun(
            f"{path}, {name}: {kind} {tuple(shape)} needs {needed} bytes and is placed at {begin}:{end} of {stored}; "
            "the file is cut short or damaged, save it again"
        )
    array = np.fromfile(path, dtype=TYPES[kind], count=math.prod(shape), offset=start + begin).reshape(shape)
    return (array.astype(np.uint32) << 16).view(np.float32) if kind == "BF16" else array
