"""The strategies that choose pairs: one ``STRATEGY`` per file."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache

from cxc_eccv.discovery import find_declared
from cxc_eccv.studies.annotation.proposing.pool import Strategy

__all__ = ["strategies"]


@cache
def strategies() -> Mapping[str, Strategy]:
    """All strategies by name."""
    return find_declared(sys.modules[__name__], "STRATEGY", Strategy)
