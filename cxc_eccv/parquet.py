"""Reads NumPy arrays and Parquet tables strictly: with a limit on the expansion, page checksums, a consistent footer.

pyarrow aborts the process on some damaged footers, so how much data a footer claims is read and checked first.

References:
    Apache Thrift, compact protocol; Apache Parquet, parquet.thrift.
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
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


LONGEST_REASON = 300
"""Most characters of pyarrow's messages, which may quote long names."""

LISTS = (pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray)

OFFSET = 4


def read_parquet(path: Path) -> pa.Table:
    """The table of a Parquet file; raises ArrowInvalid if it is damaged."""
    try:
        _refuse_expansion(path)
        table = pq.read_table(path, page_checksum_verification=True)
        table.validate(full=True)
        sorted(table.column_names)  # decodes them
        _refuse_contradictions(table, pq.read_metadata(path))  # after the read, as a bad footer may abort pyarrow here
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise pa.ArrowInvalid(str(error).partition("\n")[0][:LONGEST_REASON]) from None
    return table


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table with a checksum for every page."""
    pq.write_table(table, path, compression="zstd", write_page_checksum=True)


def _refuse_expansion(path: Path) -> None:
    """Raise ValueError if the footer announces too many values; repeated values are stored once."""
    packed, chunks = path.stat().st_size, read_footer(path)
    fixed = sum(chunk.values * (OFFSET if chunk.width is None else chunk.width) for chunk in chunks)
    refuse_expansion(packed, max(fixed, sum(chunk.unpacked for chunk in chunks)))
    texts = [chunk for chunk in chunks if chunk.width is None]
    try:
        refuse_expansion(packed, fixed + sum(chunk.values * chunk.unpacked for chunk in texts))
    except ValueError:  # the bound is too large; measure the texts by their dictionaries, which hold each text once
        names = sorted({chunk.path for chunk in texts})
        table = pq.ParquetFile(path, read_dictionary=names).read(columns=names)
        refuse_expansion(packed, fixed + sum(_measure(part) for column in table.columns for part in column.chunks))


def _measure(values: pa.Array) -> int:
    if pa.types.is_dictionary(values.type):
        lengths = pc.binary_length(values.dictionary)
        return int(pc.sum(pc.take(lengths, values.indices)).as_py() or 0)
    if pa.types.is_struct(values.type):
        return sum(map(_measure, values.flatten()))
    return _measure(values.flatten()) if isinstance(values, LISTS) else int(values.nbytes)


def _refuse_contradictions(table: pa.Table, footer: pq.FileMetaData) -> None:
    counted, in_lists = 0, Counter[str]()
    for group in map(footer.row_group, range(footer.num_row_groups)):
        counted += group.num_rows
        for place in range(group.num_columns):
            chunk, column = group.column(place), footer.schema.column(place)
            if (chunk.path_in_schema, chunk.physical_type) != (column.path, column.physical_type):
                raise pa.ArrowInvalid(f"column {column.path} has the values of {chunk.path_in_schema}")
            if column.max_repetition_level == 0 and chunk.num_values != group.num_rows:
                raise pa.ArrowInvalid(f"column {column.path} has {chunk.num_values} values in {group.num_rows} rows")
            if column.max_repetition_level == 1:
                in_lists[column.path] += chunk.num_values
    if counted != footer.num_rows:
        raise pa.ArrowInvalid(f"the footer announces {footer.num_rows} rows, but there are {counted}")
    for path, announced in in_lists.items():
        name = path.partition(".")[0]
        if name in table.column_names and announced != _values_in_lists(table[name]):
            raise pa.ArrowInvalid(f"column {path} lacks some of its {announced} values")


def _values_in_lists(column: pa.ChunkedArray) -> int:
    """The number of values in lists; Parquet counts an empty list as one value."""
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    return int(pc.sum(pc.max_element_wise(lengths, 1)).as_py() or 0)


MARK = b"PAR1"
LARGEST_FOOTER = 1 << 26

SCHEMA, ROW_GROUPS, COLUMNS, META, PATH, VALUES, UNPACKED = 2, 4, 1, 3, 3, 5, 6
"""Field numbers in the file's metadata, its row groups, their chunks, and the chunks' metadata."""

TYPE, LENGTH, CHILDREN = 1, 2, 5
"""Field numbers in an element of the schema."""

WIDTHS = (1, 4, 8, 12, 4, 8)
"""Bytes of a value by physical type, for types of fixed size."""

TEXT, FIXED = 6, 7
"""Physical types of texts, and of bytes whose length the schema gives."""

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)


class Chunk(NamedTuple):
    """One column of one row group."""

    path: str  # names from the column to the values, such as votes.list.element
    width: int | None  # bytes of a value, None for texts
    values: int
    unpacked: int  # bytes of its uncompressed pages


def read_footer(path: Path) -> list[Chunk]:
    """All chunks of a Parquet file."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 8))
        end = file.read(8)
        length = int.from_bytes(end[:4], "little")
        if end[4:] != MARK or length > min(size - 8, LARGEST_FOOTER):
            raise ValueError("the file does not end with a Parquet footer")
        file.seek(size - 8 - length)
        data = file.read(length)
    try:
        file_facts = _Reader(data).struct()
        widths = [_width(leaf) for leaf in file_facts[SCHEMA] if not leaf.get(CHILDREN)]
        return [
            _chunk(column[META], width)
            for group in file_facts[ROW_GROUPS]
            for column, width in zip(group[COLUMNS], widths, strict=True)
        ]
    except (LookupError, TypeError, AttributeError, UnicodeDecodeError, RecursionError):
        raise ValueError("the Parquet footer is damaged") from None


def _width(leaf: dict[int, Any]) -> int | None:
    kind = leaf[TYPE]
    return leaf[LENGTH] if kind == FIXED else None if kind == TEXT else WIDTHS[kind]


def _chunk(meta: dict[int, Any], width: int | None) -> Chunk:
    path = ".".join(part.decode() for part in meta[PATH])
    return Chunk(path, width, max(0, int(meta[VALUES])), max(0, int(meta[UNPACKED])))


class _Reader:
    """Reads Thrift's compact protocol; a struct becomes a dict of field number to value."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80 or shift > 63:
                return value

    def signed(self) -> int:
        value = self.number()
        return (value >> 1) ^ -(value & 1)

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise IndexError(count)
        self.at += count
        return self.data[self.at - count : self.at]

    def struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while head := self.byte():
            number = number + (head >> 4) if head >> 4 else self.signed()
            kind = head & 15
            fields[number] = kind == TRUE if kind in (TRUE, FALSE) else self.value(kind)
        return fields

    def value(self, kind: int) -> Any:  # noqa: ANN401 - of any type of Thrift
        if kind in (I16, I32, I64):
            return self.signed()
        if kind == BINARY:
            return self.take(self.number())
        if kind == STRUCT:
            return self.struct()
        if kind in (LIST, SET):
            head = self.byte()
            count = head >> 4 if head >> 4 < 15 else self.number()
            return [self.value(head & 15) for _ in range(count)]
        if kind == DOUBLE:
            return self.take(8)
        if kind in (BYTE, TRUE, FALSE):  # in a list, a bool takes a byte
            return self.byte()
        raise LookupError(kind)  # a map, which Parquet footers do not have
