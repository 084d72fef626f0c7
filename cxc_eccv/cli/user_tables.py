"""Tables and judges that the command line names: captions, labels and probabilities of pairs, classifiers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cxc_eccv.discovery import study_modules
from cxc_eccv.errors import DataError, InvalidOption, MalformedSource, UnknownName
from cxc_eccv.evaluation.settings import Unjudged
from cxc_eccv.metrics.entail_at_k import POLICIES
from cxc_eccv.sources.reading import read_csv, read_json_lines, read_table, shown
from cxc_eccv.types import LABELS, PROBABILITIES, check_values

SUFFIXES = (".parquet", ".csv", ".jsonl")


class Form(NamedTuple):
    """The values of a column: the pattern of a CSV cell, how it is read, a test of any value, and kinds of arrays."""

    cell: re.Pattern[str]
    read: Callable[[str], int | float]
    holds: Callable[[Any], bool]
    expected: str
    kinds: str  # of NumPy


NUMBER = Form(
    re.compile(r"-?[0-9]{1,18}"), int, lambda value: type(value) is int and abs(value) < 2**63, "a whole number", "iu"
)
PROBABILITY = Form(
    re.compile(r"(0|1)(\.[0-9]*)?|0?\.[0-9]+|[0-9](\.[0-9]+)?[eE]-[0-9]+"),
    float,
    lambda value: type(value) in (int, float) and 0 <= value <= 1,
    "a number from 0 to 1",
    "iuf",
)
LABEL = Form(
    re.compile(r"0|1|true|false", re.IGNORECASE),
    lambda cell: int(cell.lower() in ("1", "true")),
    lambda value: type(value) in (int, bool) and value in (0, 1),
    "1 or 0, true or false",
    "biu",
)

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")

Forms = Mapping[str, Form]
"""Column to its form; every other column holds text."""


def policy(value: str, images: Path | None = None, device: str | None = None) -> Unjudged:
    """The value of ``--unjudged``: a policy, the table in a file, or a classifier by its folder or Hub id."""
    path = Path(value)
    if path.suffix in SUFFIXES:
        forms = {"image_id": NUMBER, "caption_id": NUMBER, "label": LABEL, "probability": PROBABILITY}
        table = _read_table(path, "predicted labels", forms)
        _check_column(path, table, "probability", PROBABILITIES)
        return _check_column(path, table, "label", LABELS)
    if value in POLICIES:
        return value
    return _load_judge("policy for unjudged pairs", value, [*POLICIES, "a file of labels"], images, device)


def probabilities_or_judge(value: str, images: Path | None = None) -> pa.Table | Unjudged:
    """The probabilities of pairs in a file, or a classifier by its folder or Hub id."""
    path = Path(value)
    if path.suffix in SUFFIXES:
        return read_probabilities(path)
    return _load_judge("source of probabilities", value, ["a file of probabilities"], images)


def _load_judge(
    kind: str, value: str, others: Sequence[str], images: Path | None, device: str | None = None
) -> Unjudged:
    if not (Path(value).is_dir() or HUB_ID.fullmatch(value)):
        *names, file = others
        files = f"{file} ({', '.join(SUFFIXES)})"
        raise UnknownName(kind, value, (*names, files, "the folder or Hub id of a classifier"))
    for module in study_modules("judge"):
        judge: Unjudged = module.load_judge(value, images, device)
        return judge
    raise InvalidOption(f"{value}: no study is installed that can judge pairs")


def read_captions(path: Path) -> pa.Table:
    """The captions in a file, with caption_id and text; a cell of CSV is one line."""
    _refuse_other_suffixes(path, "captions", "caption_id and text")
    return _read_table(path, "captions", {"caption_id": NUMBER})


def read_probabilities(path: Path) -> pa.Table:
    """The probabilities of pairs in a file, with ``probability`` and the columns that name the pairs."""
    _refuse_other_suffixes(path, "probabilities", "a column probability")
    forms = {"image_id": NUMBER, "caption_id": NUMBER, "probability": PROBABILITY}
    table = _read_table(path, "probabilities", forms)
    _refuse_without(path, table, "probability")
    return _check_column(path, table, "probability", PROBABILITIES)


def _check_column(path: Path, table: pa.Table, name: str, allowed: str) -> pa.Table:
    """The table, after a check of the values of a column of numbers."""
    if name in table.column_names:
        check_values(table[name], f"{path}: column {name}", allowed)
    return table


def read_summaries(path: Path) -> pa.Table:
    """The summaries in a file, with image_id and summary, and query_position if an image has several."""
    _refuse_other_suffixes(path, "summaries", "image_id and summary")
    table = _read_table(path, "summaries", {"image_id": NUMBER, "query_position": NUMBER})
    _refuse_without(path, table, "image_id", "summary")
    return table


def _refuse_other_suffixes(path: Path, what: str, columns: str) -> None:
    if path.suffix not in SUFFIXES:
        raise DataError(f"{path}: {what} are read from {', '.join(SUFFIXES)}, with {columns}")


def _refuse_without(path: Path, table: pa.Table, *needed: str) -> None:
    for name in needed:
        if name not in table.column_names:
            raise DataError(f"{path}: no column {name} among {', '.join(table.column_names)}")


def _read_table(path: Path, what: str, forms: Forms) -> pa.Table:
    try:
        if path.suffix == ".parquet":
            return _check_types(path, read_table(path, f"a table of {what}"), forms)
        if path.suffix == ".jsonl":
            return _read_json_lines(path, forms)
        table = read_csv(path)
    except OSError as error:
        raise DataError(f"{path}: no readable table of {what}: {error}") from None
    columns = {name: table[name].to_pylist() for name in table.column_names}
    return pa.table(
        columns | {name: _read_cells(path, name, columns[name], forms[name]) for name in forms if name in columns}
    )


def _check_types(path: Path, table: pa.Table, forms: Forms) -> pa.Table:
    """The table, if the columns of these forms hold numbers."""
    for name in forms.keys() & set(table.column_names):
        if np.asarray(table[name].slice(0, 0)).dtype.kind not in forms[name].kinds:
            raise MalformedSource(path, f"column {name!r}", f"values of type {table[name].type}", forms[name].expected)
    return table


def _read_cells(path: Path, name: str, cells: list[str], form: Form) -> list[Any]:
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
