"""The image behind every query: queries of one image are resampled together."""

from __future__ import annotations

import numpy as np

from cxc_eccv.sources.library import Library
from cxc_eccv.types import IntArray, positions_of

__all__ = ["images_behind"]


def images_behind(query_ids: IntArray, library: Library, split: str, direction: str) -> IntArray:
    """(Q,) image id of each query: its own id, or that of the image a caption was written for.

    Args:
        query_ids: (Q,) ids of images or captions.
        library: the raw sources.
        split: where the captions are.
        direction: decides whether queries are images (``i2t``, ``i2i``) or captions.

    Example:
        >>> library = Library("sample")
        >>> captions = library.captions("test")
        >>> ids = captions["caption_id"].to_numpy()
        >>> bool((images_behind(ids, library, "test", "t2i") == captions["image_id"].to_numpy()).all())
        True
    """
    if direction.startswith("i"):
        return query_ids
    captions = library.captions(split)
    places = positions_of(query_ids, np.asarray(captions["caption_id"]))[0]
    return np.asarray(captions["image_id"])[places]
