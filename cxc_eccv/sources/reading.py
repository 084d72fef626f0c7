"""Read files: bytes, and strict parsing that reports every fault as a MalformedSource."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv
from pyarrow import json as arrow_json

from cxc_eccv.damage import refuse_damage
from cxc_eccv.errors import MalformedSource, SourceMissing
from cxc_eccv.extras import require
from cxc_eccv.hashing import open_content
from cxc_eccv.parquet import read_parquet
from cxc_eccv.types import IntArray, find_positions
from cxc_eccv.types.strict_json import JsonFault, Shape, check_shape, decode_json

LARGEST_ID = 2**63 - 1


def read_bytes(path: str | Path) -> bytes:
    """The content of a file; a file named ``*.gz`` is decompressed."""
    with open_content(Path(path)) as stream:
        return stream.read()


def read_text(path: Path) -> str:
    """The UTF-8 text of a file, decompressed if it is gzipped; an empty file is refused."""
    data = read_bytes(path)
    with refuse_damage(path):
        content = data.decode("utf-8-sig")
    if not content.strip():
        raise MalformedSource(path, "", "an empty file", "content")
    return content


def read_lines(path: Path) -> list[str]:
    r"""The lines of a file, ended by ``\n`` or ``\r\n``, not by a lone ``\r``; blank lines at the end are dropped."""
    # str.splitlines would also break at separators within a sentence.
    return _read_joined_lines(path).split("\n")


def _read_joined_lines(path: Path) -> str:
    r"""The text of :func:`read_lines`, in which each ``\n`` parts two lines."""
    content = read_text(path)
    if "\r" in content:
        content = content.replace("\r\n", "\n")
    content = content.rstrip("\n")
    for character, name in (("\r", "a carriage return without a line feed"), ("\0", "a NUL character")):
        place = content.find(character)
        if place >= 0:
            raise MalformedSource(
                path, f"line {_find_line(content, place)}", name, r"text in lines that end in \n or \r\n"
            )
    return content


def read_json(path: Path) -> Any:  # noqa: ANN401 - JSON holds anything
    """The JSON value of a file; repeated keys and ``NaN`` are errors."""
    return parse_json(read_text(path), path)


def parse_json(content: str, path: Path, line: int | None = None) -> Any:  # noqa: ANN401 - JSON holds anything
    """The JSON value of the text of ``path``, or of one line of it, as strict as :func:`read_json`."""
    prefix = "" if line is None else f"line {line}"
    try:
        with refuse_damage(path, prefix):
            return decode_json(content)
    except JsonFault as fault:
        place = ", ".join(filter(None, [prefix, fault.place]))
        raise MalformedSource(path, place, fault.actual, fault.expected) from None


def read_json_columns(path: Path, schema: pa.Schema) -> pa.Table | None:
    """The JSON object of a file as a table of one row, in which an entry that a record lacks is null.

    This takes a third of the time of :func:`read_json` and little memory, and it is as strict, but it names no fault:
    it returns None for a file with a fault, with an entry that the schema lacks or with a null.
    """
    data = read_bytes(path).removeprefix(codecs.BOM_UTF8)
    if b"null" in data:  # pyarrow confuses it with an absent entry, and crashes where it is the whole object
        return None
    try:
        data.decode()  # pyarrow takes any bytes
        table = arrow_json.read_json(
            pa.BufferReader(data),
            # One block, since an object cannot span two.
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=schema, newlines_in_values=True, unexpected_field_behavior="error"
            ),
        )
    except (pa.ArrowException, OverflowError, UnicodeDecodeError):
        return None
    return table if table.num_rows == 1 else None


def read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number and JSON object of every line that is not blank."""
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            yield number, require_keys(path, f"line {number}", parse_json(line, path, number), ())


def read_table(path: Path, expected: str) -> pa.Table:
    """The table of a Parquet file, by :func:`cxc_eccv.parquet.read_parquet`; ``expected`` is for the error."""
    with refuse_damage(path, expected=expected):
        return read_parquet(path)


