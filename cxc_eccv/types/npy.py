"""A limit on the expansion of compressed files, and a strict reader of npy: sizes must match, nothing is unpickled."""

from __future__ import annotations

import ast
import math
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

ALWAYS = 1 << 30
"""Bytes to which every file may expand: a score matrix of 5,000 images and 25,000 captions in float64."""

RATIO = 64
"""How many times its size a larger file may expand; real tables, texts and vectors stay below 30."""


def refuse_expansion(packed: int, unpacked: int, ratio: int = RATIO) -> None:
    """Raise ValueError if ``packed`` bytes expand to more than :data:`ALWAYS` and to more than ``ratio`` times."""
    most = max(ALWAYS, ratio * packed)
    if unpacked > most:
        raise ValueError(f"{packed:,} bytes that expand to {unpacked:,}, expected at most {most:,}")


LENGTH_BYTES = {(1, 0): 2, (2, 0): 4}
LONGEST_HEADER = 10_000
MOST_DIMENSIONS = 32
KINDS = "biufcU"
BYTES_AT_ONCE = 2**24
PICKLED = (
    "holds Python objects (object dtype), which are never unpickled; save a plain number array, for example "
    "np.stack(vectors).astype('float32')"
)


def array_of_npy(file: IO[bytes], size: int) -> NDArray[Any]:
    """The array of an npy stream, which must end with the array."""
    version = np.lib.format.read_magic(file)
    if version not in LENGTH_BYTES:
        raise ValueError(f"npy format {'.'.join(map(str, version))}, expected 1.0 or 2.0")
    width = LENGTH_BYTES[version]
    length = int.from_bytes(_take(file, width), "little")
    if length > LONGEST_HEADER:
        raise ValueError(f"a header of {length} bytes, expected at most {LONGEST_HEADER}")
    kind, in_columns, shape = _header(_take(file, length))
    needed, there = math.prod(shape) * kind.itemsize, size - len(np.lib.format.MAGIC_PREFIX) - 2 - width - length
    if needed != there:
        raise ValueError(f"a header for {needed} bytes, {shape} of {kind}, before {there} bytes")
    flat = np.empty(math.prod(shape), dtype=kind)
    if needed:
        _fill(flat.view(np.uint8).data, file)
    if file.read(1):  # reading to the end also makes a zip archive compare its checksum
        raise ValueError("bytes after the end of the array")
    return flat.reshape(shape, order="F" if in_columns else "C")


def _header(text: bytes) -> tuple[np.dtype[Any], bool, tuple[int, ...]]:
    try:
        header = ast.literal_eval(text.decode("ascii"))
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise ValueError("a header that cannot be parsed") from None
    if not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise ValueError("a header whose keys are not descr, fortran_order and shape")
    shape, in_columns, descr = header["shape"], header["fortran_order"], header["descr"]
    if not isinstance(shape, tuple) or any(type(length) is not int or length < 0 for length in shape):
        raise ValueError("a header whose shape is not a tuple of whole numbers")
    if len(shape) > MOST_DIMENSIONS or max(shape, default=0) > np.iinfo(np.int32).max:
        raise ValueError("a header whose shape is too large")
    if not isinstance(in_columns, bool):
        raise ValueError("a header whose fortran_order is neither True nor False")
    return _kind(descr), in_columns, shape


def _kind(descr: object) -> np.dtype[Any]:
    try:
        kind = np.dtype(descr) if isinstance(descr, str) else None
    except (TypeError, ValueError, SyntaxError):
        kind = None
    if kind is not None and kind.hasobject:
        raise ValueError(PICKLED)
    if kind is None or kind.kind not in KINDS:
        raise ValueError(f"values of type {descr!a:.60}, expected numbers; save bfloat16 as .float().numpy()")
    return kind


def _take(file: IO[bytes], count: int) -> bytes:
    data = file.read(count)
    if len(data) != count:
        raise ValueError("cut short within the header")
    return data


def _fill(memory: memoryview, file: IO[bytes]) -> None:
    place = 0
    while place < len(memory):
        data = file.read(min(BYTES_AT_ONCE, len(memory) - place))
        if not data:
            raise ValueError(f"cut short after {place} of {len(memory)} bytes")
        memory[place : place + len(data)] = data
        place += len(data)
