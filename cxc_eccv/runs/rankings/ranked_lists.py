"""RankedLists: what one direction of a rankings run holds."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import MalformedRun
from cxc_eccv.runs.checks import checked_ids, shortened, whole_ids
from cxc_eccv.types import FloatArray, IntArray
from cxc_eccv.types.ids import measure_span

__all__ = ["RankedLists", "distinct_ids", "first_repeat", "narrowed"]

MOST, MOST_DIGITS = np.iinfo(np.int64).max, 19
LISTS_AT_ONCE = 256
"""So many lists are narrowed at once: one at a time is slow where they are short, all at once is too large."""


@dataclass(frozen=True, slots=True, eq=False)
class RankedLists:
    """The ranked items of every query of one direction, one list after the other.

    Query q has ``items[indptr[q]:indptr[q + 1]]``, best first; the lists may differ in length.

    Attributes:
        query_ids: (Q,) unique int64 ids.
        indptr: (Q + 1,) int64 boundaries of the lists.
        items: (P,) ids, int32 where they fit and int64 else; none twice in a list, no list empty.
        scores: (P,) score of each item, not rising within a list, or None where only the order is known.
        path, sha256: the file they were read from and its hash, or None.
        place: what messages call these lists, for example ``run.json, i2t``.
        item_ids: (N,) the distinct items, ascending; derived.

    Raises:
        MalformedRun: no query, a query twice, an empty list, an item twice in a list, scores that rise or are not
            finite.
    """

    query_ids: IntArray
    indptr: IntArray
    items: NDArray[Any]
    scores: FloatArray | None = None
    path: Path | None = None
    sha256: str | None = None
    place: str = "rankings"
    item_ids: IntArray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "query_ids", checked_ids(self.place, "query ids", self.query_ids))
        lengths = np.diff(self.indptr)
        if not lengths.all():
            raise MalformedRun(
                f"{self.place}: the ranking of query {self.query_ids[lengths == 0][0]} is empty; rank its gallery, or "
                "at least the items that the metrics look at"
            )
        object.__setattr__(self, "item_ids", distinct_ids(self.items))
        self._refuse_repeats()
        if self.scores is not None:
            self._refuse_bad_scores(self.scores)

    @classmethod
    def of(cls, lists: Mapping[Any, ArrayLike], place: str = "rankings", **origin: Any) -> RankedLists:  # noqa: ANN401
        """Lists out of a dict, as the eccv_caption package takes them.

        Args:
            lists: query id, a whole number or its digits, to its ranked item ids, best first.
            place: what messages call the lists.
            **origin: ``path`` and ``sha256``.

        Raises:
            MalformedRun: not a dict, empty, a key or an item that is no whole number, and as the class says.

        Example:
            >>> lists = RankedLists.of({5: [30, 10], "6": [20]})
            >>> lists.query_ids.tolist(), lists.indptr.tolist(), lists.items.tolist()
            ([5, 6], [0, 2, 3], [30, 10, 20])
        """
        if not isinstance(lists, Mapping):
            raise MalformedRun(f"{place}: is a {type(lists).__name__}; give a dict of query id to ranked item ids")
        if not lists:
            raise MalformedRun(f"{place}: holds no query; give a dict of query id to ranked item ids, best first")
        queries = np.array([_query_id(key, place) for key in lists], dtype=np.int64)
        named, lengths, parts = zip(queries.tolist(), lists.values(), strict=True), [], []
        while part := [
            whole_ids(row, f"{place}: the ranking of query {query}")
            for query, row in itertools.islice(named, LISTS_AT_ONCE)
        ]:
            lengths += [row.size for row in part]
            parts.append(narrowed(np.concatenate(part)))
        return cls(queries, np.append(0, np.cumsum(lengths)), np.concatenate(parts), place=place, **origin)

    @property
    def depths(self) -> IntArray:
        """(Q,) length of each list."""
        return np.diff(self.indptr)

    def facts(self, depths: IntArray) -> dict[str, Any]:
        """Number of queries, and how many items the one with the fewest and the one with the most ranks."""
        return {"queries": self.query_ids.size, "shallowest": int(depths.min()), "deepest": int(depths.max())}

    def _refuse_repeats(self) -> None:
        repeat = first_repeat(self.items, self.indptr, self.item_ids)
        if repeat is not None:
            row, first, second = repeat
            item = self.items[self.indptr[row] + first]
            raise MalformedRun(
                f"{self.place}: the ranking of query {self.query_ids[row]} lists item {item} twice, at ranks "
                f"{first + 1} and {second + 1}. Every item has one rank; check the ids of the gallery for repeats."
            )

    def _refuse_bad_scores(self, scores: FloatArray) -> None:
        rising = np.append(False, scores[1:] > scores[:-1])
        rising[self.indptr[1:-1]] = False
        rises = np.flatnonzero(rising | ~np.isfinite(scores))
        if rises.size:
            row = int(np.searchsorted(self.indptr, rises[0], side="right")) - 1
            rank = rises[0] - self.indptr[row] + 1
            raise MalformedRun(
                f"{self.place}: the ranking of query {self.query_ids[row]} has score {scores[rises[0]]} at rank {rank}"
                ", which is not finite or above that of the rank before. Sort each ranking by score, the highest first."
            )


def _query_id(key: object, place: str) -> int:
    is_number = isinstance(key, int | np.integer) and not isinstance(key, bool)
    if is_number or (isinstance(key, str) and key.isascii() and key.isdecimal() and len(key) <= MOST_DIGITS):
        number = int(str(key))
        if abs(number) <= MOST:
            return number
    raise MalformedRun(
        f"{place}: query id {shortened(key)} is not a whole number of 64 bits; use the COCO ids of images and captions"
    )


def narrowed(ids: NDArray[Any]) -> NDArray[Any]:
    """The ids as int32 where they fit, else as int64: whole rankings of COCO hold 125 million of them.

    Example:
        >>> narrowed(np.array([5, 2**31])).dtype, narrowed(np.array([5])).dtype
        (dtype('int64'), dtype('int32'))
    """
    limits = np.iinfo(np.int32)
    fits = not ids.size or (ids.min() >= limits.min and ids.max() <= limits.max)
    return ids.astype(np.int32 if fits else np.int64, copy=False)


ITEMS_AT_ONCE = 2**18
"""Lists are looked at together up to this many items: so many are sorted within the processor's cache."""


