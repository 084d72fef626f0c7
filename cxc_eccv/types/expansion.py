"""Limit on the expansion of a compressed file: one that claims more content than any real file is not read."""

from __future__ import annotations

ALWAYS = 1 << 30
"""Bytes to which every file may expand: a score matrix of 5,000 images and 25,000 captions in float64."""

RATIO = 64
"""How many times its size a larger file may expand; real tables, texts and vectors stay below 30."""


def refuse_expansion(packed: int, unpacked: int, ratio: int = RATIO) -> None:
    """Raise ValueError if ``packed`` bytes expand to more than :data:`ALWAYS` and to more than ``ratio`` times."""
    most = max(ALWAYS, ratio * packed)
    if unpacked > most:
        raise ValueError(f"{packed:,} bytes that expand to {unpacked:,}, expected at most {most:,}")
