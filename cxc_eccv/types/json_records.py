"""Frozen dataclasses as JSON objects: the shape that a class declares, reading and writing.

A field that equals its default has no entry; ``null_if`` says where a missing one is written as null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from cxc_eccv.types.strict_json import ANYTHING, BOOL, COUNT, NUMBER, TEXT, Each, Json, Loose, Shape

Record = TypeVar("Record")

OTHERS_FIELD = "others"
"""Name of the field that holds the entries of an object without a field of their own."""

NULL_IF = "null_if"

TYPE_SHAPES: Mapping[object, Shape] = {str: TEXT, int: COUNT, float: NUMBER, bool: BOOL}


def null_if(selects: Callable[[Any], object]) -> Mapping[str, Callable[[Any], object]]:
    """Metadata of a field whose default is written (None as null), for the records that ``selects`` is true of."""
    return {NULL_IF: selects}


def to_json(record: Any) -> dict[str, Json]:  # noqa: ANN401 - a dataclass
    """The entries of a record, in the order of its fields."""
    entries: dict[str, Json] = {}
    for item in fields(record):
        value = getattr(record, item.name)
        if item.name == OTHERS_FIELD:
            entries |= value
        elif value != _find_default(item) or (NULL_IF in item.metadata and item.metadata[NULL_IF](record)):
            entries[item.name] = _write(value)
    return entries


def from_json(kind: type[Record], entries: Mapping[str, Any]) -> Record:
    """The record of an object that has the shape of its class; null means the field's default."""
    hints = _find_hints(kind)  # type: ignore[arg-type]
    values = {name: _read(hints[name], value) for name, value in entries.items() if name in hints and value is not None}
    if OTHERS_FIELD in hints:
        values[OTHERS_FIELD] = {name: value for name, value in entries.items() if name not in hints}
    return kind(**values)


@cache
def make_shape(kind: type) -> Loose:
    """The shape of the JSON objects of a class: an entry per field, required if the field has no default."""
    hints = _find_hints(kind)
    named = [item for item in fields(kind) if item.name != OTHERS_FIELD]
    required = frozenset(item.name for item in named if _find_default(item) is MISSING)
    return Loose({item.name: _find_shape(hints[item.name]) for item in named}, required)


@cache
def _find_hints(kind: type) -> Mapping[str, Any]:
    """Types of the fields of a class, which Python evaluates anew for each of a thousand records otherwise."""
    return get_type_hints(kind, include_extras=True)


def _find_default(item: Field[Any]) -> object:
    return item.default if item.default_factory is MISSING else item.default_factory()


def _find_shape(hint: Any) -> Shape:  # noqa: ANN401 - a type
    parts = get_args(hint)
    if hasattr(hint, "__metadata__"):
        shape: Shape = hint.__metadata__[0]
    elif is_dataclass(hint):
        shape = make_shape(hint)  # type: ignore[arg-type]
    elif get_origin(hint) is tuple:
        shape = [_find_shape(parts[0])]
    elif get_origin(hint) is Mapping:
        shape = Each(_find_shape(parts[1]))
    elif hint in TYPE_SHAPES:
        shape = TYPE_SHAPES[hint]
    else:
        shape = _find_shape(parts[0]) if len(parts) == 2 else ANYTHING  # ``X | None``, or Json
    return shape


def _read(hint: Any, value: Any) -> Any:  # noqa: ANN401 - a type, and what JSON holds
    parts = get_args(hint)
    origin = get_origin(hint)
    if is_dataclass(hint):
        return from_json(hint, value)  # type: ignore[arg-type]
    if origin is tuple:
        return tuple(_read(parts[0], each) for each in value)
    if origin is Mapping:
        return {name: _read(parts[1], each) for name, each in value.items()}
    return _read(parts[0], value) if origin is UnionType else value  # of ``X | None``


def _write(value: Any) -> Json:  # noqa: ANN401 - a field
    if is_dataclass(value):
        return to_json(value)
    if isinstance(value, Mapping):
        return {name: _write(each) for name, each in value.items()}
    return [_write(each) for each in value] if isinstance(value, list | tuple) else value
