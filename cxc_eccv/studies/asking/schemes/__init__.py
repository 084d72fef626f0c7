"""The schemes by which people are asked about pairs: one ``SCHEME`` per file."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache

from cxc_eccv.discovery import find_declared
from cxc_eccv.studies.asking.schemes.scheme import Answer, Details, Part, Scheme

__all__ = ["Answer", "Details", "Part", "Scheme", "schemes"]


@cache
def schemes() -> Mapping[str, Scheme]:
    """All schemes by name."""
    return find_declared(sys.modules[__name__], "SCHEME", Scheme)
