"""Merged judgments of one direction, and the counts for them.

The judgments of several tasks are merged so that they share one product. For each positive pair, the items of each
segment that reach its score and those that exceed it are counted; nothing is sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import DataError
from cxc_eccv.kernels import row_counts
from cxc_eccv.types import IntArray, Judgments, find_positions
from cxc_eccv.types.ids import find_distinct


class Asking(Protocol):
    """What needs queries to rank items: judgments, or a reader of rows."""

    @property
    def query_ids(self) -> IntArray: ...  # noqa: D102
    @property
    def gallery_ids(self) -> IntArray: ...  # noqa: D102
    @property
    def without_self(self) -> bool: ...  # noqa: D102


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """One task's share of merged judgments.

    ``kept`` are the (E,) entries of ``judgments.indices`` whose item is in the fold of their query, ``pairs`` their
    merged pairs; ``competes`` is (Q, S) bool, whether a query ranks the items of a segment.
    """

    judgments: Judgments
    kept: IntArray
    pairs: IntArray
    competes: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class MergedJudgments:
    """Judgments over a common set of Q queries and N gallery items, in S segments, with P distinct positive pairs."""

    query_ids: IntArray
    gallery_ids: IntArray
    segments: IntArray  # (N,) segment of each gallery item, from 0
    queries: IntArray  # (P,) positions in query_ids, ascending
    items: IntArray  # (P,) positions in gallery_ids
    without_self: bool
    shares: dict[str, Share]  # by task

    @property
    def n_segments(self) -> int:
        """The number of segments, S."""
        return int(self.segments.max()) + 1

    @classmethod
    def of(cls, judgments: Mapping[str, Judgments], readers: Sequence[Asking] = ()) -> MergedJudgments:
        """Merge the judgments of one direction by task name, with the queries and items of the readers."""
        asking: list[Asking] = [*judgments.values(), *readers]
        without_self = {judged.without_self for judged in asking}
        if len(without_self) > 1:
            raise DataError("judgments that leave the query out of its ranking cannot be merged with those that do not")
        query_ids = _union([judged.query_ids for judged in asking])
        gallery_ids = _union([judged.gallery_ids for judged in asking])
        segments = _segments(judgments.values(), gallery_ids)
        entries_of_tasks: list[IntArray] = []
        keys: list[IntArray] = []
        for judged in judgments.values():
            entries = entries_in_own_fold(judged)
            rows = find_positions(judged.query_ids, query_ids)[0][judged.rows[entries]]
            columns = find_positions(judged.gallery_ids, gallery_ids)[0][judged.indices[entries]]
            entries_of_tasks.append(entries)
            keys.append(rows * gallery_ids.size + columns)
        pairs, inverse = np.unique(np.concatenate([np.empty(0, np.int64), *keys]), return_inverse=True)
        queries, items = np.divmod(pairs, gallery_ids.size)
        if without_self == {True} and np.any(query_ids[queries] == gallery_ids[items]):
            raise DataError("a query is its own positive, but the judgments leave it out of its ranking")
        pairs_of_tasks = np.split(inverse, np.cumsum([len(key) for key in keys])[:-1])
        shares: dict[str, Share] = {}
        parts = zip(judgments.items(), entries_of_tasks, pairs_of_tasks, strict=False)
        for (name, judged), entries, task_pairs in parts:
            shares[name] = Share(judged, entries, task_pairs, _competes(judged, gallery_ids, segments))
        return cls(query_ids, gallery_ids, segments, queries, items, without_self == {True}, shares)

    def self_columns(self, column: IntArray) -> IntArray | None:
        """(Q,) column of each query itself, -1 if it is not in the gallery; None if queries rank themselves."""
        if not self.without_self:
            return None
        indices, present = find_positions(self.query_ids, self.gallery_ids)
        return np.where(present, column[indices], -1)


def _union(ids: list[IntArray]) -> IntArray:
    if all(np.array_equal(ids[0], other) for other in ids[1:]):
        return ids[0]
    return find_distinct(np.concatenate(ids))


def _segments(every: Iterable[Judgments], gallery_ids: IntArray) -> IntArray:
    segments = np.zeros(gallery_ids.size, dtype=np.int64)
    for judgments in every:
        indices, present = find_positions(gallery_ids, judgments.gallery_ids)
        folds = np.unique(judgments.folds[1], return_inverse=True)[1]
        labels = np.where(present, folds[indices] + 1, 0)
        segments = segments * (labels.max() + 1) + labels
        # Renumbered to keep the numbers small.
        segments = (np.cumsum(np.bincount(segments) > 0) - 1)[segments]
    return segments


def entries_in_own_fold(judgments: Judgments) -> IntArray:
    """(E,) the entries of ``judgments.indices`` whose item is in the fold of their query; all without folds."""
    of_queries, of_items = judgments.folds
    return np.flatnonzero(of_queries[judgments.rows] == of_items[judgments.indices])


def _competes(judgments: Judgments, gallery_ids: IntArray, segments: IntArray) -> NDArray[np.bool_]:
    """(Q, S) whether a segment is in the gallery of each query."""
    n_segments = int(segments.max()) + 1
    first = np.array([np.flatnonzero(segments == segment)[0] for segment in range(n_segments)])
    indices, inside = find_positions(gallery_ids[first], judgments.gallery_ids)
    of_queries, of_items = judgments.folds
    return np.asarray(inside & (of_queries[:, None] == of_items[indices]))


class ScoresTooAlike(Exception):
    """Too many scores are too close for a shortcut, so the direction must be counted row by row."""


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Scores of P positive pairs, and the number of gallery items that reach them.

    ``at_least`` is the (P, S) number of items in each segment that score at least as high, including the positive;
    ``above`` is the number that score higher.
    """

    scores: NDArray[np.float32]
    at_least: IntArray
    above: IntArray

    @classmethod
    def zeros(cls, n_pairs: int, n_segments: int) -> Counts:
        """Zero counts."""
        shape = n_pairs, n_segments
        return cls(np.zeros(n_pairs, np.float32), np.zeros(shape, np.int64), np.zeros(shape, np.int64))

    def take(self, pairs: IntArray) -> Counts:
        """The counts of these pairs, in this order."""
        return Counts(self.scores[pairs], self.at_least[pairs], self.above[pairs])


