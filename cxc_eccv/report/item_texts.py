"""Ids to what people see of them: texts and file names."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cxc_eccv.builders.lookup import caption_texts, file_names, images_of
from cxc_eccv.sources.library import Library
from cxc_eccv.types import IntArray

__all__ = ["files_of", "images_behind_items", "texts_of"]


def files_of(library: Library, split: str, side: str, ids: IntArray) -> pa.Array:
    """(N,) file names of images; nulls for captions.

    Args:
        library: the raw sources.
        split: of the items.
        side: ``images`` or ``captions``.
        ids: (N,) ids of the side.
    """
    return file_names(library, split, ids) if side == "images" else pa.nulls(ids.size, pa.string())


def texts_of(library: Library, split: str, side: str, ids: IntArray) -> pa.ListArray:
    """(N,) the caption of each caption id, or all captions of each image id, as lists of raw texts.

    Example:
        >>> library = Library("sample")
        >>> image = library.images("test")["image_id"].to_numpy()[:1]
        >>> len(texts_of(library, "test", "images", image)[0])
        5
    """
    if side == "captions":
        return pa.ListArray.from_arrays(np.arange(ids.size + 1, dtype=np.int32), caption_texts(library, split, ids))
    content = library.karpathy(split)
    rows = [np.flatnonzero(content.caption_image_ids == image) for image in ids]
    offsets = np.append(0, np.cumsum([own.size for own in rows])).astype(np.int32)
    captions = content.caption_ids[np.concatenate(rows)]
    return pa.ListArray.from_arrays(offsets, caption_texts(library, split, captions))


def images_behind_items(library: Library, split: str, side: str, ids: IntArray) -> IntArray:
    """(N,) image ids: the images themselves, or those that captions were written for."""
    return ids if side == "images" else images_of(library, split, ids)
