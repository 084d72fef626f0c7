"""Tables that users write, in CSV, JSON lines and Parquet: columns of whole numbers, labels and probabilities."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from cxc_eccv.errors import DataError, MalformedSource
from cxc_eccv.sources.reading import read_csv, read_json_lines, read_table, shown

TABLES = (".parquet", ".csv", ".jsonl")
"""Endings of files with a table."""


class Form(NamedTuple):
    """The values that a column may hold, and how they are written."""

    expected: str
    lowest: int
    highest: int
    types: tuple[type, ...]
    cell: re.Pattern[str]  # of CSV
    read: Callable[[str], int | float]


NUMBER = Form("a whole number", -(2**63), 2**63 - 1, (int,), re.compile(r"-?[0-9]{1,18}"), int)
PROBABILITY = Form(
    "a number from 0 to 1",
    0,
    1,
    (int, float),
    re.compile(r"(0|1)(\.[0-9]*)?|0?\.[0-9]+|[0-9](\.[0-9]+)?[eE]-[0-9]+"),
    float,
)
LABEL = Form(
    "1 or 0, true or false",
    0,
    1,
    (int, bool),
    re.compile(r"0|1|true|false", re.IGNORECASE),
    lambda cell: int(cell.lower() in ("1", "true")),
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
        table = read_table(path, f"a table of {what}")
        for name in forms.keys() & set(table.column_names):
            _read_numbers(path, name, table[name].to_pylist(), forms[name])
        return table
    if path.suffix == ".csv":
        columns = read_csv(path).to_pydict()
    else:  # a column that a line lacks is null there
        rows = [row for _, row in read_json_lines(path)]
        columns = {
            name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)
        }
    arrays = {}
    for name, values in columns.items():
        try:
            arrays[name] = pa.array(_read_numbers(path, name, values, forms[name]) if name in forms else values)
        except (pa.ArrowException, OverflowError) as error:
            reason = str(error).partition("\n")[0]
            raise MalformedSource(path, f"column {shown(name)}", reason, "values of one type in all lines") from None
    return pa.table(arrays)


def _read_numbers(path: Path, name: str, values: Sequence[object], form: Form) -> list[object]:
    """The values, cells of CSV as numbers; refuse the first that has not the form."""
    numbers = []
    for row, value in enumerate(values):
        is_written = path.suffix == ".csv" and form.cell.fullmatch(str(value))
        number = form.read(str(value)) if is_written else value
        if type(number) not in form.types or not form.lowest <= number <= form.highest:  # type: ignore[operator]
            raise MalformedSource(path, f"{name_row(path, row)}, column {name!r}", shown(value), form.expected)
        numbers.append(number)
    return numbers
