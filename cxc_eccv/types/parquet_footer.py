"""Reads from a Parquet footer how much data the file claims to hold.

pyarrow aborts the process on some damaged footers, so these few numbers are read and checked first.

References:
    Apache Thrift, compact protocol; Apache Parquet, parquet.thrift.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

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
