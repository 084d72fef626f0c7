"""Formats for questions and answers: one ``FORMAT`` per file."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from cxc_eccv.discovery import find_declared
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.studies.asking.exchange.format import Format
from cxc_eccv.studies.asking.exchange.images import COCO, find_images

__all__ = ["COCO", "Format", "find_format", "find_images", "formats"]


@cache
def formats() -> Mapping[str, Format]:
    """All formats by name."""
    return find_declared(sys.modules[__name__], "FORMAT", Format)


def find_format(name: str | None, path: Path | None = None) -> Format:
    """The format of this name; without a name, the format of a file's suffix."""
    if name is not None and name not in formats():
        raise UnknownName("format", name, formats())
    of_ending = [form for form in formats().values() if path is not None and path.suffix.lower() == form.ending]
    if name is None and not of_ending:
        raise InvalidOption(f"{path}: the suffix tells no format; give one with --format: {', '.join(formats())}")
    if name is None or not of_ending or formats()[name] in of_ending:
        return of_ending[0] if name is None else formats()[name]
    others = " or ".join(form.name for form in of_ending)
    raise InvalidOption(f"{path} has the suffix of another format than {name}; give --format {others}")
