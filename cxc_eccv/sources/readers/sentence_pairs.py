"""Sentence pairs: scored by people (SemEval STS 2012-2016, STS Benchmark, SICK), or aligned between Wikipedias."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.reading import read_lines, shown
from cxc_eccv.types import FloatArray

Row = tuple[str, str, float, str, str, str]

SICK_HEADER = ["pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment"]
SICK_JUDGMENTS = ("ENTAILMENT", "NEUTRAL", "CONTRADICTION")
STSB_CELLS = (7, 9)
"""Genre, file, year, number, score, two sentences; some rows also name the sources of the sentences."""


@dataclass(frozen=True, slots=True, eq=False)
class SentencePairs:
    """Scored pairs of one file: ``left``, ``right``, ``score``, and columns that only some files have."""

    table: pa.Table
    unscored: int = 0

    @property
    def left(self) -> list[str]:
        """The N first sentences."""
        return list(self.table["left"].to_pylist())

    @property
    def right(self) -> list[str]:
        """The N second sentences."""
        return list(self.table["right"].to_pylist())

    @property
    def scores(self) -> FloatArray:
        """(N,) float64."""
        return np.asarray(self.table["score"], dtype=np.float64)

    def of(self, file: str, year: str) -> SentencePairs:
        """The pairs of one subtask of the STS Benchmark."""
        names, years = (self.table[column].to_pylist() for column in ("file", "year"))
        kept = [a == file and b == year for a, b in zip(names, years, strict=True)]
        return SentencePairs(self.table.filter(pa.array(kept)))


def read_semeval(path: Path) -> SentencePairs:
    """A subtask of SemEval: score and two sentences between tabs; a row with an empty score was never scored."""
    scored = []
    unscored = 0
    for place, cells in _cells(path, (3,)):
        if cells[0].strip():
            scored.append((cells[1], cells[2], _score(path, place, cells[0], 0), "", "", ""))
        else:
            unscored += 1
    return SentencePairs(_table(path, scored), unscored)


def read_stsb(path: Path) -> SentencePairs:
    """A split of the STS Benchmark, scores in [0, 5]."""
    rows = [
        (cells[5], cells[6], _score(path, place, cells[4], 0), cells[1], cells[2], "")
        for place, cells in _cells(path, STSB_CELLS)
    ]
    return SentencePairs(_table(path, rows))


def read_sick(path: Path) -> SentencePairs:
    """A split of SICK: relatedness scores in [1, 5], and whether sentence A entails or contradicts B, or neither."""
    rows = _cells(path, (5,))
    place, header = next(rows)
    if header != SICK_HEADER:
        raise MalformedSource(path, place, f"columns {shown(header)}", f"columns {SICK_HEADER}")
    scored = []
    for place, (_, left, right, score, judgment) in rows:
        if judgment not in SICK_JUDGMENTS:
            raise MalformedSource(path, place, f"judgment {shown(judgment)}", f"one of {', '.join(SICK_JUDGMENTS)}")
        scored.append((left, right, _score(path, place, score, 1), "", "", judgment))
    return SentencePairs(_table(path, scored))


def _cells(path: Path, widths: Sequence[int]) -> Iterator[tuple[str, list[str]]]:
    for number, line in enumerate(read_lines(path), start=1):
        if not line:
            continue
        cells = line.split("\t")
        if len(cells) not in widths:
            expected = f"{' or '.join(map(str, widths))} cells between tabs"
            raise MalformedSource(path, f"line {number}", f"{len(cells)} cells", expected)
        yield f"line {number}", cells


def _score(path: Path, place: str, text: str, lowest: int) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not lowest <= score <= 5:
        raise MalformedSource(path, place, f"score {shown(text)}", f"a number in [{lowest}, 5]")
    return score


def _table(path: Path, rows: Sequence[Row]) -> pa.Table:
    if not rows:
        raise MalformedSource(path, "", "no scored pair", "at least one")
    names = ("left", "right", "score", "file", "year", "judgment")
    return pa.table(dict(zip(names, zip(*rows, strict=True), strict=True)))


def read_aligned(paths: Sequence[Path]) -> pa.Table:
    """``normal`` and ``simple``: aligned sentences of English and Simple English Wikipedia (Kauchak 2013).

    Lines of both files hold article, paragraph and sentence between tabs.
    """
    normal, simple = (list(_cells(path, (3,))) for path in paths)
    if len(normal) != len(simple):
        raise MalformedSource(paths[1], "", f"{len(simple):,} lines", f"as many as in {paths[0].name}, {len(normal):,}")
    for (_, left), (place, right) in zip(normal, simple, strict=True):
        if left[0] != right[0]:
            expected = f"{shown(left[0])}, the article of that line of {paths[0].name}"
            raise MalformedSource(paths[1], place, f"article {shown(right[0])}", expected)
    return pa.table({"normal": [cells[2] for _, cells in normal], "simple": [cells[2] for _, cells in simple]})
