"""Sentences of English Wikipedia aligned with those of Simple English Wikipedia (Kauchak 2013)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.reading import read_lines, shown


def read_aligned(paths: Sequence[Path]) -> pa.Table:
    """``normal`` and ``simple``, a row for every line of the two files: article, paragraph, sentence between tabs."""
    normal, simple = ([_cells(path, number, line) for number, line in enumerate(read_lines(path), 1)] for path in paths)
    if len(normal) != len(simple):
        raise MalformedSource(paths[1], "", f"{len(simple):,} lines", f"as many as in {paths[0].name}, {len(normal):,}")
    for number, (left, right) in enumerate(zip(normal, simple, strict=True), 1):
        if left[0] != right[0]:
            expected = f"{shown(left[0])}, the article of that line of {paths[0].name}"
            raise MalformedSource(paths[1], f"line {number}", f"article {shown(right[0])}", expected)
    return pa.table({"normal": [cells[2] for cells in normal], "simple": [cells[2] for cells in simple]})


def _cells(path: Path, number: int, line: str) -> list[str]:
    cells = line.split("\t")
    if len(cells) != 3:
        raise MalformedSource(path, f"line {number}", f"{len(cells)} cells", "3 cells between tabs")
    return cells