def distinct_ids(ids: NDArray[Any]) -> IntArray:
    """The distinct ids, ascending.

    Args:
        ids: (P,) whole numbers, at least one.

    Example:
        >>> distinct_ids(np.array([30, 10, 30])).tolist()
        [10, 30]
    """
    low, span, is_dense = measure_span(ids)
    if not is_dense:
        return np.unique(ids).astype(np.int64)
    there = np.zeros(span, dtype=bool)
    there[ids - low] = True
    return np.flatnonzero(there) + low


def first_repeat(ids: NDArray[Any], indptr: IntArray, distinct: IntArray) -> tuple[int, int, int] | None:
    """The first list that names an id twice, and the two places in it; None where no list does.

    Args:
        ids: (P,) the lists, one after the other.
        indptr: (Q + 1,) their boundaries.
        distinct: the distinct ids, ascending.

    Example:
        >>> lists = np.array([7, 8, 7, 9, 7])
        >>> first_repeat(lists, np.array([0, 2, 5]), distinct_ids(lists))
        (1, 0, 2)
    """
    low, span, is_dense = measure_span(distinct, ids.size)
    for rows in np.split(np.arange(indptr.size - 1), np.flatnonzero(np.diff(indptr[1:] // ITEMS_AT_ONCE)) + 1):
        block = ids[indptr[rows[0]] : indptr[rows[-1] + 1]]
        codes = block.astype(np.int64) - low if is_dense else np.searchsorted(distinct, block)
        ordered = np.sort(np.repeat(rows - rows[0], np.diff(indptr)[rows]) * span + codes)
        repeats = ordered[1:][ordered[1:] == ordered[:-1]]
        if repeats.size:
            return _places_of_repeat(ids, indptr, int(rows[0] + repeats[0] // span))
    return None


def _places_of_repeat(ids: NDArray[Any], indptr: IntArray, row: int) -> tuple[int, int, int]:
    own = ids[indptr[row] : indptr[row + 1]]
    codes = np.unique(own, return_inverse=True)[1]
    last = np.empty(own.size, dtype=np.int64)
    last[codes] = np.arange(own.size)
    first = int(np.flatnonzero(last[codes] != np.arange(own.size))[0])
    return row, first, first + 1 + int(np.flatnonzero(own[first + 1 :] == own[first])[0])
