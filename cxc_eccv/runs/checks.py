"""What an id array and a vector array of a run must look like; errors name file, array, place and remedy."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import MalformedRun
from cxc_eccv.types import Embeddings, IntArray
from cxc_eccv.types.embedded import faint_rows

__all__ = [
    "checked_embeddings",
    "checked_ids",
    "json_of",
    "plain_array",
    "refuse_unreadable",
    "sha256_of",
    "shortened",
    "text_of",
    "whole_ids",
]


def plain_array(owner: str, values: ArrayLike) -> NDArray[Any]:
    """The values as an array of whatever type they have.

    Args:
        owner: what a message says they belong to.
        values: an array, nested lists, a tensor.

    Raises:
        MalformedRun: rows of unequal length, or an object that NumPy cannot read.

    Example:
        >>> plain_array("run, scores", [[1.0], [2.0, 3.0]])
        Traceback (most recent call last):
        cxc_eccv.errors.MalformedRun: run, scores: no array (rows of unequal length); give a NumPy array, of a tensor \
tensor.float().cpu().numpy()
    """
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = "rows of unequal length" if "inhomogeneous" in str(error) else str(error)
        raise MalformedRun(
            f"{owner}: no array ({reason}); give a NumPy array, of a tensor tensor.float().cpu().numpy()"
        ) from None


def checked_ids(path: str | Path, name: str, values: NDArray[Any]) -> IntArray:
    """(N,) int64 ids out of any integer array.

    Args:
        path: the file, for messages.
        name: the array's name in it.
        values: what stands there.

    Raises:
        MalformedRun: not one-dimensional, empty, not integers, beyond int64, or repeated.

    Example:
        >>> checked_ids(Path("run.npz"), "image_ids", np.array([4, 2], dtype=np.uint16)).tolist()
        [4, 2]
    """
    if values.dtype.kind not in "iu":
        raise MalformedRun(
            f"{path}, {name}: has type {values.dtype}, ids must be integers. "
            f"Save the COCO ids with {name}.astype('int64')."
        )
    if values.ndim != 1 or not values.size:
        raise MalformedRun(f"{path}, {name}: has shape {values.shape}, expected (N,) with at least one id")
    if values.dtype == np.uint64 and int(values.max()) > np.iinfo(np.int64).max:
        raise MalformedRun(f"{path}, {name}: id {values.max()} does not fit int64")
    ids = values.astype(np.int64)
    unique, counts = np.unique(ids, return_counts=True)
    if unique.size != ids.size:
        repeated = unique[counts > 1][0]
        rows = np.flatnonzero(ids == repeated)[:2]
        raise MalformedRun(
            f"{path}, {name}: id {repeated} stands in rows {rows[0]} and {rows[1]}; {int((counts > 1).sum())} ids are "
            "repeated. Keep one row per id."
        )
    return ids


def whole_ids(values: ArrayLike, owner: str) -> NDArray[Any]:
    """(N,) ids of whatever integer type they have, int64 instead of uint64; any of them may repeat.

    Args:
        values: whole numbers, possibly none; booleans, floats and strings are no ids.
        owner: what a message says the ids belong to.

    Raises:
        MalformedRun: anything else.

    Example:
        >>> whole_ids([3, 1.5], "the ranking of query 7")
        Traceback (most recent call last):
        cxc_eccv.errors.MalformedRun: the ranking of query 7 is [3, 1.5]; need a list of whole-number ids
    """
    array = plain_array(owner, values)
    if array.ndim == 1 and not array.size and array.dtype.kind != "O":
        return np.empty(0, dtype=np.int32)
    # NumPy takes true among numbers for 1.
    truths = isinstance(values, list | tuple) and not {bool, np.bool_}.isdisjoint(map(type, values))
    beyond = array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max
    if array.ndim != 1 or array.dtype.kind not in "iu" or truths or beyond:
        raise MalformedRun(f"{owner} is {shortened(values)}; need a list of whole-number ids")
    return array.astype(np.int64, copy=False) if array.dtype == np.uint64 else array


def shortened(value: object) -> str:
    """A value as messages show it, long ones cut."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def checked_embeddings(
    path: Path, ids_name: str, ids: NDArray[Any], vectors_name: str, vectors: NDArray[Any]
) -> Embeddings:
    """Ids and float32 vectors, of equal length and finite.

    Args:
        path: the file, for messages.
        ids_name: name of the id array.
        ids: its values.
        vectors_name: name of the vector array.
        vectors: its values, (N, D).

    Raises:
        MalformedRun: see :func:`load_embeddings <cxc_eccv.runs.embeddings_file.load_embeddings>`.
    """
    known = checked_ids(path, ids_name, ids)
    if vectors.dtype.kind not in "fiu":
        raise MalformedRun(f"{path}, {vectors_name}: has type {vectors.dtype}, expected float16, float32 or float64")
    if vectors.ndim != 2 or not vectors.size:
        raise MalformedRun(f"{path}, {vectors_name}: has shape {vectors.shape}, expected (N, D), N and D at least 1")
    if vectors.shape[0] != known.size:
        raise MalformedRun(
            f"{path}: {ids_name} has {known.size} rows, {vectors_name} has {vectors.shape[0]}. "
            "Row i of one must belong to row i of the other."
        )
    with np.errstate(over="ignore", under="ignore"):
        single = vectors.astype(np.float32, copy=False)
    _refuse_non_finite(path, vectors_name, vectors, single, known)
    faint = faint_rows(vectors, single)
    if faint.size:
        row = vectors[faint[0]]
        raise MalformedRun(
            f"{path}, {vectors_name}: the largest value of row {faint[0]} (id {known[faint[0]]}) is "
            f"{row[np.abs(row).argmax()]}, smaller than float32 can tell apart; {faint.size} of {known.size} vectors "
            "are like it. Multiply all vectors by one large number (cosine similarity does not depend on their length)."
        )
    return Embeddings(known, single)


