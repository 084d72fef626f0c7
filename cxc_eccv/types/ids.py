"""Checks of numbers, arrays of ids (types, uniqueness, look-ups), and embeddings: ids with a vector each."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import DataError, InvalidOption, MalformedRun

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

DENSE_SPAN = 256
"""Ids that span at most this many times their number are looked up in a table, others by binary search."""

LARGEST_UINT32 = 2**32 - 1

PROBABILITY_VALUES = "a number from 0 to 1"
LABEL_VALUES = "0 or 1"
"""What :func:`check_values` allows."""


LARGEST_INT64 = 2**63 - 1

FLOATS = (np.float16, np.float32, np.float64)
"""Types of vectors; those of scores are the same."""


def check_whole(name: str, value: object, least: int = 1) -> None:
    """Raise InvalidOption unless an option is an ``int``, not a ``bool``, of at least ``least`` and 64 bits at most.

    Example:
        >>> check_whole("batch_size", 0)
        Traceback (most recent call last):
        cxc_eccv.errors.InvalidOption: batch_size is 0, expected a whole number of at least 1
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidOption(f"{name} is {value!r}, expected a whole number of at least {least}")
    if value > LARGEST_INT64:
        raise InvalidOption(f"{name} is a number of more than 64 bits, expected at most {LARGEST_INT64:,}")


def check_type(name: str, value: object, types: type | tuple[type, ...], expected: str) -> None:
    """Raise InvalidOption unless an option has one of these types.

    Example:
        >>> check_type("per_query", "no", bool, "True or False")
        Traceback (most recent call last):
        cxc_eccv.errors.InvalidOption: per_query is 'no', expected True or False
    """
    if not isinstance(value, types):
        raise InvalidOption(f"{name} is {shorten(value)}, expected {expected}")


def check_confidence(confidence: float) -> float:
    """The confidence level; raises InvalidOption unless it is a number between 0 and 1."""
    if not isinstance(confidence, Real) or not 0 < confidence < 1:
        raise InvalidOption(f"confidence is {confidence!r}, expected a number between 0 and 1, such as 0.95")
    return confidence


def check_values(
    values: ArrayLike, what: str, allowed: str = PROBABILITY_VALUES, pairs: tuple[IntArray, IntArray] | None = None
) -> None:
    """Raise DataError unless all values are probabilities, or labels; the message names the first bad row and pair.

    Args:
        values: (P,) numbers.
        what: what holds the values, for the message.
        allowed: :data:`PROBABILITY_VALUES` or :data:`LABEL_VALUES`.
        pairs: (P,) image ids and (P,) caption ids, for the message.

    Example:
        >>> check_values([0.5, np.nan], "judge.parquet")
        Traceback (most recent call last):
        cxc_eccv.errors.DataError: judge.parquet, row 1: found nan, expected a number from 0 to 1
    """
    numbers = np.asarray(values).ravel()
    fits = np.isin(numbers, (0, 1)) if allowed == LABEL_VALUES else (numbers >= 0) & (numbers <= 1)
    wrong = np.flatnonzero(~fits)
    if wrong.size:
        row = wrong[0]
        pair = "" if pairs is None else f" (image {pairs[0][row]}, caption {pairs[1][row]})"
        raise DataError(f"{what}, row {row}{pair}: found {numbers[row]}, expected {allowed}")


def shorten(value: object) -> str:
    """A value for messages, cut if long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


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


def find_fold_rows(folds: IntArray | None, count: int) -> list[IntArray]:
    """The rows of every fold, folds ascending, from the fold of each row; without folds all ``count`` rows.

    Example:
        >>> [rows.tolist() for rows in find_fold_rows(np.array([7, 5, 7]), 3)]
        [[1], [0, 2]]
    """
    if folds is None:
        return [np.arange(count)]
    return [np.flatnonzero(folds == fold) for fold in np.unique(folds)]


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
        table = np.empty(span, dtype=np.uint32 if ids.size <= LARGEST_UINT32 else np.uint64)
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
            copy; float16, float64 and torch's bfloat16 are converted.

    Raises:
        MalformedRun: wrong shapes, duplicated ids, vectors of integers or another type that is no float, NaN or
            infinite values, values too large or too small for float32, masked values, or no vectors.
    """

    ids: IntArray
    vectors: NDArray[np.float32]

    def __post_init__(self) -> None:
        ids = check_ids("embeddings", "ids", to_array("embeddings, ids", on_host(self.ids)))
        vectors = check_vectors("embeddings", "vectors", to_array("embeddings, vectors", on_host(self.vectors)), ids)
        object.__setattr__(self, "ids", frozen_ints(ids))
        object.__setattr__(self, "vectors", np.ascontiguousarray(vectors))


