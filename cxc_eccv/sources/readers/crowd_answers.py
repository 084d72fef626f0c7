"""ECCV Caption's raw answers, ``mturk_parsed.csv``: what a crowd said of pairs that five models ranked highest."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.columns import fold_name
from cxc_eccv.sources.reading import parse_number, read_csv, read_lines, shown
from cxc_eccv.types import FloatArray, IntArray

CROWD_COLUMNS = ("model", "ranking", "cid", "iid", "annotation")
"""The columns that are read; ``score``, ``shortcoming`` and ``shortcoming2`` are not, as nobody describes them."""

CROWD_GAINS = {"1": 1.0, "2": 0.5, "3": 0.0, "4": 0.0}
"""Annotation to gain: 100% YES, partially YES, mostly NO, 100% NO, with the gains of the paper's equation E.4."""

MOST_LEFT_OUT = 0.01
"""A larger share of rows without whole ids is the work of a tool that changed the file."""


@dataclass(frozen=True, slots=True, eq=False)
class CrowdAnswers:
    """The rows with whole ids, in the order of the file; a pair has a row for every model that ranked it.

    Attributes:
        path: the file.
        lines: (N,) line of each row.
        models, rankings: (N,) cells, as they are written.
        images, captions: (N,) ids.
        gains: (N,) of GAINS.
        n_left_out: rows whose ids are no whole numbers; its authors' reader skips them too.
    """

    path: Path
    lines: IntArray
    models: pa.ChunkedArray
    rankings: pa.ChunkedArray
    images: IntArray
    captions: IntArray
    gains: FloatArray
    n_left_out: int


def has_crowd_answers(path: Path) -> bool:
    """Whether the columns of a CSV file are those of ECCV Caption's raw answers, or most of them."""
    header = {fold_name(name).strip('"') for name in read_lines(path)[0].split(",")}
    return len(header & set(CROWD_COLUMNS)) > 2 and "image_id" not in header


def read_crowd_answers(path: Path) -> CrowdAnswers:
    """The answers in a user's copy of ``mturk_parsed.csv``; warns if many rows are left out."""
    table = read_csv(path, CROWD_COLUMNS)
    image_ids = _parse_ids(table["iid"])
    caption_ids = _parse_ids(table["cid"])
    pairs = list(zip(image_ids, caption_ids, strict=True))
    rows = [row for row, pair in enumerate(pairs) if type(pair[0]) is int and type(pair[1]) is int]
    if not rows:
        raise MalformedSource(path, "", "no row whose iid and cid are whole numbers", "at least one")
    read = table.take(pa.array(rows))
    lines = np.array(rows) + 2
    gains = [CROWD_GAINS.get(cell.strip()) for cell in read["annotation"].to_pylist()]
    if None in gains:
        row = gains.index(None)
        place = f"line {lines[row]}, column 'annotation'"
        actual = shown(read["annotation"][row].as_py())
        raise MalformedSource(path, place, actual, "1, 2 (a match), 3 or 4 (no match)")
    n_left_out = table.num_rows - len(rows)
    if n_left_out > MOST_LEFT_OUT * table.num_rows:
        first = next(number for number in itertools.chain.from_iterable(pairs) if isinstance(number, str))
        warnings.warn(
            f"{path}: {n_left_out / table.num_rows:.1%} of its rows ({n_left_out:,} of {table.num_rows:,}) are left "
            f"out, since an id is no whole number, as {shown(first)}. Write the ids as whole numbers, or read the "
            "original file.",
            stacklevel=2,
        )
    return CrowdAnswers(
        path=path,
        lines=lines,
        models=read["model"],
        rankings=read["ranking"],
        images=np.array([image_ids[row] for row in rows], dtype=np.int64),
        captions=np.array([caption_ids[row] for row in rows], dtype=np.int64),
        gains=np.array(gains, dtype=np.float64),
        n_left_out=n_left_out,
    )


def _parse_ids(column: pa.ChunkedArray) -> list[object]:
    """A whole number for each cell that is one; other cells as they are written."""
    return [parse_number(cell.strip()) for cell in column.to_pylist()]
