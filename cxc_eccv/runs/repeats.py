"""Which ids occur, and where one occurs twice in a list: by a table over all ids where they lie close together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.types.ids import DENSE_SPAN, IntArray

__all__ = ["distinct_ids", "first_repeat"]

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
    low, span = _span(ids)
    if span > DENSE_SPAN * ids.size:
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
    low, span = _span(distinct)
    dense = span <= DENSE_SPAN * ids.size
    for rows in np.split(np.arange(indptr.size - 1), np.flatnonzero(np.diff(indptr[1:] // ITEMS_AT_ONCE)) + 1):
        block = ids[indptr[rows[0]] : indptr[rows[-1] + 1]]
        codes = block.astype(np.int64) - low if dense else np.searchsorted(distinct, block)
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


def _span(ids: NDArray[Any]) -> tuple[int, int]:
    low = int(ids.min())
    return low, int(ids.max()) - low + 1
