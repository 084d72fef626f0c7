"""Mean vectors of an image's texts, which stand for the image where a model reads texts only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.sources.library import Split
from cxc_eccv.types import Embeddings, IntArray, find_positions

AT_ONCE = 16_384
"""Texts that are averaged per batch, which bounds the memory."""


def average_captions(vectors: NDArray[np.float32], split: Split, *, normalize: bool) -> Embeddings:
    """The mean vector of every image's captions.

    Args:
        vectors: (C, D) vectors of the split's captions, in their order.
        split: the images and captions.
        normalize: scale the captions' vectors to length 1 first, as the cosine does; no vector may be zero then.

    Returns:
        A vector for each image of the split, in their order.

    Example:
        >>> from cxc_eccv.sources.library import Library
        >>> split = Library("sample").split("test")
        >>> vectors = np.full((split.caption_ids.size, 1), 2, dtype=np.float32)
        >>> average_captions(vectors, split, normalize=True).vectors[0].tolist()
        [1.0]
    """
    owners = find_positions(split.caption_image_ids, split.image_ids)[0]
    rows = np.argsort(owners, kind="stable")
    starts = np.append(0, np.cumsum(np.bincount(owners, minlength=split.image_ids.size)))
    return Embeddings(split.image_ids, average_groups(vectors.__getitem__, rows, starts, normalize=normalize))


def average_groups(
    take: Callable[[IntArray], NDArray[np.float32]], rows: IntArray, starts: IntArray, *, normalize: bool
) -> NDArray[np.float32]:
    """The mean vector of each group of texts, whatever their order in the group, to the last bit.

    Args:
        take: function from rows of texts to their (N, D) vectors; it is asked for at most about 16,000 rows at a time.
        rows: (N,) rows of the texts, group by group.
        starts: (G + 1,) where each group begins in ``rows``, and their end; no group is empty.
        normalize: scale the vectors to length 1 first.

    Returns:
        (G, D) means.

    Example:
        >>> vectors = np.array([[3, 4], [5, 12], [0, 2]], dtype=np.float32)
        >>> average_groups(vectors.__getitem__, np.array([0, 1, 2]), np.array([0, 2, 3]), normalize=False).tolist()
        [[4.0, 8.0], [0.0, 2.0]]
    """
    sizes = np.diff(starts)
    order = []
    parts = []
    for size in np.unique(sizes):
        of_size = np.flatnonzero(sizes == size)
        for groups in np.array_split(of_size, -(-of_size.size * size // AT_ONCE)):
            places = rows[starts[groups][:, None] + np.arange(size)]
            texts = take(places.ravel()).reshape(*places.shape, -1).astype(np.float64)
            if normalize:
                texts /= np.linalg.norm(texts, axis=2, keepdims=True)
            # Sorted, so that the mean does not depend on the order of the texts, to the last bit.
            parts.append(np.sort(texts, axis=1).mean(axis=1).astype(np.float32))
            order.append(groups)
    means: NDArray[np.float32] = np.concatenate(parts)[np.argsort(np.concatenate(order))]
    return means
