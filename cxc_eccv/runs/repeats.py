"""Which ids occur, and where one occurs twice in a list: by a table over all ids where they lie close together."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.types.ids import DENSE_SPAN, IntArray

__all__ = ["distinct_ids", "first_repeat"]


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
    last = np.empty(span if dense else distinct.size, dtype=np.int64)
    for row, (start, stop) in enumerate(itertools.pairwise(indptr.tolist())):
        codes = ids[start:stop] - low if dense else np.searchsorted(distinct, ids[start:stop])
        places = np.arange(stop - start)
        last[codes] = places
        overwritten = np.flatnonzero(last[codes] != places)
        if overwritten.size:
            first = int(overwritten[0])
            return row, first, first + 1 + int(np.flatnonzero(codes[first + 1 :] == codes[first])[0])
    return None


def _span(ids: NDArray[Any]) -> tuple[int, int]:
    low = int(ids.min())
    return low, int(ids.max()) - low + 1
