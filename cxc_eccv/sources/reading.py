"""Opening raw files: every fault becomes a MalformedSource that names file, place, found and expected."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from csv import reader as csv_rows
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.content import read_bytes
from cxc_eccv.types import IntArray
from cxc_eccv.types.npy import array_of_npy

__all__ = ["first_duplicate", "parse_ids", "read_csv", "read_ids", "read_json", "read_text"]


def read_text(path: Path) -> str:
    """The file as UTF-8 text, un-gzipped where it is compressed.

    Raises:
        MalformedSource: empty, or not UTF-8.
    """
    data = read_bytes(path)
    if not data.strip():
        raise MalformedSource(path, "", "an empty file", "content")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        found = f"byte {data[error.start]:#04x} at offset {error.start}"
        raise MalformedSource(path, f"line {line}", found, "UTF-8 text") from None


def _no_duplicated_keys(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise MalformedSource(path, f"key {key!r}", "it twice", "every key once")
            seen.add(key)
    return table


def read_json(path: Path) -> Any:  # noqa: ANN401 - JSON holds anything
    """The file's JSON value; a key given twice is an error, not an overwrite.

    Raises:
        MalformedSource: empty, not UTF-8, not JSON (a truncated file, say), or a duplicated key.
    """
    text = read_text(path)
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _no_duplicated_keys(path, pairs))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        cut = " (the file seems to be cut off)" if error.pos >= len(text.rstrip()) - 1 else ""
        raise MalformedSource(path, place, f"{error.msg}{cut}", "valid JSON") from None


def read_csv(path: Path, columns: Sequence[str] = ()) -> pa.Table:
    """The file as a table of strings.

    Args:
        path: a CSV file with a header line.
        columns: names the header must hold; more are kept.

    Raises:
        MalformedSource: empty, not UTF-8, a missing column, a row with too few or too many cells.
    """
    text = read_text(path)
    header = next(csv_rows([text.partition("\n")[0]]))
    missing = [name for name in columns if name not in header]
    if missing:
        raise MalformedSource(path, "line 1", f"columns {header}", f"a column {missing[0]!r}")
    options = csv.ConvertOptions(column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False)
    try:
        table = csv.read_csv(
            io.BytesIO(text.encode()), parse_options=csv.ParseOptions(newlines_in_values=True), convert_options=options
        )
    except pa.ArrowInvalid as error:
        raise MalformedSource(path, "", str(error), f"rows of {len(header)} cells") from None
    if not table.num_rows:
        raise MalformedSource(path, "", "a header and no rows", "at least one row")
    return table


def parse_ids(path: Path, column: pa.ChunkedArray, name: str, pattern: str, expected: str) -> IntArray:
    """(N,) int64 ids taken from a column of texts.

    Args:
        path: the file, for the error.
        column: strings.
        name: the column's name, for the error.
        pattern: regular expression with one group ``id`` of digits.
        expected: what a right text looks like, for the error.

    Raises:
        MalformedSource: the first text that does not match.
    """
    parts = pc.extract_regex(column, pattern=pattern)
    bad = np.flatnonzero(np.asarray(pc.is_null(parts)))
    if bad.size:
        place = f"line {bad[0] + 2}, column {name!r}"
        raise MalformedSource(path, place, repr(column[bad[0]].as_py()), expected)
    ids = pc.cast(pc.struct_field(parts, "id"), pa.int64())
    return np.asarray(ids, dtype=np.int64)


def read_ids(path: Path) -> IntArray:
    """(N,) unique int64 ids of an ``.npy`` file.

    Raises:
        MalformedSource: not an npy file, pickled objects, not a row of integers, a duplicated id.
    """
    data = read_bytes(path)
    try:
        array = array_of_npy(io.BytesIO(data), len(data))
    except ValueError as error:
        raise MalformedSource(path, "", str(error), "an npy file of integers") from None
    if array.ndim != 1 or array.dtype.kind not in "iu" or not array.size:
        found = f"{array.dtype} of shape {array.shape}"
        raise MalformedSource(path, "", found, "integers of shape (N,), N > 0")
    ids = array.astype(np.int64)
    twice = first_duplicate(ids)
    if twice is not None:
        raise MalformedSource(path, f"position {twice}", f"id {ids[twice]} a second time", "every id once")
    return ids


def first_duplicate(values: IntArray) -> int | None:
    """Position of the first value that occurred before, or None.

    Example:
        >>> first_duplicate(np.array([5, 3, 5, 3]))
        2
        >>> first_duplicate(np.array([5, 3])) is None
        True
    """
    _, first = np.unique(values, return_index=True)
    again = np.ones(values.size, dtype=bool)
    again[first] = False
    places = np.flatnonzero(again)
    return int(places[0]) if places.size else None
