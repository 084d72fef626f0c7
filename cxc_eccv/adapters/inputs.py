"""Checks of the inputs of an ``evaluate`` module, before ``evaluate`` stores them.

Without them ``evaluate`` would convert 1.7 to 1 and "12" to 12 in a column of whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cxc_eccv.errors import MalformedRun, UnknownName
from cxc_eccv.runs.run import whole_ids

LIST = "list of "


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a module: its check, which returns plain Python values, and their type in ``datasets``."""

    check: Callable[[str, Any], list[Any]]
    dtype: str
    description: str


def check_batch(columns: Mapping[str, Column], batch: Mapping[str, Any]) -> dict[str, list[Any]]:
    """A batch as plain Python lists of equal length."""
    for name in batch:
        if name not in columns:
            raise UnknownName("input", name, columns)
    missing = [name for name in columns if batch.get(name) is None]
    if missing:
        raise MalformedRun(f"{' and '.join(missing)} missing; this metric needs {', '.join(columns)}")
    sizes = {name: _size(name, batch[name]) for name in columns}
    checked = {name: column.check(name, batch[name]) for name, column in columns.items()}
    if len(set(sizes.values())) > 1:
        raise MalformedRun(f"unequal lengths: {', '.join(f'{size} {name}' for name, size in sizes.items())}")
    if not all(sizes.values()):
        raise MalformedRun(f"nothing to score: {', '.join(columns)} are empty")
    return checked


def _size(name: str, values: Any) -> int:  # noqa: ANN401 - anything a user may give
    try:
        return len(values)
    except TypeError:
        raise MalformedRun(f"{name} is {values!r}; need a list with one entry per row") from None


def id_lists(name: str, values: Any) -> list[list[int]]:  # noqa: ANN401 - lists, arrays, tensors
    """One list of whole-number ids per query."""
    return [whole_ids(row, f"{name}, row {place}").tolist() for place, row in enumerate(values)]


def ids(name: str, values: ArrayLike) -> list[int]:
    """Whole-number ids, one per row."""
    checked: list[int] = whole_ids(values, name).tolist()
    return checked


def finite_numbers(name: str, values: ArrayLike) -> list[float]:
    """Finite real numbers, one per row."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):  # tensors of another device or type, rows of unequal length
        array = np.empty(0, dtype=object)
    if array.ndim != 1 or array.dtype.kind not in "fiu":
        raise MalformedRun(f"{name} are not a flat list of numbers")
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise MalformedRun(f"{name}, row {bad[0]} is {array[bad[0]]}; need finite numbers")
    checked: list[float] = array.astype(np.float64).tolist()
    return checked


def number_lists(name: str, values: Any) -> list[list[float]]:  # noqa: ANN401 - lists, arrays, tensors
    """One list of finite real numbers per query."""
    return [finite_numbers(f"{name}, row {place}", row) for place, row in enumerate(values)]


def names(name: str, values: Any) -> list[str]:  # noqa: ANN401 - checked here
    """Strings, one per row."""
    for place, value in enumerate(values):
        if not isinstance(value, str):
            raise MalformedRun(f"{name}, row {place} is {value!r}; need a string")
    return [str(value) for value in values]
