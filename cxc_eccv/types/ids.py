"""Arrays and ids: how they are typed, frozen and looked up."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["FloatArray", "IntArray", "all_unique", "frozen_ints", "positions_of"]

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

DENSE_SPAN = 256
"""Ids that span at most this many times their number are looked up in a table, others by bisection."""


def frozen_ints(values: ArrayLike) -> IntArray:
    """A contiguous read-only int64 array of the values."""
    array = np.ascontiguousarray(values, dtype=np.int64)
    array.flags.writeable = False
    return array


def all_unique(ids: IntArray) -> bool:
    """Whether no id occurs twice."""
    return not np.any(np.diff(np.sort(ids)) == 0)


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
