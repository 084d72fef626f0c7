"""The two sides of a direction: which modality asks, and which is ranked."""

from __future__ import annotations

from cxc_eccv.errors import UnknownName
from cxc_eccv.types import DIRECTIONS

__all__ = ["SIDES", "other_side", "sides_of"]

MODALITIES = {"i": "images", "t": "captions"}
SIDES = tuple(MODALITIES.values())


def sides_of(direction: str) -> tuple[str, str]:
    """Names of the query side and the gallery side.

    Raises:
        UnknownName: not one of ``i2t``, ``t2i``, ``t2t``, ``i2i``.

    Example:
        >>> sides_of("i2t")
        ('images', 'captions')
    """
    if direction not in DIRECTIONS:
        raise UnknownName("direction", direction, DIRECTIONS)
    return MODALITIES[direction[0]], MODALITIES[direction[-1]]


def other_side(side: str) -> str:
    """The modality that ``side`` is not.

    Example:
        >>> other_side("images")
        'captions'
    """
    return SIDES[1 - SIDES.index(side)]
