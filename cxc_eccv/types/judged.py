"""Judgments: positives per query, and graded pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cxc_eccv.errors import DataError
from cxc_eccv.types.ids import FloatArray, IntArray, all_unique, frozen_ints, positions_of

__all__ = ["DIRECTIONS", "Judgments", "RatedPairs"]

DIRECTIONS = ("i2t", "t2i", "t2t", "i2i")
"""Query modality to gallery modality: image or text."""


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
        gains: (P,) graded relevance of each entry of ``indices``, or None for binary judgments. With gains the
            entries are all judged items, also those of gain 0.

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
            object.__setattr__(self, name, frozen_ints(getattr(self, name)))
        for name in ("query_ids", "gallery_ids"):
            ids = getattr(self, name)
            if not all_unique(ids):
                raise DataError(f"Judgments.{name} holds duplicated ids")
        empty = np.flatnonzero(self.n_positives == 0)
        if empty.size:
            raise DataError(f"query {self.query_ids[empty[0]]} has no positive; leave it out of the judgments")
        if self.gains is not None and (self.gains.shape != self.indices.shape or not np.isfinite(self.gains).all()):
            raise DataError(
                f"Judgments.gains, of shape {self.gains.shape}: need one finite number for each of "
                f"{self.indices.size} judged pairs"
            )

    @classmethod
    def from_pairs(
        cls,
        query_ids: ArrayLike,
        gallery_ids: ArrayLike,
        pair_queries: ArrayLike,
        pair_items: ArrayLike,
        *,
        gains: ArrayLike | None = None,
        **options: Any,  # noqa: ANN401 - the remaining fields, forwarded
    ) -> Judgments:
        """Build from parallel arrays of (query id, positive id) pairs.

        Args:
            query_ids: (Q,) ids, in the order the rows shall have.
            gallery_ids: (N,) ids.
            pair_queries: (P,) query id of each positive pair; every one must be in ``query_ids``.
            pair_items: (P,) item id; items outside ``gallery_ids`` are counted as unreachable.
            gains: (P,) graded relevance of each pair; the pairs are then all judged ones.
            **options: ``without_self``, ``query_folds``, ``gallery_folds``.

        Raises:
            DataError: an unknown query, a duplicated pair, a query without a positive.
        """
        queries, gallery = frozen_ints(query_ids), frozen_ints(gallery_ids)
        rows, known = positions_of(pair_queries, queries)
        if not known.all():
            raise DataError(f"pair names query {np.asarray(pair_queries)[~known][0]}, which is not in query_ids")
        columns, reachable = positions_of(pair_items, gallery)
        unreachable = np.bincount(rows[~reachable], minlength=queries.size)
        rows, columns = rows[reachable], columns[reachable]
        order = np.argsort(rows * gallery.size + columns)
        rows, columns = rows[order], columns[order]
        twice = np.flatnonzero((np.diff(rows) == 0) & (np.diff(columns) == 0))
        if twice.size:
            query, item = queries[rows[twice[0]]], gallery[columns[twice[0]]]
            raise DataError(f"the pair of query {query} and item {item} is given twice; every item is judged once")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=queries.size))])
        grades = None if gains is None else np.asarray(gains, dtype=np.float64)[reachable][order]
        return cls(queries, gallery, indptr, columns, unreachable, gains=grades, **options)

    @property
    def n_positives(self) -> IntArray:
        """(Q,) R of every query: positives in the gallery and unreachable ones."""
        return np.asarray(np.diff(self.indptr) + self.unreachable, dtype=np.int64)

    @property
    def rows(self) -> IntArray:
        """(P,) query position of every entry of ``indices``."""
        return np.repeat(np.arange(self.query_ids.size), np.diff(self.indptr))


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
