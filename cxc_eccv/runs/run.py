"""Run: what evaluation asks of a model's results, whichever form they have."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from cxc_eccv.errors import UnknownName
from cxc_eccv.types import DIRECTIONS, IntArray

__all__ = ["SIDES", "Run", "other_side", "sides_of"]


@runtime_checkable
class Run(Protocol):
    """Embeddings, a score matrix, or rankings.

    Attributes:
        kind: ``embeddings``, ``scores`` or ``rankings``.
    """

    kind: ClassVar[str]

    @property
    def path(self) -> Path | None:
        """The file it was read from, or None."""

    def why_not(self, direction: str) -> str | None:
        """Why this direction cannot be ranked, or None where it can."""

    def ids(self, side: str) -> IntArray:
        """(N,) distinct ids of the ``images`` or ``captions`` that it names; empty where it names none."""

    def facts(self) -> dict[str, Any]:
        """What a report records of it: kind, file, hash, and an entry of sizes per side."""


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
