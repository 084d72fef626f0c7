"""Rankings in the form of TREC runs: ``query Q0 item rank score tag``, one direction to a file."""

from __future__ import annotations

import io
import math
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedRun
from cxc_eccv.runs.checks import sha256_of, text_of
from cxc_eccv.runs.rankings.ranked_lists import RankedLists, narrowed
from cxc_eccv.runs.rankings.rankings import direction_of
from cxc_eccv.types import FloatArray, IntArray

__all__ = ["LongForm", "read_trec"]

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


@dataclass(frozen=True, slots=True, eq=False)
class LongForm:
    """The columns of one direction's rankings, rows in any order.

    Attributes:
        queries: (P,) query ids.
        items: (P,) item ids.
        ranks: (P,) from 1, or from 0, without gaps for every query.
        scores: (P,) or None.
    """

    queries: IntArray
    items: IntArray
    ranks: IntArray
    scores: FloatArray | None = None

    def lists(self, place: str, **origin: Any) -> RankedLists:  # noqa: ANN401 - path and sha256
        """The lists, queries ascending.

        Args:
            place: what messages call the rankings.
            **origin: ``path`` and ``sha256``.

        Raises:
            MalformedRun: ranks with a gap or given twice, or as :class:`RankedLists` says.

        Example:
            >>> rows = LongForm(np.array([6, 5, 6]), np.array([10, 20, 30]), np.array([2, 1, 1]))
            >>> lists = rows.lists("run")
            >>> lists.query_ids.tolist(), lists.items.tolist()
            ([5, 6], [20, 30, 10])
        """
        order: IntArray | slice = slice(None)
        if not _ascending(self.queries, self.ranks):
            order = np.lexsort((self.ranks, self.queries))
        queries, items, ranks = self.queries[order], self.items[order], self.ranks[order]
        scores = None if self.scores is None else self.scores[order]
        starts = np.flatnonzero(np.append(True, queries[1:] != queries[:-1]))
        indptr = np.append(starts, queries.size)
        _refuse_gaps(place, queries, ranks, indptr)
        return RankedLists(queries[starts], indptr, narrowed(items), scores, place=place, **origin)


def _ascending(queries: IntArray, ranks: IntArray) -> bool:
    later = queries[1:] > queries[:-1]
    return bool(np.all(later | ((queries[1:] == queries[:-1]) & (ranks[1:] > ranks[:-1]))))


def _refuse_gaps(place: str, queries: IntArray, ranks: IntArray, indptr: IntArray) -> None:
    first = np.repeat(ranks[indptr[:-1]], np.diff(indptr))
    expected = np.arange(ranks.size) - np.repeat(indptr[:-1], np.diff(indptr)) + first
    bad = np.flatnonzero((ranks != expected) | ~np.isin(first, (0, 1)))
    if bad.size:
        own = ranks[queries == queries[bad[0]]][:5].tolist()
        raise MalformedRun(
            f"{place}: the ranks of query {queries[bad[0]]} begin {own}; need 1, 2, 3 and so on, each once. "
            "A rank that is missing or given twice leaves the order open; number the items of each query anew."
        )
