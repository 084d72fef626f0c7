"""Frozen dataclasses shared by every layer: judgments, embeddings, rankings, ranks, reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import DataError, MalformedRun

__all__ = [
    "DIRECTIONS",
    "Embeddings",
    "FloatArray",
    "IntArray",
    "Judgments",
    "PositiveRanks",
    "RatedPairs",
    "Report",
    "Result",
    "TopK",
]

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

DENSE_SPAN = 64
"""Ids that span at most this many times their number are looked up in a table, others by bisection."""

DIRECTIONS = ("i2t", "t2i", "t2t", "i2i")
"""Query modality to gallery modality: image or text."""


def _frozen_ints(values: ArrayLike) -> IntArray:
    array = np.ascontiguousarray(values, dtype=np.int64)
    array.flags.writeable = False
    return array


def _all_unique(ids: IntArray) -> bool:
    return not np.any(np.diff(np.sort(ids)) == 0)


@dataclass(frozen=True, slots=True, eq=False)
class Judgments:
    """Positives per query (qrels) in compressed sparse row form.

    Row ``q`` of the matrix is ``indices[indptr[q]:indptr[q + 1]]``, ascending positions in
    ``gallery_ids``. Every query has at least one positive.

    Attributes:
        query_ids: (Q,) unique int64 ids.
        gallery_ids: (N,) unique int64 ids.
        indptr: (Q + 1,) row boundaries.
        indices: (P,) positions of the positives in ``gallery_ids``.
        unreachable: (Q,) positives that are outside the gallery: they count towards R, no run can
            retrieve them.
        without_self: the query itself is in ``gallery_ids`` and must be left out of its ranking
            (text-text, image-image).
        query_folds, gallery_folds: (Q,) and (N,) fold numbers, or None; a query ranks the gallery
            items of its own fold only (COCO 1K).
        gains: (P,) graded relevance of each entry of ``indices``, or None for binary judgments.

    Example:
        >>> qrels = Judgments.from_pairs([7, 8], [1, 2, 3], [7, 7, 8], [3, 1, 2])
        >>> qrels.indptr.tolist(), qrels.indices.tolist(), qrels.n_positives.tolist()
        ([0, 2, 3], [0, 2, 1], [2, 1])
    """

    query_ids: IntArray
    gallery_ids: IntArray
    indptr: IntArray
    indices: IntArray
    unreachable: IntArray
    without_self: bool = False
    query_folds: IntArray | None = None
    gallery_folds: IntArray | None = None
    gains: FloatArray | None = None

    def __post_init__(self) -> None:
        for name in ("query_ids", "gallery_ids", "indptr", "indices", "unreachable"):
            object.__setattr__(self, name, _frozen_ints(getattr(self, name)))
        for name in ("query_ids", "gallery_ids"):
            ids = getattr(self, name)
            if not _all_unique(ids):
                raise DataError(f"Judgments.{name} holds duplicated ids")
        empty = np.flatnonzero(self.n_positives == 0)
        if empty.size:
            raise DataError(f"query {self.query_ids[empty[0]]} has no positive; leave it out of the judgments")

    @classmethod
    def from_pairs(
        cls,
        query_ids: ArrayLike,
        gallery_ids: ArrayLike,
        pair_queries: ArrayLike,
        pair_items: ArrayLike,
        **options: Any,  # noqa: ANN401 - the remaining fields, forwarded
    ) -> Judgments:
        """Build from parallel arrays of (query id, positive id) pairs.

        Args:
            query_ids: (Q,) ids, in the order the rows shall have.
            gallery_ids: (N,) ids.
            pair_queries: (P,) query id of each positive pair; every one must be in ``query_ids``.
            pair_items: (P,) item id; items outside ``gallery_ids`` are counted as unreachable.
            **options: ``without_self``, ``query_folds``, ``gallery_folds``.

        Raises:
            DataError: an unknown query, a duplicated pair, a query without a positive.
        """
        queries, gallery = _frozen_ints(query_ids), _frozen_ints(gallery_ids)
        rows, known = positions_of(pair_queries, queries)
        if not known.all():
            raise DataError(f"pair names query {np.asarray(pair_queries)[~known][0]}, which is not in query_ids")
        columns, reachable = positions_of(pair_items, gallery)
        unreachable = np.bincount(rows[~reachable], minlength=queries.size)
        rows, columns = rows[reachable], columns[reachable]
        order = np.argsort(rows * gallery.size + columns)
        rows, columns = rows[order], columns[order]
        if np.any((np.diff(rows) == 0) & (np.diff(columns) == 0)):
            raise DataError("the same (query, positive) pair is given twice")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=queries.size))])
        return cls(queries, gallery, indptr, columns, unreachable, **options)

    @property
    def n_positives(self) -> IntArray:
        """(Q,) R of every query: positives in the gallery and unreachable ones."""
        return np.asarray(np.diff(self.indptr) + self.unreachable, dtype=np.int64)

    @property
    def rows(self) -> IntArray:
        """(P,) query position of every entry of ``indices``."""
        return np.repeat(np.arange(self.query_ids.size), np.diff(self.indptr))


def positions_of(wanted: ArrayLike, ids: IntArray) -> tuple[IntArray, NDArray[np.bool_]]:
    """Positions of ``wanted`` in ``ids`` (any order, unique) and a mask of those that are there.

    Example:
        >>> places, known = positions_of([30, 99], np.array([10, 30]))
        >>> places[known].tolist(), known.tolist()
        ([1], [True, False])
    """
    values = np.asarray(wanted, dtype=np.int64)
    if ids.size == 0:
        return np.zeros(values.shape, dtype=np.int64), np.zeros(values.shape, dtype=bool)
    low, span = int(ids.min()), int(ids.max()) - int(ids.min()) + 1
    if span <= DENSE_SPAN * ids.size:
        table = np.zeros(span, dtype=np.int64)
        table[ids - low] = np.arange(ids.size)
        places = table[np.clip(values - low, 0, span - 1)]
    else:
        order = np.argsort(ids, kind="stable")
        places = order[np.minimum(np.searchsorted(ids, values, sorter=order), ids.size - 1)]
    return places, ids[places] == values


@dataclass(frozen=True, slots=True, eq=False)
class Embeddings:
    """One vector per item, checked once.

    Attributes:
        ids: (N,) unique int64 ids.
        vectors: (N, D) float32, finite.

    Raises:
        MalformedRun: wrong shapes, duplicated ids, NaN or infinite values, nothing at all.
    """

    ids: IntArray
    vectors: NDArray[np.float32]

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", _frozen_ints(self.ids))
        object.__setattr__(self, "vectors", np.ascontiguousarray(self.vectors, dtype=np.float32))
        if self.vectors.ndim != 2 or self.ids.shape != self.vectors.shape[:1] or not self.vectors.size:
            raise MalformedRun(f"ids {self.ids.shape} and vectors {self.vectors.shape}: need (N,) and (N, D), N > 0")
        if not _all_unique(self.ids):
            values, counts = np.unique(self.ids, return_counts=True)
            raise MalformedRun(f"id {values[counts > 1][0]} occurs {counts.max()} times; every item needs one vector")
        bad = ~np.isfinite(self.vectors).all(axis=1)
        if bad.any():
            raise MalformedRun(f"{bad.sum()} vectors hold NaN or infinite values, the first for id {self.ids[bad][0]}")


@dataclass(frozen=True, slots=True, eq=False)
class TopK:
    """The best items per query. A run cut short knows its depth.

    Attributes:
        query_ids: (Q,) int64.
        ids: (Q, depth) gallery ids, best first.
        scores: (Q, depth) float32, or None when only the order is known.
    """

    query_ids: IntArray
    ids: IntArray
    scores: NDArray[np.float32] | None = None

    @property
    def depth(self) -> int:
        """Items known per query."""
        return int(self.ids.shape[1])


@dataclass(frozen=True, slots=True, eq=False)
class PositiveRanks:
    """Ranks of all positives of every query under the pessimistic tie rule.

    Attributes:
        query_ids: (Q,) int64.
        indptr: (Q + 1,) row boundaries of ``ranks``.
        ranks: (P,) 1-based ranks, ascending within a query.
        n_positives: (Q,) R, unreachable positives included.
        n_gallery: (Q,) gallery size each query was ranked against.
        ties: (Q,) gallery items other than positives whose score equals that of a positive.
    """

    query_ids: IntArray
    indptr: IntArray
    ranks: IntArray
    n_positives: IntArray
    n_gallery: IntArray
    ties: IntArray

    @classmethod
    def of(cls, ranks: Sequence[Sequence[int]], n_positives: ArrayLike = (), n_gallery: int = 100) -> PositiveRanks:
        """Ranks written by hand, one ascending list per query; R is the list's length unless given.

        Example:
            >>> PositiveRanks.of([[2, 9], [1]]).best.tolist()
            [2, 1]
        """
        sizes, given = np.array([len(row) for row in ranks], dtype=np.int64), _frozen_ints(n_positives)
        flat = np.array([rank for row in ranks for rank in row], dtype=np.int64)
        queries, gallery = np.arange(sizes.size), np.full(sizes.size, n_gallery)
        counts = given if given.size else sizes
        return cls(queries, np.append(0, np.cumsum(sizes)), flat, counts, gallery, np.zeros_like(sizes))

    @property
    def best(self) -> IntArray:
        """(Q,) rank of the best positive; gallery size + 1 where every positive is unreachable."""
        worst = self.n_gallery + 1
        has_any = np.diff(self.indptr) > 0
        worst[has_any] = self.ranks[self.indptr[:-1][has_any]]
        return worst


@dataclass(frozen=True, slots=True, eq=False)
class RatedPairs:
    """Graded judgments for correlation: one row per ordered (query, item) pair.

    Attributes:
        query_ids: (P,) int64.
        item_ids: (P,) int64.
        ratings: (P,) float64, 0 to 5.
    """

    query_ids: IntArray
    item_ids: IntArray
    ratings: FloatArray


@dataclass(frozen=True, slots=True)
class Result:
    """One number of a report.

    Attributes:
        task, direction, metric: the key's parts; direction is empty for a whole-task number.
        value: fraction in [0, 1], or a plain rank.
        low, high: bounds of the interval, or None where none is computed.
        n_queries: queries the value averages.
        ties: queries in which an item tied with a positive.
        coverage: share of the judged among the needed pairs, or None where every pair is judged.
        parameters: what the metric was called with.
    """

    task: str
    direction: str
    metric: str
    value: float
    n_queries: int
    low: float | None = None
    high: float | None = None
    ties: int = 0
    coverage: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """``task/direction/metric``, as in report.json.

        Example:
            >>> Result("coco_5k", "i2t", "recall_at_1", 0.5, 5000).key
            'coco_5k/i2t/recall_at_1'
        """
        return "/".join(part for part in (self.task, self.direction, self.metric) if part)


@dataclass(frozen=True, slots=True)
class Report:
    """All results of one run, and what they were computed from.

    Attributes:
        results: one row per task, direction and metric.
        skipped: task or task/direction to the reason why it was not computed.
        provenance: data version and hash, package versions, run file, command.
    """

    results: tuple[Result, ...]
    skipped: Mapping[str, str]
    provenance: Mapping[str, Any]

    @property
    def scores(self) -> dict[str, float]:
        """Key to value, the ``scores`` table of report.json."""
        return {result.key: result.value for result in self.results}
