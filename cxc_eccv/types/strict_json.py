"""A strict JSON reader (unique keys, finite numbers, valid Unicode), and shapes to check values against."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, Union

Json: TypeAlias = Union[bool, int, float, str, Sequence["Json"], Mapping[str, "Json"], None]  # noqa: UP007 - by name
JsonObject: TypeAlias = Mapping[str, Json]
"""What JSON can hold."""

SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class JsonFault(ValueError):
    """A fault in a JSON text: its ``place``, the ``actual`` value there, and what is ``expected``."""

    def __init__(self, place: str, actual: str, expected: str) -> None:
        self.place = place
        self.actual = actual
        self.expected = expected
        super().__init__(f"{place}: found {actual}, expected {expected}".removeprefix(": "))


def decode_json(text: str, *, parse_float: Callable[[str], Any] = float) -> Any:  # noqa: ANN401 - JSON holds anything
    """The value of a JSON text."""
    try:
        value = json.loads(
            text, object_pairs_hook=_refuse_repeated, parse_constant=_refuse_constant, parse_float=parse_float
        )
    except (json.JSONDecodeError, JsonFault):
        raise
    except ValueError:  # Python converts no integer of more than 4,300 digits.
        raise JsonFault("", "a number of thousands of digits", "numbers of 64 bits") from None
    if SURROGATE.search(text):
        _refuse_surrogates(value)
    return value


def _refuse_constant(name: str) -> None:
    raise JsonFault("", name, "finite numbers")


def _refuse_repeated(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    table = dict(pairs)
    if len(table) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise JsonFault(f"key {twice!r:.80}", "it twice", "every key once")
    return table


def _refuse_surrogates(value: object) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"half a surrogate pair, {error.object[error.start]!r}"
        raise JsonFault("", half, "Unicode text") from None


LARGEST_COUNT = 1e12
"""Above every count, rank and sum."""


@dataclass(frozen=True)
class Kind:
    """A kind of values: a test for them, and their name in messages."""

    holds: Callable[[Any], bool]
    expected: str


@dataclass(frozen=True)
class Each:
    """An object with any keys, whose values share one shape."""

    of: Shape


@dataclass(frozen=True)
class Loose:
    """An object whose entries are optional but for the ``required``, and may be null if they are text or numbers.

    It may have others.
    """

    entries: Mapping[str, Shape]
    required: frozenset[str] = frozenset()


Shape = Kind | Each | Loose | list[Any] | Mapping[str, Any]
"""A list holds the shape of its elements, a mapping the shapes of an object's required entries."""


def _is_number(value: object) -> bool:
    return type(value) is float and math.isfinite(value) and abs(value) < LARGEST_COUNT


TEXT = Kind(lambda value: isinstance(value, str), "text")
COUNT = Kind(lambda value: type(value) is int and 0 <= value < LARGEST_COUNT, "a whole number of at least 0")
WHOLE = Kind(lambda value: type(value) is int and abs(value) < LARGEST_COUNT, "a whole number")
NUMBER = Kind(_is_number, "a finite decimal number")
SHARE = Kind(lambda value: _is_number(value) and 0 <= value <= 1, "a fraction")
BOOL = Kind(lambda value: isinstance(value, bool), "true or false")
MAPPING = Kind(lambda value: isinstance(value, dict), "an object")
ANYTHING = Kind(lambda value: True, "a value")


def check_shape(value: object, shape: Shape, place: str = "") -> None:
    """Raise JsonFault unless a value has the shape."""
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
        for name, entry in _entries(value, shape).items():
            if name not in value:
                raise JsonFault(place, _show(sorted(value)), f"an entry {name!r}")
            check_shape(value[name], entry, f"{place}, {name:.60}".removeprefix(", "))


def _entries(value: Mapping[str, Any], shape: Each | Loose | Mapping[str, Any]) -> Mapping[str, Shape]:
    if isinstance(shape, Each):
        return dict.fromkeys(value, shape.of)
    if isinstance(shape, Loose):
        present = {name: entry for name, entry in shape.entries.items() if name in {*value, *shape.required}}
        nullable = {name for name, entry in present.items() if isinstance(entry, Kind) and name not in shape.required}
        return {name: entry for name, entry in present.items() if name not in nullable or value[name] is not None}
    return shape


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]} …"