def parse_metadata(path: Path, table: pa.Table, key: bytes, expected: str) -> dict[str, Any]:
    """The JSON object in the metadata of a Parquet file."""
    content = (table.schema.metadata or {}).get(key)
    if content is None:
        raise MalformedSource(path, "metadata", f"no entry {key.decode()!r}", expected)
    try:
        facts = decode_json(content.decode())
    except ValueError as error:
        raise MalformedSource(path, "metadata", f"no strict JSON ({error})", expected) from None
    return require_keys(path, "metadata", facts, ())


def read_records(path: Path) -> Iterator[Any]:
    """The elements of a file that is one JSON list, one by one; only a few of them are in memory at a time."""
    require("ijson", "explain", f"reading {path} needs", SourceMissing)
    import ijson  # imported late: only Visual Genome needs it

    with open_content(path) as stream:
        head = stream.read(20)
        if not head.startswith(b"["):
            raise MalformedSource(path, "", shown(head) if head else "an empty file", "a list in brackets")
        stream.seek(0)
        number = -1
        try:
            for number, record in enumerate(ijson.items(stream, "item", use_float=True)):  # noqa: B007 - for the error
                yield record
        except (ijson.JSONError, UnicodeDecodeError, ValueError, OverflowError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise MalformedSource(path, f"[{number + 1}]", reason, "valid JSON") from None


def check_content(path: Path, value: object, shape: Shape, place: str = "") -> None:
    """Refuse JSON content of another shape; ``place`` is where in the file it is."""
    try:
        check_shape(value, shape, place)
    except JsonFault as fault:
        raise MalformedSource(path, fault.place, fault.actual, fault.expected) from None


def require_keys(path: Path, place: str, record: object, keys: Iterable[str]) -> dict[str, Any]:
    """Return ``record`` if it is a JSON object with these keys."""
    if not isinstance(record, dict):
        raise MalformedSource(path, place, shown(record), "an object")
    for key in keys:
        if key not in record:
            raise MalformedSource(path, place, f"keys {shown(sorted(record))}", f"a key {key!r}")
    return record


def integer(path: Path, place: str, value: object, least: int = 0) -> int:
    """Return ``value`` if it is a whole number within int64; true and false are refused."""
    if type(value) is not int or not least <= value <= LARGEST_ID:
        raise MalformedSource(path, place, shown(value), f"a whole number from {least} to 2^63 - 1")
    return value


def parse_number(cell: str) -> int | str:
    """The non-negative whole number in a cell of CSV, or the cell itself if it holds no 64-bit number."""
    return int(cell) if cell.isascii() and cell.isdigit() and len(cell) < 19 else cell


def text(path: Path, place: str, value: object) -> str:
    """Return ``value`` if it is a JSON string."""
    if not isinstance(value, str):
        raise MalformedSource(path, place, shown(value), "a text")
    return value


def shown(value: object) -> str:
    r"""A value for an error message: on one line, and shortened if it is long."""
    if type(value) is int and abs(value) > 10**40:
        return "a number of more than 40 digits"
    try:
        whole = repr(value)
    except (RecursionError, ValueError):
        return type(value).__name__
    return whole if len(whole) <= 60 else f"{whole[:60]} …"


def read_csv(path: Path, columns: Sequence[str] = (), separator: str = ",") -> pa.Table:
    """A CSV file as a table of strings; row ``i`` is line ``i + 2`` of the file."""
    content = _read_joined_lines(path)
    table = _split_cells(content, separator)
    if table is not None:
        _check_header(path, table.column_names, columns)
        return table
    header, *cells = _read_cells(path, content.split("\n"), separator)
    _check_header(path, header, columns)
    for line, row in enumerate(cells, start=2):
        if len(row) != len(header):
            raise MalformedSource(path, f"line {line}", f"{len(row)} cells", f"rows of {len(header)} cells")
    if not cells:
        raise MalformedSource(path, "", "a header and no rows", "at least one row")
    return pa.table([pa.array(column, pa.string()) for column in zip(*cells, strict=True)], names=header)


def _check_header(path: Path, header: Sequence[str], columns: Sequence[str]) -> None:
    for number, name in enumerate(header):
        if name in header[:number]:
            raise MalformedSource(path, "line 1", f"two columns {shown(name)}", "every column once")
    for name in columns:
        if name not in header:
            raise MalformedSource(path, "line 1", f"columns {shown(header)}", f"a column {name!r}")


def _split_cells(content: str, separator: str) -> pa.Table | None:
    """The cells of a text without quotes; None if there are quotes, or if :func:`read_csv` may refuse a line.

    pyarrow is many times as quick as csv, but lenient about quotes and blank lines, and it names no line.
    """
    if '"' in content or content.startswith("\n"):
        return None
    header = content.partition("\n")[0].split(separator)
    numbers = [str(number) for number in range(len(header))]
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(content.encode()),
            read_options=arrow_csv.ReadOptions(use_threads=False, skip_rows=1, column_names=numbers),
            parse_options=arrow_csv.ParseOptions(delimiter=separator, quote_char=False, ignore_empty_lines=False),
            convert_options=arrow_csv.ConvertOptions(
                check_utf8=False, column_types=dict.fromkeys(numbers, pa.string())
            ),
        )
    except pa.ArrowInvalid:
        return None
    lengths = np.stack([np.asarray(pc.binary_length(column)) for column in table.columns])
    has_blank_line = not lengths.any(axis=0).all()
    if not table.num_rows or has_blank_line or lengths.max() > csv.field_size_limit():
        return None
    return table.combine_chunks().rename_columns(header)


