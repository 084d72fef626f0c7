"""Judgments (positives per query, rated pairs) and rankings (top items, ranks of the positives)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import DataError, InvalidOption, MalformedRun, RunTooShallow, UnknownName
from cxc_eccv.types.ids import FloatArray, IntArray, all_unique, check_whole, find_positions, frozen_ints, make_indptr

DIRECTIONS = ("i2t", "t2i", "t2t", "i2i")
"""Query modality to gallery modality: image or text."""

CROSS_MODAL = DIRECTIONS[:2]

MODALITIES = {"i": "images", "t": "captions"}
SIDES = tuple(MODALITIES.values())


def find_sides(direction: str) -> tuple[str, str]:
    """The modalities of the queries and of the gallery.

    Example:
        >>> find_sides("i2t")
        ('images', 'captions')
    """
    if direction not in DIRECTIONS:
        raise UnknownName("direction", direction, DIRECTIONS)
    return MODALITIES[direction[0]], MODALITIES[direction[-1]]


def orient(images: ArrayLike, captions: ArrayLike, direction: str) -> tuple[Any, Any]:
    """Queries and items of pairs of images and captions; of pairs of queries and items, images and captions.

    Example:
        >>> orient("image", "caption", "t2i")
        ('caption', 'image')
    """
    return (images, captions) if direction == "i2t" else (captions, images)


def other_side(side: str) -> str:
    """The other modality.

    Example:
        >>> other_side("images")
        'captions'
    """
    return SIDES[1 - SIDES.index(side)]


class _PerQuery:
    """Entries of Q queries, of which those of query q stand at ``indptr[q]:indptr[q + 1]``."""

    __slots__ = ()

    query_ids: IntArray
    indptr: IntArray

    @property
    def rows(self) -> IntArray:
        """(P,) position of the query of every entry."""
        return np.repeat(np.arange(self.query_ids.size), np.diff(self.indptr))

    def sum(self, terms: NDArray[np.generic]) -> FloatArray:
        """(Q,) sum of (P,) numbers or flags over the entries of each query; 0 for a query without any.

        Example:
            >>> ranks = PositiveRanks.of([[2, 4], [1], []], n_positives=[2, 1, 1])
            >>> ranks.sum(1 / ranks.ranks).tolist()
            [0.75, 1.0, 0.0]
        """
        return np.asarray(np.bincount(self.rows, weights=terms, minlength=self.query_ids.size), dtype=np.float64)

    def count(self, chosen: NDArray[np.bool_] | IntArray) -> IntArray:
        """(Q,) number of entries of each query that (P,) flags or positions choose.

        Example:
            >>> ranks = PositiveRanks.of([[2, 4], [1]])
            >>> ranks.count(ranks.ranks <= 2).tolist()
            [1, 1]
        """
        return np.bincount(self.rows[chosen], minlength=self.query_ids.size)


@dataclass(frozen=True, slots=True, eq=False)
class Judgments(_PerQuery):
    """Positives per query (qrels) in compressed sparse row form.

    Row ``q`` of the matrix is ``indices[indptr[q]:indptr[q + 1]]``, ascending positions in
    ``gallery_ids``. Every query has at least one positive.

    Attributes:
        query_ids: (Q,) unique int64 ids.
        gallery_ids: (N,) unique int64 ids.
        indptr: (Q + 1,) row boundaries.
        indices: (P,) positions of the positives in ``gallery_ids``.
        unreachable: (Q,) number of positives outside the gallery. They count towards R, but no run can retrieve them.
        without_self: whether the query is in ``gallery_ids`` and must be left out of its ranking (text-text,
            image-image).
        query_folds, gallery_folds: (Q,) and (N,) fold numbers, or None; a query ranks only the gallery items of its
            fold (COCO 1K).
        gains: (P,) graded relevance of each entry of ``indices``, or None for binary judgments. With gains the
            entries are all judged items, including those of gain 0.

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
                f"Judgments.gains has shape {self.gains.shape}; need one finite number for each of "
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
        without_self: bool = False,
        query_folds: IntArray | None = None,
        gallery_folds: IntArray | None = None,
    ) -> Judgments:
        """Build from parallel arrays of (query id, positive id) pairs.

        Args:
            query_ids: (Q,) ids, in the order of the rows.
            gallery_ids: (N,) ids.
            pair_queries: (P,) query id of each positive pair, all in ``query_ids``.
            pair_items: (P,) item id; positives outside ``gallery_ids`` are counted as unreachable.
            gains: (P,) graded relevance of each pair; the pairs are then all judged pairs.
            without_self: whether a query is in the gallery and must be left out of its ranking.
            query_folds: (Q,) fold numbers of the queries, or None.
            gallery_folds: (N,) fold numbers of the gallery items, or None.

        Raises:
            DataError: an unknown query, a duplicated pair, a query without a positive.
        """
        queries = frozen_ints(query_ids)
        gallery = frozen_ints(gallery_ids)
        rows, known = find_positions(pair_queries, queries)
        if not known.all():
            raise DataError(f"pair names query {np.asarray(pair_queries)[~known][0]}, which is not in query_ids")
        columns, reachable = find_positions(pair_items, gallery)
        grades = None if gains is None else np.asarray(gains, dtype=np.float64)
        lost = ~reachable if grades is None else ~reachable & (grades > 0)
        entries = np.flatnonzero(reachable)
        pair_numbers = rows[entries] * gallery.size + columns[entries]
        order = np.argsort(pair_numbers)
        entries = entries[order]
        repeats = np.flatnonzero(np.diff(pair_numbers[order]) == 0)
        if repeats.size:
            entry = entries[repeats[0]]
            query = queries[rows[entry]]
            item = gallery[columns[entry]]
            raise DataError(f"the pair of query {query} and item {item} occurs twice; give every pair once")
        return cls(
            query_ids=queries,
            gallery_ids=gallery,
            indptr=make_indptr(np.bincount(rows[entries], minlength=queries.size)),
            indices=columns[entries],
            unreachable=np.bincount(rows[lost], minlength=queries.size),
            without_self=without_self,
            query_folds=query_folds,
            gallery_folds=gallery_folds,
            gains=None if grades is None else grades[entries],
        )

    @classmethod
    def empty(cls, query_ids: IntArray, gallery_ids: IntArray, *, without_self: bool = False) -> Judgments:
        """Judgments without any pair, under which ties are ordered by id; every query has an unreachable positive."""
        return cls(
            query_ids=query_ids,
            gallery_ids=gallery_ids,
            indptr=np.zeros(query_ids.size + 1, dtype=np.int64),
            indices=np.empty(0, dtype=np.int64),
            unreachable=np.ones(query_ids.size, dtype=np.int64),
            without_self=without_self,
        )

    def with_gains(self, rows: IntArray, columns: IntArray, gains: ArrayLike) -> Judgments:
        """Judgments with gains of further pairs, which are given by positions of queries and of gallery items.

        Example:
            >>> qrels = Judgments.from_pairs([7], [1, 2, 3], [7], [3], gains=[1.0])
            >>> more = qrels.with_gains(np.array([0]), np.array([1]), 0.5)
            >>> more.indices.tolist(), more.gains.tolist()
            ([1, 2], [0.5, 1.0])
        """
        size = self.gallery_ids.size
        added = rows * size + columns
        pairs = np.append(self.rows * size + self.indices, added)
        grades = np.append(np.asarray(self.gains), np.broadcast_to(gains, added.shape))
        order = np.argsort(pairs)
        counts = np.bincount(pairs // size, minlength=self.query_ids.size)
        return replace(self, indptr=make_indptr(counts), indices=(pairs % size)[order], gains=grades[order])

    def without(self, query_ids: IntArray, gallery_ids: IntArray) -> Judgments:
        """Judgments without these queries and items; queries that are left without a positive are dropped too.

        Positives outside the gallery still count towards R.

        Example:
            >>> qrels = Judgments.from_pairs([7, 8], [1, 2, 3], [7, 7, 8], [3, 1, 2])
            >>> rest = qrels.without(np.array([]), np.array([2, 3]))
            >>> rest.query_ids.tolist(), rest.gallery_ids.tolist(), rest.n_positives.tolist()
            ([7], [1], [1])
        """
        rows = self.rows
        keeps_query = ~np.isin(self.query_ids, query_ids)
        keeps_item = ~np.isin(self.gallery_ids, gallery_ids)
        keeps_entry = keeps_query[rows] & keeps_item[self.indices]
        is_positive = keeps_entry if self.gains is None else keeps_entry & (self.gains > 0)
        keeps_query &= self.count(is_positive) > 0
        keeps_entry &= keeps_query[rows]
        counts = self.count(keeps_entry)
        new_positions = np.cumsum(keeps_item) - 1
        return replace(
            self,
            query_ids=self.query_ids[keeps_query],
            gallery_ids=self.gallery_ids[keeps_item],
            indptr=make_indptr(counts[keeps_query]),
            indices=new_positions[self.indices[keeps_entry]],
            unreachable=self.unreachable[keeps_query],
            query_folds=None if self.query_folds is None else self.query_folds[keeps_query],
            gallery_folds=None if self.gallery_folds is None else self.gallery_folds[keeps_item],
            gains=None if self.gains is None else self.gains[keeps_entry],
        )

    @property
    def n_positives(self) -> IntArray:
        """(Q,) R of every query: its positives, unreachable ones included."""
        return np.asarray(np.diff(self.indptr) + self.unreachable, dtype=np.int64)

    @property
    def n_relevant(self) -> IntArray:
        """(Q,) R of every query, counting items of gain above 0 and unreachable positives.

        Example:
            >>> Judgments.from_pairs([7], [1, 2], [7, 7, 7], [1, 2, 3], gains=[0.5, 0, 1]).n_relevant.tolist()
            [2]
        """
        if self.gains is None:
            return self.n_positives
        return self.count(self.gains > 0) + self.unreachable

    @property
    def folds(self) -> tuple[IntArray, IntArray]:
        """(Q,) and (N,) folds of queries and items; one for all without folds."""
        if self.query_folds is None or self.gallery_folds is None:
            return np.zeros_like(self.query_ids), np.zeros_like(self.gallery_ids)
        return self.query_folds, self.gallery_folds


@dataclass(frozen=True, slots=True, eq=False)
class RatedPairs:
    """Ratings for rank correlation: one row per ordered (query, item) pair.

    Attributes:
        query_ids: (P,) int64.
        item_ids: (P,) int64.
        ratings: (P,) float64, 0 to 5.
    """

    query_ids: IntArray
    item_ids: IntArray
    ratings: FloatArray

    @property
    def gallery_ids(self) -> IntArray:
        """(P,) the items, which a run must have as it has a gallery."""
        return self.item_ids

    def without(self, query_ids: IntArray, item_ids: IntArray) -> RatedPairs:
        """The pairs whose query and item are both not among these.

        Example:
            >>> pairs = RatedPairs(np.array([1, 1, 2]), np.array([7, 8, 7]), np.array([5.0, 0.5, 0.5]))
            >>> pairs.without(np.array([2]), np.array([8])).ratings.tolist()
            [5.0]
        """
        rows = ~np.isin(self.query_ids, query_ids) & ~np.isin(self.item_ids, item_ids)
        return RatedPairs(self.query_ids[rows], self.item_ids[rows], self.ratings[rows])


@dataclass(frozen=True, slots=True, eq=False)
class TopK:
    """The top items of every query.

    Attributes:
        query_ids: (Q,) int64.
        ids: (Q, depth) gallery ids, best first; among equal scores the lower gain comes first.
        scores: (Q, depth) float64, or None when only the order is known.
        cut: (Q,) number of items beyond the depth that tie with the last one, or None when unknown.
        if_ties_help: the top if among equal scores the higher gain came first; None where that changes no gain.

    Raises:
        MalformedRun: ids are not integers of shape (Q, depth), or a row repeats an id.

    Example:
        >>> TopK(np.array([5]), np.array([[30, 10]])).depth
        2
    """

    query_ids: IntArray
    ids: IntArray
    scores: FloatArray | None = None
    cut: IntArray | None = None
    if_ties_help: TopK | None = None

    def __post_init__(self) -> None:
        if self.ids.dtype.kind not in "iu" or self.ids.ndim != 2 or len(self.ids) != self.query_ids.size:
            raise MalformedRun(
                f"top items have type {self.ids.dtype} and shape {self.ids.shape} for {self.query_ids.size} queries; "
                "need integer ids, one row per query"
            )
        ordered = np.sort(self.ids, axis=1)
        repeated = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        if repeated.size:
            raise MalformedRun(
                f"the top items of query {self.query_ids[repeated[0]]} repeat an id; list every item once"
            )

    @property
    def depth(self) -> int:
        """Number of items per query."""
        return int(self.ids.shape[1])


def look_up_gains(
    top: TopK, judgments: Judgments, k: int, metric: str, *, degrees: bool = False
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """(Q, K) gains of the top K items, 0 for unjudged items, and (Q, K) bool, whether each item was judged.

    The judgments must have gains and the same queries in the same order; K is at most the size of the gallery.
    ``metric`` is named in messages. With ``degrees``, gains must lie in [0, 1] and every query needs one above 0.

    Example:
        >>> qrels = Judgments(np.array([5]), np.array([7, 8, 9]), [0, 2], [0, 2], [0], gains=np.array([1.0, 0.5]))
        >>> look_up_gains(TopK(np.array([5]), np.array([[9, 8, 7]])), qrels, 2, "ndcg_at_k")[0].tolist()
        [[0.5, 0.0]]
    """
    check_whole(f"{metric}: k", k)
    if judgments.gains is None or not np.array_equal(top.query_ids, judgments.query_ids):
        raise DataError(f"{metric}: the judgments need gains, and the ranked queries in the same order")
    if not top.query_ids.size:
        raise DataError(f"{metric}: there are no queries")
    if degrees:
        _check_degrees(judgments, judgments.gains, metric)
    shown = min(k, judgments.gallery_ids.size - judgments.without_self)
    if top.depth < shown:
        raise RunTooShallow(
            f"{metric} of query {top.query_ids[0]} looks at the top {shown}, but its ranking holds {top.depth} "
            f"items. Rank at least {shown} items."
        )
    size = judgments.gallery_ids.size
    columns, in_gallery = find_positions(top.ids[:, :shown], judgments.gallery_ids)
    pairs = np.arange(top.query_ids.size)[:, None] * size + columns
    judged_pairs = judgments.rows * size + judgments.indices  # ascending
    if not judged_pairs.size:  # all positives are outside the gallery
        return np.zeros(pairs.shape), np.zeros(pairs.shape, dtype=bool)
    entries = np.minimum(np.searchsorted(judged_pairs, pairs), judged_pairs.size - 1)
    is_judged = in_gallery & (judged_pairs[entries] == pairs)
    return np.where(is_judged, judgments.gains[entries], 0.0), is_judged


def _check_degrees(judgments: Judgments, gains: FloatArray, metric: str) -> None:
    wrong = gains[~((gains >= 0) & (gains <= 1))]
    if wrong.size:
        raise DataError(f"{metric}: a judged item has gain {wrong[0]}, expected a degree from 0 to 1")
    if not judgments.n_relevant.all():
        query = judgments.query_ids[judgments.n_relevant == 0][0]
        raise DataError(f"{metric}: query {query} has no item of gain above 0; leave the query out")


@dataclass(frozen=True, slots=True, eq=False)
class PositiveRanks(_PerQuery):
    """Ranks of all positives of every query under the pessimistic tie rule.

    Attributes:
        query_ids: (Q,) int64.
        indptr: (Q + 1,) row boundaries of ``ranks``.
        ranks: (P,) 1-based ranks, ascending within a query.
        n_positives: (Q,) R, unreachable positives included.
        n_gallery: (Q,) size of the gallery of each query.
        ties: (Q,) number of items other than positives that tie with a positive.
        if_ties_help: the ranks if of equal scores a positive stood first; None where no rank would differ.

    Raises:
        MalformedRun: ranks are not integers from 1, do not increase within a query, exceed the gallery size, or are
            more than R; or a query has R = 0.
    """

    query_ids: IntArray
    indptr: IntArray
    ranks: IntArray
    n_positives: IntArray
    n_gallery: IntArray
    ties: IntArray
    if_ties_help: Self | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        n_ranks = np.diff(self.indptr)
        rows = self.rows
        if self.ranks.dtype.kind not in "iu" or not self.query_ids.size:
            raise MalformedRun(
                f"ranks have type {self.ranks.dtype} for {self.query_ids.size} queries; need integers from 1, and at "
                "least one query"
            )
        rises = np.append(True, (np.diff(self.ranks) > 0) | (np.diff(rows) > 0))[: rows.size]
        bad = np.flatnonzero((self.ranks < 1) | (self.ranks > self.n_gallery[rows]) | ~rises)
        if bad.size:
            query = rows[bad[0]]
            raise MalformedRun(
                f"query {self.query_ids[query]} has rank {self.ranks[bad[0]]}; the ranks of its positives must "
                f"increase, from 1 to at most {self.n_gallery[query]}, the size of its gallery"
            )
        bad = np.flatnonzero((self.n_positives < n_ranks) | (self.n_positives < 1))
        if bad.size:
            query = bad[0]
            raise MalformedRun(
                f"query {self.query_ids[query]} has R = {self.n_positives[query]} and {n_ranks[query]} ranks; R "
                "counts every positive and is at least 1"
            )

    @classmethod
    def of(cls, ranks: Sequence[Sequence[int]], n_positives: ArrayLike = (), n_gallery: int = 100) -> PositiveRanks:
        """Build from one ascending list of ranks per query; R defaults to the length of the list.

        Example:
            >>> PositiveRanks.of([[2, 9], [1]]).best.tolist()
            [2, 1]
        """
        sizes = np.array([len(row) for row in ranks], dtype=np.int64)
        stated = frozen_ints(n_positives)
        flat = list(itertools.chain.from_iterable(ranks))
        return cls(
            query_ids=np.arange(sizes.size),
            indptr=make_indptr(sizes),
            ranks=np.array(flat) if flat else np.empty(0, dtype=np.int64),
            n_positives=stated if stated.size else sizes,
            n_gallery=np.full(sizes.size, n_gallery),
            ties=np.zeros_like(sizes),
        )

    @property
    def best(self) -> IntArray:
        """(Q,) rank of the best positive; gallery size + 1 where all positives are unreachable."""
        worst = self.n_gallery + 1
        has_any = np.diff(self.indptr) > 0
        worst[has_any] = self.ranks[self.indptr[:-1][has_any]]
        return worst


@dataclass(frozen=True, slots=True, eq=False)
class JudgedRanks(_PerQuery):
    """Ranks of all judged items of every query under the pessimistic tie rule: of equal ones negatives stand first.

    Attributes:
        query_ids: (Q,) int64.
        indptr: (Q + 1,) row boundaries of ``ranks`` and ``verdicts``.
        ranks: (P,) 1-based ranks in the whole gallery, ascending within a query.
        verdicts: (P,) 0 for a judged negative, 1 for a positive that the original links have, 2 for any other positive.
        n_positives: (Q,) R, unreachable positives included.
        n_gallery: (Q,) gallery size each query was ranked against.
        ties: (Q,) items other than positives whose score equals that of a positive.
        if_ties_help: the ranks if of equal scores positives stood first and negatives last; None where none differs.

    Raises:
        MalformedRun: ranks that do not rise within a query or go beyond the gallery; a query with R = 0.

    Example:
        >>> JudgedRanks.of([[(1, 0), (4, 1), (9, 2)]]).judged_only.ranks.tolist()
        [2, 3]
    """

    query_ids: IntArray
    indptr: IntArray
    ranks: IntArray
    verdicts: IntArray
    n_positives: IntArray
    n_gallery: IntArray
    ties: IntArray
    if_ties_help: JudgedRanks | None = None

    def __post_init__(self) -> None:
        sizes = np.diff(self.indptr)
        # All judged items as if they were positives: the same checks.
        PositiveRanks(self.query_ids, self.indptr, self.ranks, np.maximum(sizes, 1), self.n_gallery, self.ties)
        bad = np.flatnonzero(self.n_positives < self.count(self.positive))
        if bad.size or not self.n_positives.all():
            raise MalformedRun(
                "R of a query is less than its positives, or 0; R counts every positive and is at least 1"
            )

    @classmethod
    def of(cls, items: Sequence[Sequence[tuple[int, int]]], n_gallery: int = 100) -> JudgedRanks:
        """Pairs of rank and verdict written by hand, one ascending list per query."""
        sizes = np.array([len(row) for row in items])
        flat = np.array(list(itertools.chain.from_iterable(items)), dtype=np.int64).reshape(-1, 2)
        ranks, verdicts = flat.T
        rows = np.repeat(np.arange(sizes.size), sizes)
        return cls(
            query_ids=np.arange(sizes.size),
            indptr=make_indptr(sizes),
            ranks=ranks,
            verdicts=verdicts,
            n_positives=np.bincount(rows[verdicts > 0], minlength=sizes.size),
            n_gallery=np.full(sizes.size, n_gallery),
            ties=np.zeros_like(sizes),
        )

    @property
    def positive(self) -> NDArray[np.bool_]:
        """(P,) whether people called the item a match."""
        return self.verdicts > 0

    @property
    def n_negatives(self) -> IntArray:
        """(Q,) judged negatives."""
        return self.count(~self.positive)

    @property
    def places(self) -> IntArray:
        """(P,) 1-based place of every judged item among the judged items of its query."""
        return np.arange(self.ranks.size) - self.indptr[self.rows] + 1

    @property
    def judged_only(self) -> PositiveRanks:
        """The ranks of the positives in a gallery of judged items alone, the condensed list."""
        kept = self.positive
        counts = self.count(kept)
        unreachable = self.n_positives - counts
        sizes = np.diff(self.indptr) + unreachable
        places = self.places[kept]
        return PositiveRanks(self.query_ids, make_indptr(counts), places, self.n_positives, sizes, self.ties)


def choose_ranks(ranks: PositiveRanks | JudgedRanks, *, judged_only: bool) -> PositiveRanks:
    """The ranks of the positives in the whole gallery, or with ``judged_only`` among the judged items alone.

    Raises:
        InvalidOption: ``judged_only`` without the ranks of judged items, or these without ``judged_only``.
    """
    if isinstance(ranks, JudgedRanks) != judged_only:
        raise InvalidOption(
            f"judged_only is {judged_only}, but the ranks are {type(ranks).__name__}; judged_only=True takes "
            "JudgedRanks, other calls take PositiveRanks"
        )
    return ranks.judged_only if isinstance(ranks, JudgedRanks) else ranks
