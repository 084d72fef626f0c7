"""Flickr30k with its Karpathy splits (29,000 / 1,014 / 1,000 images, five captions each)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cxc_eccv.sources.karpathy import KarpathySplit, read_karpathy

__all__ = ["read_flickr30k"]


def read_flickr30k(paths: Sequence[Path]) -> dict[str, KarpathySplit]:
    """Read ``dataset_flickr30k.json``, or one file per split in its layout.

    An image's id is its Flickr photo number, the stem of its file name; a caption's is its ``sentid``.

    Args:
        paths: the files; together they hold every image once.

    Returns:
        Split name (``train``, ``validation``, ``test``) to its tables.

    Raises:
        MalformedSource: as for the COCO splits.
    """
    return read_karpathy(paths)
