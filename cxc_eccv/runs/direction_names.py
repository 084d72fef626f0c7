"""Which direction a rankings file holds, where the file itself does not say."""

from __future__ import annotations

import re
from pathlib import Path

from cxc_eccv.errors import MalformedRun, UnknownName
from cxc_eccv.types import DIRECTIONS

__all__ = ["direction_of"]

NAMED = re.compile(rf"(?<![a-z0-9])({'|'.join(DIRECTIONS)})(?![a-z0-9])")


def direction_of(path: Path, direction: str | None) -> str:
    """The direction asked for, else the one in the file's name.

    Args:
        path: for example ``clip_i2t.trec``.
        direction: what the user said, or None.

    Raises:
        UnknownName: no such direction.
        MalformedRun: the name holds no direction, or several.

    Example:
        >>> direction_of(Path("runs/clip-t2i.trec"), None), direction_of(Path("clip.trec"), "i2t")
        ('t2i', 'i2t')
    """
    if direction is not None:
        if direction not in DIRECTIONS:
            raise UnknownName("direction", direction, DIRECTIONS)
        return direction
    found = set(NAMED.findall(path.stem.lower()))
    if len(found) != 1:
        raise MalformedRun(
            f"{path}: does not say which direction its rankings have. Name the file after it, as in "
            f"{path.stem}_i2t{path.suffix}, or give the direction: --direction i2t, load_run(..., direction='i2t')"
        )
    return str(found.pop())
