"""Where ids stand in given rankings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cxc_eccv.errors import DataError, MalformedRun
from cxc_eccv.types.ids import DENSE_SPAN, IntArray

__all__ = ["Places", "id_array"]

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
