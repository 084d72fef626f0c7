"""Ranks of the positives as far as given rankings tell them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import DataError, InvalidOption, MalformedRun
from cxc_eccv.types import IntArray, PositiveRanks
from cxc_eccv.types.ids import DENSE_SPAN

__all__ = ["GivenRanks", "Places", "given_ranks", "id_array"]


@dataclass(frozen=True, slots=True, eq=False)
class GivenRanks:
    """What rankings say about the positives of Q queries.

    Attributes:
        ranks: ranks of the positives that the rankings hold; ``n_positives`` counts the others too. ``n_gallery`` is
            the ranking's depth where the size of the gallery is unknown. The order is trusted: there are no ties.
        depths: (Q,) items in each query's ranking.
        complete: (Q,) whether a ranking holds the whole gallery, so that a positive it lacks is outside the gallery.
    """

    ranks: PositiveRanks
    depths: IntArray
    complete: NDArray[np.bool_]

    @property
    def n_found(self) -> IntArray:
        """(Q,) positives that the rankings hold."""
        return np.diff(self.ranks.indptr)


def given_ranks(
    rankings: Sequence[ArrayLike] | IntArray,
    positives: Sequence[ArrayLike] | IntArray,
    *,
    query_ids: ArrayLike | None = None,
    gallery_size: ArrayLike | None = None,
    unreachable: ArrayLike = 0,
) -> GivenRanks:
    """Find the positives in rankings that may be cut short.

    Args:
        rankings: Q sequences of gallery ids, best first, each of any length, without the query itself.
        positives: Q sequences of positive ids, in any order.
        query_ids: (Q,) what messages call the queries; their positions by default.
        gallery_size: items that a query ranks, one number or (Q,); None where unknown, and then no ranking is complete.
        unreachable: positives beside the listed ones that are outside the gallery, one number or (Q,); R counts them.

    Raises:
        MalformedRun: no query, not one ranking per query, ids that are not whole numbers, an id twice in a ranking, a
            ranking longer than the gallery.
        DataError: a query without a positive, or with one that is listed twice.
        InvalidOption: a gallery size or a number of unreachable positives that is not a whole number in range.

    Example:
        >>> given = given_ranks([[30, 10, 20], [10]], [[20, 30], [30]])
        >>> given.ranks.ranks.tolist(), given.ranks.n_positives.tolist(), given.depths.tolist()
        ([1, 3], [2, 1], [3, 1])
    """
    queries = _query_ids(query_ids, len(rankings), len(positives))
    ranked = [id_array(row, f"the ranking of query {query}") for query, row in zip(queries, rankings, strict=True)]
    wanted = [id_array(row, f"the positives of query {query}") for query, row in zip(queries, positives, strict=True)]
    depths = np.array([row.size for row in ranked], dtype=np.int64)
    sizes = depths if gallery_size is None else _counts(gallery_size, queries.size, "gallery_size", least=1)
    for query, depth, size in zip(queries, depths, sizes, strict=True):
        if depth > size:
            raise MalformedRun(f"the ranking of query {query} holds {depth} items, more than gallery_size {size}")
    n_positives = np.array([row.size for row in wanted]) + _counts(unreachable, queries.size, "unreachable", least=0)
    places = Places(ranked, wanted)
    found = [places.ranks(*row) for row in zip(queries, ranked, wanted, n_positives, strict=True)]
    indptr = np.append(0, np.cumsum([row.size for row in found]))
    ranks = PositiveRanks(queries, indptr, np.concatenate(found), n_positives, sizes, np.zeros_like(depths))
    return GivenRanks(ranks, depths, np.zeros_like(depths, bool) if gallery_size is None else depths == sizes)


def _query_ids(query_ids: ArrayLike | None, n_rankings: int, n_positives: int) -> IntArray:
    if n_rankings != n_positives:
        raise MalformedRun(f"{n_rankings} rankings for the positives of {n_positives} queries; need one for each")
    if not n_rankings:
        raise MalformedRun("no rankings at all; need one per query")
    queries = np.arange(n_rankings) if query_ids is None else id_array(query_ids, "the list of query ids")
    if queries.size != n_rankings:
        raise MalformedRun(f"{queries.size} query ids for {n_rankings} rankings; need one for each")
    return queries


def _counts(values: ArrayLike, n_queries: int, name: str, *, least: int) -> IntArray:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.shape not in ((), (n_queries,)) or np.any(array < least):
        raise InvalidOption(f"{name} is {values!r}, expected a whole number of at least {least}, or one per query")
    return np.broadcast_to(array.astype(np.int64), (n_queries,))


LARGEST_TABLE = 2**24
"""Ids that span more than this are looked up by bisection, however many they are."""


def id_array(ids: ArrayLike, owner: str) -> IntArray:
    """Ids as an int64 array.

    Args:
        ids: (N,) whole numbers; booleans, floats and strings are no ids.
        owner: what a message says the ids belong to.

    Raises:
        MalformedRun: anything else.

    Example:
        >>> id_array([3, 1.5], "the ranking of query 7")
        Traceback (most recent call last):
        cxc_eccv.errors.MalformedRun: the ranking of query 7 is [3, 1.5]; need a flat list of whole-number ids
    """
    try:
        array = np.asarray(ids)
    except (TypeError, ValueError):  # tensors on another device, rows of unequal length
        array = np.empty(0, dtype=object)
    if array.ndim == 1 and not array.size and array.dtype.kind != "O":
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.max() > np.iinfo(np.int64).max:
        raise MalformedRun(f"{owner} is {_shortened(ids)}; need a flat list of whole-number ids")
    return array.astype(np.int64, copy=False)


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class Places:
    """The place of every id in one ranking after the other: a table over all ids, written anew for each.

    Args:
        rankings: int64 ids of each query's ranking.
        positives: int64 ids of each query's positives.
    """

    def __init__(self, rankings: Sequence[IntArray], positives: Sequence[IntArray]) -> None:
        rows = [row for row in (*rankings, *positives) if row.size]
        self._low = min((int(row.min()) for row in rows), default=0)
        span = max((int(row.max()) for row in rows), default=0) - self._low + 1
        self._ids: IntArray | None = None
        if rows and span > min(DENSE_SPAN * sum(row.size for row in rows), LARGEST_TABLE):
            self._ids = np.unique(np.concatenate(rows))
        self._rank = np.zeros(span if self._ids is None else self._ids.size, dtype=np.int32)

    def ranks(self, query: int, ranking: IntArray, positives: IntArray, n_positives: int) -> IntArray:
        """Ranks, from 1 and ascending, of those positives that the ranking holds.

        Args:
            query: the query's name in messages.
            ranking: (depth,) ids, best first.
            positives: ids.
            n_positives: R, which may count more positives than are listed.

        Raises:
            MalformedRun: an id twice in the ranking.
            DataError: no positive, or one listed twice.

        Example:
            >>> ranking, positives = np.array([30, 10, 20]), np.array([20, 30, 40])
            >>> Places([ranking], [positives]).ranks(7, ranking, positives, 3).tolist()
            [1, 3]
        """
        if not n_positives:
            raise DataError(f"query {query} has no positive; leave it out")
        if np.unique(positives).size != positives.size:
            raise DataError(f"the positives of query {query} list an id twice")
        codes, own = self._codes(ranking), np.arange(1, ranking.size + 1)
        self._rank[codes] = own
        twice = np.flatnonzero(self._rank[codes] != own)
        if twice.size:
            first, last = twice[0] + 1, self._rank[codes[twice[0]]]
            raise MalformedRun(
                f"the ranking of query {query} lists id {ranking[twice[0]]} more than once, at ranks {first} and {last}"
            )
        wanted = self._codes(positives)
        ranks = self._rank[wanted]
        # The table still holds the ranks of earlier queries.
        own_ranks = (ranks > 0) & (ranks <= ranking.size)
        own_ranks[own_ranks] = codes[ranks[own_ranks] - 1] == wanted[own_ranks]
        return np.sort(ranks[own_ranks]).astype(np.int64)

    def _codes(self, ids: IntArray) -> IntArray:
        return ids - self._low if self._ids is None else np.searchsorted(self._ids, ids)
