"""What a user names on the command line: captions to encode, labels and probabilities of pairs, who judges others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from cxc_eccv.cli.extras import needs_train_extra
from cxc_eccv.errors import DataError, MalformedSource, UnknownName
from cxc_eccv.evaluation.settings import Unjudged
from cxc_eccv.metrics.entail_at_k import UNJUDGED
from cxc_eccv.sources.reading import read_csv, shown
from cxc_eccv.types import LABELS, PROBABILITIES, check_values

__all__ = ["policy", "read_captions", "read_probabilities", "read_summaries"]

SUFFIXES = (".parquet", ".csv", ".jsonl")

NUMBER = (re.compile(r"-?[0-9]{1,18}"), "a whole number")
PROBABILITY = (re.compile(r"(0|1)(\.[0-9]*)?|0?\.[0-9]+|[0-9](\.[0-9]+)?[eE]-[0-9]+"), "a number from 0 to 1")
LABEL = (re.compile(r"0|1|true|false", re.IGNORECASE), "1 or 0, true or false")

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")

Forms = Mapping[str, tuple[re.Pattern[str], str]]
"""Column to what its CSV cells look like, and that in words; every other column holds text."""


def policy(value: str, images: Path | None = None, device: str | None = None) -> Unjudged:
    """What ``--unjudged`` says: a policy's name, the table in a file, or the judge that a folder or Hub id holds.

    The table has image_id, caption_id and label; ``images`` and ``device`` are for a judge.
    """
    path = Path(value)
    if path.suffix in SUFFIXES:
        table = _read_table(path, "predicted labels", {"image_id": NUMBER, "caption_id": NUMBER, "label": LABEL})
        return _check_column(path, table, "label", LABELS)
    if value in UNJUDGED[:-1]:  # the last is said by naming the classifier, whose folder may be called so
        return value
    if not (path.is_dir() or HUB_ID.fullmatch(value)):
        others = f"a file of labels ({', '.join(SUFFIXES)})", "the folder or Hub id of a classifier of entailment"
        raise UnknownName("policy for unjudged pairs", value, (*UNJUDGED[:-1], *others))
    with needs_train_extra():
        from cxc_eccv.entailment.judge import ClassifierJudge

        return ClassifierJudge(value, images, device=device)


def read_captions(path: Path) -> pa.Table:
    """The captions in a file, with caption_id and text.

    A cell of a CSV file ends on the line on which it begins; texts with line breaks need one of the other formats.
    """
    if path.suffix not in SUFFIXES:
        raise DataError(f"{path}: captions are read from .parquet, .csv or .jsonl, with caption_id and text")
    return _read_table(path, "captions", {"caption_id": NUMBER})


def read_probabilities(path: Path) -> pa.Table:
    """The probabilities of pairs in a file, with ``probability``, and the ids or whatever else names the pairs."""
    if path.suffix not in SUFFIXES:
        raise DataError(f"{path}: probabilities are read from {', '.join(SUFFIXES)}, with a column probability")
    forms = {"image_id": NUMBER, "caption_id": NUMBER, "probability": PROBABILITY}
    table = _read_table(path, "probabilities", forms)
    if "probability" not in table.column_names:
        raise DataError(f"{path}: no column probability among {', '.join(table.column_names)}")
    return _check_column(path, table, "probability", PROBABILITIES)


def _check_column(path: Path, table: pa.Table, name: str, allowed: str) -> pa.Table:
    """The table, once every number of a column is known to be one; what is no number is refused where it is used."""
    if name in table.column_names and np.asarray(table[name]).dtype.kind in "biuf":
        check_values(table[name], f"{path}: column {name}", allowed)
    return table


def read_summaries(path: Path) -> pa.Table:
    """The summaries in a file, with image_id and summary, and query_position where it holds several of an image."""
    if path.suffix not in SUFFIXES:
        raise DataError(f"{path}: summaries are read from {', '.join(SUFFIXES)}, with image_id and summary")
    table = _read_table(path, "summaries", {"image_id": NUMBER, "query_position": NUMBER})
    lacking = [name for name in ("image_id", "summary") if name not in table.column_names]
    if lacking:
        raise DataError(f"{path}: no column {lacking[0]} among {', '.join(table.column_names)}")
    return table


def _read_table(path: Path, what: str, forms: Forms) -> pa.Table:
    try:
        return _read(path, forms)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: no readable table of {what}: {error}") from None


def _read(path: Path, forms: Forms) -> pa.Table:
    if path.suffix == ".parquet":
        from cxc_eccv.parquet import read_parquet

        return read_parquet(path)
    if path.suffix == ".csv":
        table = read_csv(path)
        columns = {name: table[name].to_pylist() for name in table.column_names}
        numbers = {name: _read_numbers(path, name, columns[name], *forms[name]) for name in forms.keys() & columns}
        return pa.table(columns | numbers)
    from pyarrow import json

    return json.read_json(path)


def _read_numbers(
    path: Path, name: str, cells: list[str], form: re.Pattern[str], expected: str
) -> list[int] | list[float]:
    for number, cell in enumerate(cells, start=2):
        if not form.fullmatch(cell):
            raise MalformedSource(path, f"line {number}, column {name!r}", shown(cell), expected)
    if form is PROBABILITY[0]:
        return [float(cell) for cell in cells]
    words = {"true": 1, "false": 0}
    return [words[cell.lower()] if cell.lower() in words else int(cell) for cell in cells]
