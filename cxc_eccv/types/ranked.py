"""Rankings: the best items per query with their gains, and the ranks of all positives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import DataError, MalformedRun, RunTooShallow
from cxc_eccv.types.ids import FloatArray, IntArray, check_whole, frozen_ints, positions_of
from cxc_eccv.types.judged import Judgments

__all__ = ["PositiveRanks", "TopK", "look_up_gains"]


@dataclass(frozen=True, slots=True, eq=False)
class TopK:
    """The best items per query. A run cut short knows its depth.

    Attributes:
        query_ids: (Q,) int64.
        ids: (Q, depth) gallery ids, best first; of equal scores the lower gain first.
        scores: (Q, depth) float64, or None when only the order is known.
        cut: (Q,) items beyond the depth that score as high as the last one, or None when unknown.

    Raises:
        MalformedRun: the ids are no whole numbers, not (Q, depth), or one stands twice in a row.

    Example:
        >>> TopK(np.array([5]), np.array([[30, 10]])).depth
        2
    """

    query_ids: IntArray
    ids: IntArray
    scores: FloatArray | None = None
    cut: IntArray | None = None

    def __post_init__(self) -> None:
        if self.ids.dtype.kind not in "iu" or self.ids.ndim != 2 or len(self.ids) != self.query_ids.size:
            raise MalformedRun(
                f"top items are {self.ids.dtype} of shape {self.ids.shape} for {self.query_ids.size} queries; need "
                "whole-number ids, a row for each query"
            )
        ordered = np.sort(self.ids, axis=1)
        repeated = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if repeated.size:
            raise MalformedRun(
                f"the top items of query {self.query_ids[repeated[0]]} name an id twice; every item has one rank"
            )

    @property
    def depth(self) -> int:
        """Items known per query."""
        return int(self.ids.shape[1])


def look_up_gains(top: TopK, judgments: Judgments, k: int, metric: str) -> tuple[FloatArray, NDArray[np.bool_]]:
    """(Q, K) gain of each of the top K items, 0 where it was not judged, and (Q, K) whether it was.

    The judgments are of the same queries in the same order, with gains; a gallery of fewer items has a shorter top.
    ``metric`` is named in messages.

    Raises:
        InvalidOption: k is not a whole number of at least 1.
        RunTooShallow: the top is not deep enough.
        DataError: the judgments have other queries, or no gains; or there is no query.

    Example:
        >>> qrels = Judgments(np.array([5]), np.array([7, 8, 9]), [0, 2], [0, 2], [0], gains=np.array([1.0, 0.5]))
        >>> look_up_gains(TopK(np.array([5]), np.array([[9, 8, 7]])), qrels, 2, "ndcg_at_k")[0].tolist()
        [[0.5, 0.0]]
    """
    check_whole(f"{metric}: k", k)
    if judgments.gains is None or not np.array_equal(top.query_ids, judgments.query_ids):
        raise DataError(f"{metric}: needs judgments with gains, of the queries that were ranked and in their order")
    if not top.query_ids.size:
        raise DataError(f"{metric}: there is no query to measure")
    shown = min(k, judgments.gallery_ids.size - judgments.without_self)
    if top.depth < shown:
        raise RunTooShallow(
            f"{metric} of query {top.query_ids[0]} looks at the top {shown}, but its ranking holds {top.depth} "
            f"items. Rank at least {shown} items."
        )
    columns, known = positions_of(top.ids[:, :shown], judgments.gallery_ids)
    size = judgments.gallery_ids.size
    pairs = np.arange(top.query_ids.size)[:, None] * size + columns
    judged_pairs = judgments.rows * size + judgments.indices  # ascending
    places = np.minimum(np.searchsorted(judged_pairs, pairs), judged_pairs.size - 1)
    judged = known & (judged_pairs[places] == pairs)
    return np.where(judged, judgments.gains[places], 0.0), judged


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

    Raises:
        MalformedRun: ranks that are no whole numbers from 1, do not rise within a query, go beyond the gallery, or are
            more than R; a query with R = 0.
    """

    query_ids: IntArray
    indptr: IntArray
    ranks: IntArray
    n_positives: IntArray
    n_gallery: IntArray
    ties: IntArray

    def __post_init__(self) -> None:
        found, rows = np.diff(self.indptr), np.repeat(np.arange(self.query_ids.size), np.diff(self.indptr))
        if self.ranks.dtype.kind not in "iu" or not self.query_ids.size:
            raise MalformedRun(
                f"ranks are {self.ranks.dtype}, of {self.query_ids.size} queries; need whole numbers from 1, of at "
                "least one query"
            )
        rises = np.append(True, (np.diff(self.ranks) > 0) | (np.diff(rows) > 0))[: rows.size]
        bad = np.flatnonzero((self.ranks < 1) | (self.ranks > self.n_gallery[rows]) | ~rises)
        if bad.size:
            raise MalformedRun(
                f"rank {self.ranks[bad[0]]} of query {self.query_ids[rows[bad[0]]]}: the ranks of its positives must "
                f"rise, from 1 to at most {self.n_gallery[rows[bad[0]]]}, the size of its gallery"
            )
        bad = np.flatnonzero((self.n_positives < found) | (self.n_positives < 1))
        if bad.size:
            raise MalformedRun(
                f"query {self.query_ids[bad[0]]} has R = {self.n_positives[bad[0]]} and {found[bad[0]]} ranks; R "
                "counts every positive and is at least 1"
            )

    @classmethod
    def of(cls, ranks: Sequence[Sequence[int]], n_positives: ArrayLike = (), n_gallery: int = 100) -> PositiveRanks:
        """Ranks written by hand, one ascending list per query; R is the list's length unless given.

        Example:
            >>> PositiveRanks.of([[2, 9], [1]]).best.tolist()
            [2, 1]
        """
        sizes, given = np.array([len(row) for row in ranks], dtype=np.int64), frozen_ints(n_positives)
        flat = np.array([rank for row in ranks for rank in row] or np.empty(0, dtype=np.int64))
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