CountRows = Callable[[Any, IntArray, IntArray, IntArray], Counts]
"""Counts (P,) pairs from a block, the rows and columns of the pairs, and the segment bounds of the columns."""


def count_rows(block: NDArray[Any], rows: IntArray, columns: IntArray, bounds: IntArray) -> Counts:
    """Count on the CPU, see :data:`CountRows`."""
    scores = block[rows, columns]
    reached = row_counts(block, rows, scores, scores, bounds)
    return Counts(scores, reached.at_least, reached.above)


class RowPairs:
    """Counts positive pairs whose queries are rows; ``columns`` are those of their items."""

    def __init__(self, rows: IntArray, columns: IntArray, bounds: IntArray, count: CountRows = count_rows) -> None:
        self._order = np.argsort(rows, kind="stable")
        self._rows = rows[self._order]
        self._columns = columns[self._order]
        self._bounds = bounds
        self._counts = Counts.zeros(rows.size, bounds.size - 1)
        self._count = count

    def read(self, block: Any, start: int) -> None:  # noqa: ANN401 - an array, or a tensor on a device
        """Count the pairs of a block whose first row is ``start``; blocks may come in any order."""
        pairs = slice(*np.searchsorted(self._rows, [start, start + len(block)]).tolist())
        counts = self._count(block, self._rows[pairs] - start, self._columns[pairs], self._bounds)
        with np.errstate(over="ignore"):  # float64 scores may exceed float32
            self._counts.scores[pairs] = counts.scores
        self._counts.at_least[pairs], self._counts.above[pairs] = counts.at_least, counts.above

    @property
    def result(self) -> Counts:
        """The counts, in the original order of the pairs."""
        back = np.empty_like(self._order)
        back[self._order] = np.arange(back.size)
        return self._counts.take(back)


def gallery_sizes(judgments: Judgments) -> IntArray:
    """(Q,) number of items that each query ranks."""
    of_queries, of_items = judgments.folds
    folds, counts = np.unique(of_items, return_counts=True)
    sizes: IntArray = (of_queries[:, None] == folds) @ counts
    indices, ranked = find_positions(judgments.query_ids, judgments.gallery_ids)
    return sizes - (ranked & (of_items[indices] == of_queries)) if judgments.without_self else sizes


def count_reachable(judgments: Judgments) -> IntArray:
    """(Q,) number of positives that each query ranks."""
    return judgments.count(entries_in_own_fold(judgments))
