"""Tables that users write, in CSV, JSON lines and Parquet: columns of whole numbers, labels and probabilities."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.errors import DataError, MalformedSource
from cxc_eccv.sources.reading import read_csv, read_json_lines, read_table, shown

TABLES = (".parquet", ".csv", ".jsonl")
"""Endings of files with a table."""


class Form(NamedTuple):
    """The values that a column may hold, and how they are written."""

    expected: str
    lowest: int
    highest: int
    cell: re.Pattern[str]  # of CSV
    read: Callable[[str], int | float]
    types: tuple[type, ...]  # of JSON
    kinds: str  # of NumPy, for Parquet

    def holds(self, value: object) -> bool:
        """Whether a value may stand in the column."""
        return type(value) in self.types and self.lowest <= value <= self.highest  # type: ignore[operator] # numbers


NUMBER = Form("a whole number", -(2**63), 2**63 - 1, re.compile(r"-?[0-9]{1,18}"), int, (int,), "iu")
PROBABILITY = Form(
    "a number from 0 to 1",
    0,
    1,
    re.compile(r"(0|1)(\.[0-9]*)?|0?\.[0-9]+|[0-9](\.[0-9]+)?[eE]-[0-9]+"),
    float,
    (int, float),
    "iuf",
)
LABEL = Form(
    "1 or 0, true or false",
    0,
    1,
    re.compile(r"0|1|true|false", re.IGNORECASE),
    lambda cell: int(cell.lower() in ("1", "true")),
    (int, bool),
    "biu",
)

Forms = Mapping[str, Form]
"""Column to its form; every other column holds text."""


def read_columns(path: Path, what: str, forms: Forms, *needed: str) -> pa.Table:
    """The table in a file of a user, with a row per line or object.

    Args:
        path: file that ends in one of :data:`TABLES`.
        what: what its rows are, for errors.
        forms: forms of the columns that hold numbers, wherever the table has them.
        needed: columns that it must have.
    """
    if path.suffix not in TABLES:
        raise DataError(f"{path}: {what} are read from {', '.join(TABLES)}, with {' and '.join(needed)}")
    try:
        table = _read(path, what, forms)
    except OSError as error:
        raise DataError(f"{path}: no readable table of {what}: {error}") from None
    for name in needed:
        if name not in table.column_names:
            raise DataError(f"{path}: no column {name} among {', '.join(table.column_names)}")
    return table


def name_row(path: Path, row: int) -> str:
    """Where a row of such a table is, for errors."""
    if path.suffix == ".parquet":
        return f"row {row}"
    return f"line {row + 2 if path.suffix == '.csv' else [line for line, _ in read_json_lines(path)][row]}"


def _read(path: Path, what: str, forms: Forms) -> pa.Table:
    if path.suffix == ".parquet":
        return _check_types(path, read_table(path, f"a table of {what}"), forms)
    if path.suffix == ".jsonl":
        return _read_json_lines(path, forms)
    table = read_csv(path)
    columns = {name: table[name].to_pylist() for name in table.column_names}
    return pa.table(
        columns | {name: _read_cells(path, name, columns[name], forms[name]) for name in forms if name in columns}
    )


def _check_types(path: Path, table: pa.Table, forms: Forms) -> pa.Table:
    """The table, if the columns of these forms hold such values and no nulls."""
    for name in forms.keys() & set(table.column_names):
        form, column = forms[name], table[name]
        if np.asarray(column.slice(0, 0)).dtype.kind not in form.kinds:
            raise MalformedSource(path, f"column {name!r}", f"values of type {column.type}", form.expected)
        fits = np.asarray(pc.is_valid(column))
        if fits.all():
            values = np.asarray(column)
            fits = (values >= form.lowest) & (values <= form.highest)
        if not fits.all():
            row = int(np.argmin(fits))
            raise MalformedSource(path, f"row {row}, column {name!r}", shown(column[row].as_py()), form.expected)
    return table


def _read_cells(path: Path, name: str, cells: list[str], form: Form) -> list[int | float | None]:
    values = [form.read(cell) if form.cell.fullmatch(cell) else None for cell in cells]
    for number, (cell, value) in enumerate(zip(cells, values, strict=True), start=2):
        if not form.holds(value):
            raise MalformedSource(path, f"line {number}, column {name!r}", shown(cell), form.expected)
    return values


def _read_json_lines(path: Path, forms: Forms) -> pa.Table:
    """Read one object per line; a column that a line lacks is null there."""
    lines = list(read_json_lines(path))
    columns = {}
    for name in dict.fromkeys(name for _, row in lines for name in row):
        for number, row in lines:
            if name in forms and not forms[name].holds(row.get(name)):
                raise MalformedSource(
                    path, f"line {number}, column {name!r}", shown(row.get(name)), forms[name].expected
                )
        try:
            columns[name] = pa.array([row.get(name) for _, row in lines])
        except (pa.ArrowException, OverflowError) as error:
            reason = str(error).partition("\n")[0]
            raise MalformedSource(path, f"column {shown(name)}", reason, "values of one type in all lines") from None
    return pa.table(columns)
