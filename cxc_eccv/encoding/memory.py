"""Says so before vectors that are joined in memory fill too much of it."""

from __future__ import annotations

import os

from cxc_eccv.terminal import say

LARGEST_SHARE = 0.5
"""Share of the memory that vectors fill without a word; evaluating them takes as much again."""


def read_memory() -> int | None:
    """Bytes of memory of this machine, or None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def warn_of_memory(n_items: int, width: int) -> None:
    """Say on standard error if the float32 vectors of all items fill more than half of the memory."""
    memory = read_memory()
    needed = 4 * n_items * width
    if memory is not None and needed > LARGEST_SHARE * memory:
        say(
            f"encode holds all vectors in memory: {n_items:,} items x {width} numbers x 4 bytes are "
            f"{needed / 1e9:,.1f} GB, and this machine has {memory / 1e9:,.1f} GB. Write shards instead, and rank them "
            "with LargeGallery: docs/scale.md",
            err=True,
        )
