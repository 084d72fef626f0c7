"""Checks of a run's ids, name and file; errors name file, array, place and remedy."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import CxcEccvError, MalformedRun
from cxc_eccv.types import IntArray
from cxc_eccv.types.strict_json import JsonFault, decode_json

MODEL = "model"

CORPUS = "corpus"
"""Entry of a rankings file that says what represented an image, if not the image itself."""


def check_name(
    where: str | Path, name: object, error: type[CxcEccvError] = MalformedRun, what: str = "the model's name"
) -> None:
    """Raise unless a name is None or a nonempty line of printable text."""
    if name is not None and not (isinstance(name, str) and name.strip() and name.isprintable()):
        raise error(f"{where}: {what} is {shorten(name)}; give one line of text, or none")


def one_text(path: Path, array: NDArray[Any], entry: str) -> str:
    """The text in an array that holds exactly one."""
    if array.size != 1 or array.dtype.kind != "U":
        raise MalformedRun(f"{path}, {entry}: is {shorten(array.tolist())}; save one text, or leave it out")
    return str(array.item())


def to_array(owner: str, values: ArrayLike) -> NDArray[Any]:
    """The values, also nested lists or a tensor, as an array; messages name the owner."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = "rows of unequal length" if "inhomogeneous" in str(error) else str(error)
        raise MalformedRun(
            f"{owner} is not an array ({reason}); give a NumPy array, such as tensor.float().cpu().numpy()"
        ) from None


def check_ids(path: str | Path, name: str, values: NDArray[Any]) -> IntArray:
    """(N,) int64 ids, N > 0, without repeats, from any integer array; messages name the array and its file."""
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
            f"{path}, {name}: id {repeated} is in rows {rows[0]} and {rows[1]}; {int((counts > 1).sum())} ids are "
            "repeated. Keep one row per id."
        )
    return ids


def whole_ids(values: ArrayLike, owner: str) -> NDArray[Any]:
    """(N,) ids of any integer type except uint64, possibly none or repeated."""
    array = to_array(owner, values)
    if array.ndim == 1 and not array.size and array.dtype.kind != "O":
        return np.empty(0, dtype=np.int32)
    # NumPy would convert a bool among numbers to 1.
    truths = isinstance(values, list | tuple) and not {bool, np.bool_}.isdisjoint(map(type, values))
    beyond = array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max
    if array.ndim != 1 or array.dtype.kind not in "iu" or truths or beyond:
        raise MalformedRun(f"{owner} is {shorten(values)}; need a list of whole-number ids")
    return array.astype(np.int64, copy=False) if array.dtype == np.uint64 else array


def shorten(value: object) -> str:
    """A value for messages, cut if long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def refuse_unreadable(path: Path) -> None:
    """Raise MalformedRun unless the file exists and can be opened."""
    if not path.is_file():
        raise MalformedRun(f"{path}: {'is a folder, not a file' if path.is_dir() else 'no such file'}")
    try:
        path.open("rb").close()
    except OSError as error:
        raise MalformedRun(f"{path}: cannot be read ({error.strerror})") from None


def hash_file(path: Path) -> str:
    """The SHA-256 hex digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def parse_json(path: Path, text: str) -> Any:  # noqa: ANN401 - whatever the text holds
    """The value of a JSON text with whole numbers and without repeated keys."""
    try:
        return decode_json(text, parse_float=_refuse_float)
    except JsonFault as fault:
        raise MalformedRun(f"{path}: {fault}; correct it, or save it again") from None
    except json.JSONDecodeError as error:
        raise MalformedRun(f"{path}: not JSON ({error}); it may be cut short, save it again") from None


def _refuse_float(number: str) -> NoReturn:
    raise JsonFault("", f"the number {number:.40}", "whole numbers, the COCO ids")
