"""Checks of numbers, and arrays of ids: types, uniqueness and look-ups."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import DataError, InvalidOption

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

DENSE_SPAN = 256
"""Ids that span at most this many times their number are looked up in a table, others by binary search."""

SMALL = 2**32 - 1

PROBABILITIES = "a number from 0 to 1"
LABELS = "0 or 1"
"""What :func:`check_values` allows."""


def check_whole(name: str, value: object, least: int = 1) -> None:
    """Raise InvalidOption unless an option is an ``int``, not a ``bool``, of at least ``least``.

    Example:
        >>> check_whole("batch_size", 0)
        Traceback (most recent call last):
        cxc_eccv.errors.InvalidOption: batch_size is 0, expected a whole number of at least 1
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidOption(f"{name} is {value!r}, expected a whole number of at least {least}")


def check_values(
    values: ArrayLike, what: str, allowed: str = PROBABILITIES, pairs: tuple[IntArray, IntArray] | None = None
) -> None:
    """Raise DataError unless all values are probabilities, or labels; the message names the first bad row and pair.

    Args:
        values: (P,) numbers.
        what: what holds the values, for the message.
        allowed: :data:`PROBABILITIES` or :data:`LABELS`.
        pairs: (P,) image ids and (P,) caption ids, for the message.

    Example:
        >>> check_values([0.5, np.nan], "judge.parquet")
        Traceback (most recent call last):
        cxc_eccv.errors.DataError: judge.parquet, row 1: found nan, expected a number from 0 to 1
    """
    numbers = np.asarray(values).ravel()
    fits = np.isin(numbers, (0, 1)) if allowed == LABELS else (numbers >= 0) & (numbers <= 1)
    wrong = np.flatnonzero(~fits)
    if wrong.size:
        row = wrong[0]
        pair = "" if pairs is None else f" (image {pairs[0][row]}, caption {pairs[1][row]})"
        raise DataError(f"{what}, row {row}{pair}: found {numbers[row]}, expected {allowed}")


def frozen_ints(values: ArrayLike) -> IntArray:
    """A contiguous read-only int64 array of the values."""
    array = np.ascontiguousarray(values, dtype=np.int64)
    array.flags.writeable = False
    return array


def is_altered(ids: IntArray) -> NDArray[np.bool_]:
    """(...) bool, whether ids belong to altered captions, which alone have negative ids."""
    return np.asarray(ids < 0)


def all_unique(ids: IntArray) -> bool:
    """Whether no id occurs twice."""
    return not np.any(np.diff(np.sort(ids)) == 0)


def distinct_of(values: NDArray[Any]) -> NDArray[Any]:
    """The distinct values, ascending, by sorting; np.unique hashes, which takes twenty times as long."""
    ordered = np.sort(values)
    return np.asarray(ordered[np.append(True, ordered[1:] != ordered[:-1])[: ordered.size]])


def measure_span(ids: NDArray[Any], n_looked_up: int | None = None) -> tuple[int, int, bool]:
    """The lowest id, the range of the ids, and whether a lookup table over that range pays off."""
    low = int(ids.min())
    span = int(ids.max()) - low + 1
    return low, span, span <= DENSE_SPAN * (ids.size if n_looked_up is None else n_looked_up)


def positions_of(wanted: ArrayLike, ids: IntArray) -> tuple[IntArray, NDArray[np.bool_]]:
    """Positions of ``wanted`` in ``ids`` (unique, in any order), and a mask of those that are in it.

    Example:
        >>> places, known = positions_of([30, 99], np.array([10, 30]))
        >>> places[known].tolist(), known.tolist()
        ([1], [True, False])
    """
    values = np.asarray(wanted, dtype=np.int64)
    if ids.size == 0:
        return np.zeros(values.shape, dtype=np.int64), np.zeros(values.shape, dtype=bool)
    if values.shape == ids.shape and np.array_equal(values, ids):
        return np.arange(ids.size), np.ones(ids.size, dtype=bool)
    low, span, is_dense = measure_span(ids)
    if is_dense:
        # Not zeroed: an entry without an id points to another id, which the comparison below rejects.
        table = np.empty(span, dtype=np.uint32 if ids.size <= SMALL else np.uint64)
        table[ids - low] = np.arange(ids.size)
        places = np.minimum(table[np.clip(values - low, 0, span - 1)], ids.size - 1).astype(np.int64)
    else:
        order = np.argsort(ids, kind="stable")
        places = order[np.minimum(np.searchsorted(ids, values, sorter=order), ids.size - 1)]
    known = ids[places] == values
    return places * known, known
