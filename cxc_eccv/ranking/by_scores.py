"""Ranks from a score matrix, or from a function that returns its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import InvalidOption, MissingIds
from cxc_eccv.ranking.counts import Counts, MergedJudgments
from cxc_eccv.ranking.ranked import ByCounts, Readers, count_and_read, find_rows, refuse_vector_options
from cxc_eccv.ranking.readers import RowReader
from cxc_eccv.ranking.scores import Layout, Options, Scores, leave_out_self
from cxc_eccv.ranking.ties import rank_positives
from cxc_eccv.runs import MatrixRun
from cxc_eccv.types import FloatArray, IntArray, Judgments, PositiveRanks, RatedPairs, find_positions, find_sides

ScoreRows = Callable[[IntArray], NDArray[Any]]
"""Maps indices of queries to their (rows, N) finite scores, float32 or float64."""


class _Matrix(NamedTuple):
    """A function that returns rows of scores, and the indices of the queries and the items in them."""

    score_rows: ScoreRows
    rows: IntArray
    items: IntArray


class GivenScores(Scores):
    """Rows of scores, laid out as columns by segment."""

    rows_at_once = 256
    threads = 1

    def __init__(self, matrix: _Matrix, layout: Layout, self_columns: IntArray | None) -> None:
        self.height = matrix.rows.size
        self.width = layout.width
        self._matrix = matrix
        self._layout = layout
        self._self_columns = self_columns

    def fill(self, start: int, stop: int, _room: None) -> NDArray[Any]:
        """Scores of rows ``start`` to ``stop``, in a block of their own type."""
        scores = self._matrix.score_rows(self._matrix.rows[start:stop])
        block = np.full((len(scores), self.width), -np.inf, dtype=scores.dtype)
        block[:, self._layout.column] = scores[:, self._matrix.items]
        leave_out_self(block, self._self_columns, start)
        return block


class ByScores(ByCounts):
    """Ranks of a score matrix, or of one per direction."""

    run: MatrixRun

    def __init__(self, run: MatrixRun, options: Options) -> None:
        refuse_vector_options(run, options)
        self.run = run
        self._options = options

    def count(self, merged: Mapping[str, MergedJudgments], readers: Readers) -> dict[str, Counts]:
        """Counts of every direction, from rows or columns of the matrix."""
        return {name: self._count(name, each, readers.get(name, ())) for name, each in merged.items()}

    def _count(self, direction: str, merged: MergedJudgments, readers: Sequence[RowReader]) -> Counts:
        matrices = self.run.matrices
        if direction not in matrices:
            raise MissingIds(f"{self.run.path or 'run'}: has no {direction} scores, only {', '.join(matrices)}")
        query_side, gallery_side = find_sides(direction)
        rows = find_rows(merged.query_ids, self.run, query_side)
        items = find_rows(merged.gallery_ids, self.run, gallery_side)
        score_rows = partial(_take_rows, matrices[direction])
        return _count_scores(_Matrix(score_rows, rows, items), merged, readers, self._options)

    def compare(self, pairs: RatedPairs, direction: str) -> FloatArray:
        """(P,) scores of pairs of an image and a caption."""
        if direction != "i2t":
            raise InvalidOption(f"scores have no similarities of rated pairs in the direction {direction}")
        rows = find_rows(pairs.query_ids, self.run, "images")
        columns = find_rows(pairs.item_ids, self.run, "captions")
        return np.asarray(self.run.pair_scores[rows, columns], dtype=np.float64)


def rank_rows(
    score_rows: ScoreRows,
    query_ids: IntArray,
    gallery_ids: IntArray,
    judgments: Mapping[str, Judgments],
    readers: Sequence[RowReader] = (),
) -> dict[str, PositiveRanks]:
    """Ranks by name for several judgments of one direction, from a function that returns rows of scores.

    Raises:
        MissingIds: a query or an item of the judgments is not among the ids.
    """
    merged = MergedJudgments.of(judgments, readers)
    rows, has_queries = find_positions(merged.query_ids, query_ids)
    items, has_items = find_positions(merged.gallery_ids, gallery_ids)
    if not (has_queries.all() and has_items.all()):
        raise MissingIds("the scores lack queries or items of the judgments; score all")
    counts = _count_scores(_Matrix(score_rows, rows, items), merged, readers, Options())
    return {name: rank_positives(share, counts) for name, share in merged.shares.items()}


def _count_scores(matrix: _Matrix, merged: MergedJudgments, readers: Sequence[RowReader], options: Options) -> Counts:
    layout = Layout.of(merged.segments)
    scores = GivenScores(matrix, layout, merged.self_columns(layout.column))
    counts = count_and_read(scores, merged, layout, readers, options, "scores")
    # Positives are ordered by the number of items above them: counts fit float32, float64 scores may not.
    return Counts(-counts.above.sum(axis=1).astype("float32"), counts.at_least, counts.above)


def _take_rows(scores: NDArray[Any], rows: IntArray) -> NDArray[Any]:
    taken = scores[rows]
    return taken.astype("float32") if taken.dtype.itemsize < 4 else taken