def _read_cells(path: Path, lines: Sequence[str], separator: str) -> list[list[str]]:
    reader = csv.reader(lines, delimiter=separator, strict=True)
    rows = list[list[str]]()
    try:
        for row in reader:
            if reader.line_num > len(rows) + 1:
                raise csv.Error("a quoted cell of several lines")
            rows.append(row)
    except csv.Error as error:
        expected = 'quotes around whole cells, each closed on its line, and "" for a quote within'
        raise MalformedSource(path, f"line {len(rows) + 1}", str(error), expected) from None
    return rows


def _find_line(content: str, position: int) -> int:
    return content.count("\n", 0, position) + 1


def read_ids(path: Path) -> IntArray:
    """(N,) unique non-negative int64 ids of an ``.npy`` file."""
    try:
        with refuse_damage(path):
            array = np.lib.format.read_array(BytesIO(read_bytes(path)), allow_pickle=False)
    except ValueError as error:
        raise MalformedSource(path, "", str(error), "an npy file of integers") from None
    if array.ndim != 1 or array.dtype.kind not in "iu" or not array.size:
        actual = f"{array.dtype} of shape {array.shape}"
        raise MalformedSource(path, "", actual, "integers of shape (N,), N > 0")
    beyond = np.flatnonzero((array < 0) | (array > LARGEST_ID))
    if beyond.size:
        raise MalformedSource(path, f"position {beyond[0]}", f"id {array[beyond[0]]}", "ids from 0 to 2^63 - 1")
    ids = array.astype(np.int64)
    require_distinct(path, ids, "position {}", "id")
    return ids


def require_distinct(path: Path, ids: IntArray, place: str, what: str) -> None:
    """Refuse repeated ids; ``place`` is a template for the position."""
    twice = first_duplicate(ids)
    if twice is not None:
        raise MalformedSource(path, place.format(twice), f"{what} {ids[twice]} a second time", f"every {what} once")


def require_known(path: Path, ids: IntArray, known: IntArray, place: str, what: str, expected: str) -> IntArray:
    """Positions of ids among the known ones; ``place`` is a template with the row or line of an unknown id."""
    positions, is_known = find_positions(ids, known)
    if not is_known.all():
        row = int(np.flatnonzero(~is_known)[0])
        raise MalformedSource(path, place.format(row=row, line=row + 2), f"{what} {ids[row]}", expected)
    return positions


def first_duplicate(values: IntArray) -> int | None:
    """Position of the first repeated value, or None."""
    again = np.ones(values.size, dtype=bool)
    again[np.unique(values, return_index=True)[1]] = False
    return int(np.argmax(again)) if again.any() else None


def first_repeated_pair(left: IntArray, right: IntArray) -> int | None:
    """Position of the first pair that occurs earlier too, or None."""
    order = np.lexsort((right, left))  # a stable sort
    again = order[1:][(left[order[1:]] == left[order[:-1]]) & (right[order[1:]] == right[order[:-1]])]
    return int(again.min()) if again.size else None
