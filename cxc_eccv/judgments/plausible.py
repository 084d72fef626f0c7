"""Plausible matches (PCME, arXiv 2101.05068): images whose category sets differ in at most zeta categories."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.sources.library import Library
from cxc_eccv.types import IntArray, Judgments

__all__ = ["category_distances", "plausible_matches", "with_categories"]


def category_distances(present: NDArray[np.bool_]) -> NDArray[np.int16]:
    """(N, N) number of categories in which two images differ.

    Args:
        present: (N, C) bool category presence.

    Example:
        >>> category_distances(np.array([[True, False], [True, True]])).tolist()
        [[0, 1], [1, 0]]
    """
    vectors = present.astype(np.float32)  # whole numbers up to 2 C, exact in float32
    sizes = vectors.sum(axis=1)
    return np.asarray(sizes[:, None] + sizes[None, :] - 2 * vectors @ vectors.T, dtype=np.int16)


def with_categories(library: Library, split: str) -> tuple[IntArray, NDArray[np.bool_]]:
    """Ids and category vectors of the images that show at least one category; the others take no part."""
    sets = library.categories(split)
    shown = sets.present.any(axis=1)
    return sets.image_ids[shown], sets.present[shown]


def plausible_matches(library: Library, split: str, direction: str, zeta: int) -> Judgments:
    """Positives at ``zeta``: a caption has its image's categories; a query's own image or captions count.

    Args:
        library: the raw sources.
        split: any split whose images have annotations.
        direction: ``i2t`` or ``t2i``.
        zeta: most categories in which two images may differ, 0 or more.

    Raises:
        InvalidOption: a negative zeta.

    Example:
        >>> library = Library("sample")
        >>> loose, exact = (plausible_matches(library, "test", "i2t", zeta) for zeta in (2, 0))
        >>> bool((loose.n_positives >= exact.n_positives).all())
        True
    """
    if zeta < 0:
        raise InvalidOption(f"zeta={zeta}: the number of categories that may differ is 0 or more")
    if direction not in ("i2t", "t2i"):
        raise UnknownName("direction of plausible matches", direction, ("i2t", "t2i"))
    image_ids, present = with_categories(library, split)
    matches = category_distances(present) <= zeta
    content = library.karpathy(split)
    order = np.argsort(image_ids)
    slot = np.minimum(np.searchsorted(image_ids, content.caption_image_ids, sorter=order), image_ids.size - 1)
    image_of_caption = order[slot]
    taking_part = image_ids[image_of_caption] == content.caption_image_ids
    caption_ids, image_of_caption = content.caption_ids[taking_part], image_of_caption[taking_part]
    if direction == "i2t":
        return _from_matrix(image_ids, caption_ids, matches[:, image_of_caption])
    return _from_matrix(caption_ids, image_ids, matches[image_of_caption])


def _from_matrix(query_ids: IntArray, gallery_ids: IntArray, matches: NDArray[np.bool_]) -> Judgments:
    sizes = matches.sum(axis=1)
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    return Judgments(query_ids, gallery_ids, indptr, np.nonzero(matches)[1], np.zeros_like(sizes))