def _refuse_non_finite(
    path: Path, name: str, vectors: NDArray[Any], single: NDArray[np.float32], ids: IntArray
) -> None:
    finite = np.isfinite(single)
    if finite.all():
        return
    row, column = (int(place[0]) for place in np.nonzero(~finite))
    value = vectors[row, column]
    remedy = "Check the model's output on this item."
    if np.isfinite(value):
        remedy = "It does not fit float32; scale the vectors (cosine similarity does not depend on their length)."
    elif np.isinf(value) and vectors.dtype == np.float16:
        remedy = "float16 overflows above 65504; save float32 vectors, or normalise them before saving."
    raise MalformedRun(
        f"{path}, {name}: value {value} in row {row}, column {column} (id {ids[row]}); "
        f"{int((~finite.all(axis=1)).sum())} of {ids.size} vectors are not finite. {remedy}"
    )


def refuse_unreadable(path: Path) -> None:
    """Nothing where the file can be opened.

    Raises:
        MalformedRun: it is not there, is a folder, or may not be read.

    Example:
        >>> refuse_unreadable(Path("absent.npz"))
        Traceback (most recent call last):
        cxc_eccv.errors.MalformedRun: absent.npz: no such file
    """
    if not path.is_file():
        raise MalformedRun(f"{path}: {'is a folder, not a file' if path.is_dir() else 'no such file'}")
    try:
        path.open("rb").close()
    except OSError as error:
        raise MalformedRun(f"{path}: cannot be read ({error.strerror})") from None


def sha256_of(path: Path) -> str:
    """Hex digest of the file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def text_of(path: Path) -> str:
    """The file's text.

    Raises:
        MalformedRun: it is empty or not UTF-8.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise MalformedRun(f"{path}: byte {error.start} is not UTF-8; save the rankings as plain text") from None
    if not text.strip():
        raise MalformedRun(f"{path}: is empty; it may not have been written to its end, save it again")
    return text


def json_of(path: Path, text: str) -> Any:  # noqa: ANN401 - whatever the text holds
    """The value of a JSON text in which every number is whole and no key is given twice.

    Raises:
        MalformedRun: it is not JSON, is nested too deeply, or holds another number or a key twice.

    Example:
        >>> json_of(Path("run.json"), '{"i2t": {"5": [30, 1e1]}}')
        Traceback (most recent call last):
        cxc_eccv.errors.MalformedRun: run.json: the number 1e1 is no whole number; ids are the COCO ids
    """

    def unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entries = dict(pairs)
        if len(entries) < len(pairs):
            seen: set[str] = set()
            repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise MalformedRun(f"{path}: key {repeated!r:.80} is given twice; keep one")
        return entries

    def refuse(number: str) -> NoReturn:
        raise MalformedRun(f"{path}: the number {number:.40} is no whole number; ids are the COCO ids")

    try:
        return json.loads(text, object_pairs_hook=unrepeated, parse_float=refuse, parse_constant=refuse)
    except (ValueError, RecursionError) as error:  # a ValueError too where a number has thousands of digits
        raise MalformedRun(f"{path}: not JSON ({error}); it may be cut short, save it again") from None