def check_ids(path: object, name: str, values: NDArray[Any]) -> IntArray:
    """(N,) int64 ids, N > 0, without repeats, from any integer array; messages name the array and its file."""
    if values.ndim != 1 or not values.size:
        raise MalformedRun(f"{path}, {name}: has shape {values.shape}, expected (N,) with at least one id")
    if values.dtype.kind not in "iu":
        advice = f"Save the COCO ids with {name}.astype('int64')."
        if values.dtype.kind in "OSU":
            advice = advise_ids(name)
        raise MalformedRun(f"{path}, {name}: has type {values.dtype}, ids must be integers. {advice}")
    if values.dtype == np.uint64 and int(values.max()) > np.iinfo(np.int64).max:
        raise MalformedRun(f"{path}, {name}: id {values.max()} does not fit int64")
    ids = values.astype(np.int64)
    if not all_unique(ids):
        unique, counts = np.unique(ids, return_counts=True)
        repeated = unique[counts > 1][0]
        rows = np.flatnonzero(ids == repeated)[:2]
        raise MalformedRun(
            f"{path}, {name}: id {repeated} is in rows {rows[0]} and {rows[1]}; {int((counts > 1).sum())} ids are "
            "repeated. Keep one row per id."
        )
    return ids


def advise_ids(name: str) -> str:
    """The line of Python that makes ids of numbers or of the names of files, for errors."""
    line = rf"{name} = [int(re.findall(r'\d+', str(name))[-1]) for name in {name}]"
    return f"Save the COCO ids, which are the last number in the names of COCO's files: import re; {line}"


def check_vectors(path: object, name: str, vectors: NDArray[Any], ids: IntArray) -> NDArray[np.float32]:
    """(N, D) vectors as float32, finite and not too small; messages name the array, its file and the ids."""
    check_vector_type(f"{path}, {name}", vectors.dtype)
    if vectors.ndim != 2 or not vectors.size:
        raise MalformedRun(f"{path}, {name}: has shape {vectors.shape}, expected (N, D), N and D at least 1")
    if len(vectors) != ids.size:
        raise MalformedRun(
            f"{path}, {name}: has {len(vectors)} rows for {ids.size} ids. Row i of one must belong to row i of the "
            "other."
        )
    with np.errstate(over="ignore", under="ignore"):
        single = vectors.astype(np.float32, copy=False)
    _refuse_non_finite(f"{path}, {name}", vectors, single, ids)
    faint = _find_faint_rows(vectors, single)
    if faint.size:
        row = vectors[faint[0]]
        raise MalformedRun(
            f"{path}, {name}: the largest value of row {faint[0]} (id {ids[faint[0]]}) is "
            f"{row[np.abs(row).argmax()]}; {faint.size} of {ids.size} vectors are too small for float32. Multiply all "
            "vectors by one large number (cosine similarity does not depend on their length)."
        )
    return single


def check_vector_type(where: str, dtype: np.dtype[Any]) -> None:
    """Raise MalformedRun unless the type is float16, float32 or float64, in any order of bytes.

    Integers may stand for other numbers than their own, so that their cosines would mean nothing.

    Example:
        >>> check_vector_type("clip.npz, image_embeddings", np.dtype(">f4"))
    """
    if dtype.newbyteorder("=") not in FLOATS:
        raise MalformedRun(
            f"{where}: has type {dtype}, expected float16, float32 or float64. If these are packed bits, unpack them "
            "with np.unpackbits and give floats: 2.0 * np.unpackbits(bits, axis=1) - 1. If these are bfloat16 numbers "
            "read as int16, save them as float32: tensor.float().cpu().numpy()."
        )


def _refuse_non_finite(where: str, vectors: NDArray[Any], single: NDArray[np.float32], ids: IntArray) -> None:
    if np.isfinite([single.min(), single.max()]).all():  # both pass NaN on, and need no array of truth values
        return
    finite = np.isfinite(single)
    row, column = (int(places[0]) for places in np.nonzero(~finite))
    value = vectors[row, column]
    remedy = "Check the model's output on this item."
    if np.isfinite(value):
        remedy = "It does not fit float32; scale the vectors (cosine similarity does not depend on their length)."
    elif np.isinf(value) and vectors.dtype == np.float16:
        remedy = "float16 overflows above 65504; save float32 vectors, or normalise them before saving."
    raise MalformedRun(
        f"{where}: value {value} in row {row}, column {column} (id {ids[row]}); "
        f"{int((~finite.all(axis=1)).sum())} of {ids.size} vectors are not finite. {remedy}"
    )


def _find_faint_rows(values: NDArray[Any], single: NDArray[np.float32]) -> IntArray:
    """Rows whose values are all too small for float32; rows of zeros do not count."""
    peaks = np.maximum(single.max(axis=1), -single.min(axis=1))
    low = np.flatnonzero(peaks < np.finfo(np.float32).tiny)
    if low.size:
        low = low[np.asarray(values.any(axis=1))[low]]
    return low


def to_array(owner: str, values: ArrayLike) -> NDArray[Any]:
    """The values, also nested lists or a tensor, as an array; messages name the owner."""
    if isinstance(values, np.ma.MaskedArray):
        raise MalformedRun(f"{owner} is a masked array; give a plain array, without the masked items")
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = "rows of unequal length" if "inhomogeneous" in str(error) else str(error)
        raise MalformedRun(
            f"{owner} is not an array ({reason}); give a NumPy array, such as tensor.float().cpu().numpy()"
        ) from None


def on_host(values: Any) -> Any:  # noqa: ANN401 - arrays, lists, tensors
    """A torch tensor on the CPU, without gradient and in a type NumPy supports; anything else unchanged."""
    if type(values).__module__.partition(".")[0] != "torch":
        return values
    tensor = values.detach().cpu()
    return tensor.float() if tensor.is_floating_point() and tensor.element_size() < 4 else tensor
