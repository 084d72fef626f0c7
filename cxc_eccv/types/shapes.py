"""What JSON content must look like: the kinds of its values, and the entries of its objects."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cxc_eccv.types.strict_json import JsonFault

LARGEST = 1e12
"""No count, rank or sum is as large."""


@dataclass(frozen=True)
class Kind:
    """A kind of values: what tells them from others, and how messages call them."""

    holds: Callable[[Any], bool]
    expected: str


@dataclass(frozen=True)
class Each:
    """An object with any names, whose values have one shape."""

    of: Shape


@dataclass(frozen=True)
class Loose:
    """An object in which these entries may be absent, a text or number may be null, and others may stand."""

    entries: Mapping[str, Shape]


Shape = Kind | Each | Loose | list[Any] | Mapping[str, Any]
"""A list has the shape of its elements, a mapping those of the entries that an object must have."""


def _is_number(value: object) -> bool:
    return type(value) is float and math.isfinite(value) and abs(value) < LARGEST


TEXT = Kind(lambda value: isinstance(value, str), "text")
OR_NOTHING = Kind(lambda value: value is None or isinstance(value, str), "text, or null")
COUNT = Kind(lambda value: type(value) is int and 0 <= value < LARGEST, "a whole number of at least 0")
WHOLE = Kind(lambda value: type(value) is int and abs(value) < LARGEST, "a whole number")
NUMBER = Kind(_is_number, "a finite decimal number")
SHARE = Kind(lambda value: _is_number(value) and 0 <= value <= 1, "a fraction")
MAPPING = Kind(lambda value: isinstance(value, dict), "an object")


def check_shape(value: object, shape: Shape, place: str = "") -> None:
    """Raise JsonFault unless a value has a shape."""
    if isinstance(shape, Kind):
        if not shape.holds(value):
            raise JsonFault(place, _show(value), shape.expected)
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise JsonFault(place, _show(value), "a list")
        for number, part in enumerate(value):
            check_shape(part, shape[0], f"{place}[{number}]")
    else:
        if not isinstance(value, dict):
            raise JsonFault(place, _show(value), "an object")
        for name, own in _entries(value, shape).items():
            if name not in value:
                raise JsonFault(place, _show(sorted(value)), f"an entry {name!r}")
            check_shape(value[name], own, f"{place}, {name:.60}".removeprefix(", "))


def _entries(value: Mapping[str, Any], shape: Each | Loose | Mapping[str, Any]) -> Mapping[str, Shape]:
    if isinstance(shape, Each):
        return dict.fromkeys(value, shape.of)
    if isinstance(shape, Loose):
        there = {name: own for name, own in shape.entries.items() if name in value}
        return {name: own for name, own in there.items() if not (value[name] is None and isinstance(own, Kind))}
    return shape


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]} …"
