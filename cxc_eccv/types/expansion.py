"""How far a packed file may expand: a small file that claims to hold more than any real one is refused unread."""

from __future__ import annotations

ALWAYS = 1 << 30
"""Bytes that every file may expand to: a score matrix of 5,000 images and 25,000 captions in float64."""

RATIO = 64
"""How many times its size a larger file may expand to: real tables, texts and vectors stay below 30."""


def refuse_expansion(packed: int, unpacked: int, ratio: int = RATIO) -> None:
    """Raise ValueError if ``packed`` bytes of a file expand to more than ``ratio`` times as many, and to too many."""
    most = max(ALWAYS, ratio * packed)
    if unpacked > most:
        raise ValueError(f"{packed:,} bytes that expand to {unpacked:,}, expected at most {most:,}")
