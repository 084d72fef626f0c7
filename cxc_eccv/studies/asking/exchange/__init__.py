"""Questions out, answers back: one ``FORMAT`` per file."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache

from cxc_eccv.discovery import find_declared
from cxc_eccv.studies.asking.exchange.format import Format
from cxc_eccv.studies.asking.exchange.images import COCO, find_images

__all__ = ["COCO", "Format", "find_images", "formats"]


@cache
def formats() -> Mapping[str, Format]:
    """All that are declared, by name.

    Example:
        >>> list(formats())
        ['csv', 'html', 'jsonl', 'label_studio']
    """
    return find_declared(sys.modules[__name__], "FORMAT", Format)
