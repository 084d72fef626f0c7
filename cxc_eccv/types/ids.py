"""Checks of numbers, arrays of ids (types, uniqueness, look-ups), and embeddings: ids with a vector each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import DataError, InvalidOption, MalformedRun

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

DENSE_SPAN = 256
"""Ids that span at most this many times their number are looked up in a table, others by binary search."""

SMALL = 2**32 - 1

PROBABILITIES = "a number from 0 to 1"
LABELS = "0 or 1"
"""What :func:`check_values` allows."""


LARGEST = 2**63 - 1


def check_whole(name: str, value: object, least: int = 1) -> None:
    """Raise InvalidOption unless an option is an ``int``, not a ``bool``, of at least ``least`` and 64 bits at most.

    Example:
        >>> check_whole("batch_size", 0)
        Traceback (most recent call last):
        cxc_eccv.errors.InvalidOption: batch_size is 0, expected a whole number of at least 1
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidOption(f"{name} is {value!r}, expected a whole number of at least {least}")
    if value > LARGEST:
        raise InvalidOption(f"{name} is a number of more than 64 bits, expected at most {LARGEST:,}")


def check_confidence(confidence: float) -> float:
    """The confidence level; raises InvalidOption unless it is between 0 and 1."""
    if not 0 < confidence < 1:
        raise InvalidOption(f"confidence is {confidence!r}, expected a number between 0 and 1, such as 0.95")
    return confidence


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


def all_unique(ids: IntArray) -> bool:
    """Whether no id occurs twice."""
    return not np.any(np.diff(np.sort(ids)) == 0)


def find_distinct(values: NDArray[Any]) -> NDArray[Any]:
    """The distinct values, ascending, by sorting; np.unique hashes, which takes twenty times as long."""
    ordered = np.sort(values)
    return np.asarray(ordered[np.append(True, ordered[1:] != ordered[:-1])[: ordered.size]])


def make_indptr(sizes: ArrayLike) -> IntArray:
    """(N + 1,) boundaries of N groups of these sizes that lie one after the other."""
    return np.append(0, np.cumsum(sizes)).astype(np.int64)


def number_within(sizes: IntArray) -> IntArray:
    """(P,) index of each member within its group, for groups of these sizes that lie one after the other."""
    indptr = make_indptr(sizes)
    return np.arange(indptr[-1]) - np.repeat(indptr[:-1], sizes)


def measure_span(ids: NDArray[Any], n_looked_up: int | None = None) -> tuple[int, int, bool]:
    """The lowest id, the range of the ids, and whether a lookup table over that range pays off."""
    low = int(ids.min())
    span = int(ids.max()) - low + 1
    return low, span, span <= DENSE_SPAN * (ids.size if n_looked_up is None else n_looked_up)


def find_positions(wanted: ArrayLike, ids: IntArray) -> tuple[IntArray, NDArray[np.bool_]]:
    """Positions of ``wanted`` in ``ids`` (unique, in any order), and a mask of those that are in it.

    Example:
        >>> places, known = find_positions([30, 99], np.array([10, 30]))
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


@dataclass(frozen=True, slots=True, eq=False)
class Embeddings:
    """Ids and one vector per item, checked on creation.

    Attributes:
        ids: (N,) unique int64 ids.
        vectors: (N, D) float32, finite, not too small for float32. A float32 torch tensor on the CPU is used without a
            copy; others are converted.

    Raises:
        MalformedRun: wrong shapes, duplicated ids, NaN or infinite values, values too large or too small for float32,
            or no vectors.
    """

    ids: IntArray
    vectors: NDArray[np.float32]

    def __post_init__(self) -> None:
        ids = np.asarray(on_host(self.ids))
        if ids.size and (ids.dtype.kind not in "iu" or ids.max() > np.iinfo(np.int64).max):
            raise MalformedRun(f"ids have type {ids.dtype}, expected integers that fit int64; use the COCO ids")
        object.__setattr__(self, "ids", frozen_ints(ids))
        values = _array(self.vectors)
        with np.errstate(over="ignore", under="ignore"):
            object.__setattr__(self, "vectors", np.ascontiguousarray(values, dtype=np.float32))
        if self.vectors.ndim != 2 or self.ids.shape != self.vectors.shape[:1] or not self.vectors.size:
            raise MalformedRun(
                f"ids have shape {self.ids.shape} and vectors {self.vectors.shape}; need (N,) and (N, D), N > 0"
            )
        if not all_unique(self.ids):
            ids, counts = np.unique(self.ids, return_counts=True)
            raise MalformedRun(f"id {ids[counts > 1][0]} occurs {counts.max()} times; every item needs one vector")
        bad = ~np.isfinite(self.vectors).all(axis=1)
        if bad.any():
            raise MalformedRun(
                f"{bad.sum()} vectors hold NaN or infinite values, or values beyond float32, the first for id "
                f"{self.ids[bad][0]}; check the model's output on this item"
            )
        faint = faint_rows(values, self.vectors)
        if faint.size:
            raise MalformedRun(
                f"{faint.size} of {self.ids.size} vectors are too small for float32, the first for id "
                f"{self.ids[faint[0]]}; multiply all vectors by one large number"
            )


def faint_rows(values: NDArray[Any], single: NDArray[np.float32]) -> IntArray:
    """Rows whose values are all too small for float32; rows of zeros do not count."""
    peaks = np.maximum(single.max(axis=1), -single.min(axis=1))
    low = np.flatnonzero(peaks < np.finfo(np.float32).tiny)
    return np.asarray(low[(values[low] != 0).any(axis=1)])


def _array(vectors: ArrayLike) -> NDArray[Any]:
    try:
        array = np.asarray(on_host(vectors))
    except ValueError:
        raise MalformedRun("vectors have rows of unequal length; all vectors need the same dimension") from None
    if array.dtype.kind in "OSUc":
        raise MalformedRun(f"vectors have type {array.dtype}, expected float16, float32 or float64")
    return array


def on_host(values: Any) -> Any:  # noqa: ANN401 - arrays, lists, tensors
    """A torch tensor on the CPU, without gradient and in a type NumPy supports; anything else unchanged."""
    if type(values).__module__.partition(".")[0] != "torch":
        return values
    tensor = values.detach().cpu()
    return tensor.float() if tensor.is_floating_point() and tensor.element_size() < 4 else tensor
