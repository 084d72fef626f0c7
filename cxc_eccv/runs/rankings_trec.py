"""Rankings in the form of TREC runs: ``query Q0 item rank score tag``, one direction to a file."""

from __future__ import annotations

import io
import math
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedRun
from cxc_eccv.runs.direction_names import direction_of
from cxc_eccv.runs.long_form import LongForm
from cxc_eccv.runs.ranked_lists import RankedLists
from cxc_eccv.runs.run_file import sha256_of, text_of

__all__ = ["read_trec"]

RECORD = [("query", "i8"), ("q0", "U1"), ("item", "i8"), ("rank", "i8"), ("score", "f8"), ("tag", "U1")]
LEAST = np.finfo(np.float64).tiny
UNREADABLE = "a line cannot be read: query id, item id and rank must be whole numbers, the score a number"
FIELDS = ("query id", "Q0", "item id", "rank", "score", "tag")


def read_trec(path: Path, direction: str | None = None) -> dict[str, RankedLists]:
    r"""Direction to its rankings.

    The rank column gives the order, and the scores must not contradict it. Equal scores are ties.

    Args:
        path: the file; its name says the direction unless ``direction`` does.
        direction: ``i2t``, ``t2i``, ``t2t`` or ``i2i``.

    Raises:
        MalformedRun: a line without six fields, an id or a rank that is no whole number, a score that is no finite
            number or rises, ranks with gaps. The message names the line or the query.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "run_t2i.trec"
        ...     _ = path.write_text("30 Q0 6 2 0.5 mine\n30 Q0 5 1 0.9 mine\n")
        ...     read_trec(path)["t2i"].items.tolist()
        [5, 6]
    """
    name = direction_of(path, direction)
    text = text_of(path)
    rows = _rows(text)
    if rows is None or not np.all(np.isfinite(rows["score"]) & (np.abs(rows["score"]) >= LEAST)):
        reason = _first_bad(text.splitlines())
        if rows is None or reason:  # else the scores are true zeros
            raise MalformedRun(f"{path}, {reason or UNREADABLE}")
    long = LongForm(*(np.ascontiguousarray(rows[field]) for field in ("query", "item", "rank", "score")))
    return {name: long.lists(f"{path}, {name}", path=path, sha256=sha256_of(path))}


def _rows(text: str) -> NDArray[Any] | None:
    """The lines as records, or None where one is malformed."""
    try:
        with warnings.catch_warnings(action="error"):  # a whole number written as 1.0 is only warned of
            return np.loadtxt(io.StringIO(text), dtype=RECORD, comments=None, ndmin=1)
    except (ValueError, OverflowError, DeprecationWarning):
        return None


def _first_bad(lines: list[str]) -> str | None:
    """What is wrong with the first line that is no row of a TREC run; None where nothing is found."""
    for number, line in enumerate(lines, start=1):
        fields = line.split()
        if fields and (reason := _reason(fields)):
            return f"line {number}: {reason}"
    return None


def _reason(fields: list[str]) -> str | None:
    if len(fields) != len(FIELDS):
        return f"has {len(fields)} fields, expected {len(FIELDS)}: {', '.join(FIELDS)}"
    for place in (0, 2, 3):
        try:
            np.int64(int(fields[place]))
        except (ValueError, OverflowError):
            return f"{FIELDS[place]} {fields[place]!r:.40} is no whole number of 64 bits; ids are the COCO ids"
    try:
        score = float(fields[4])
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        return f"score {fields[4]:.40} is not finite or no number; check the model's output on this item"
    if abs(score) < LEAST and re.search("[1-9]", fields[4].lower().partition("e")[0]):
        return f"score {fields[4]:.40} is too small for 64 bits, where others would equal it; scale the scores"
    return None
