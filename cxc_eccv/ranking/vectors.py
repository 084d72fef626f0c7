"""Vectors ready for a product: unit length where cosine is asked, and which rows are byte-identical."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.runs.embeddings import SIMILARITIES
from cxc_eccv.types import IntArray

__all__ = ["SIMILARITIES", "first_twins", "prepare", "row_hashes"]


def prepare(
    vectors: NDArray[np.float32], similarity: str, places: IntArray, targets: IntArray, out: NDArray[np.float32]
) -> None:
    """Write vectors to multiply into ``out``: of unit length for ``cosine``, as given for ``dot``.

    The length is summed in float64 within the row, so that rows of equal bytes stay so wherever they stand; the
    quotient is rounded to float32. A zero vector stays zero: it is equally unlike everything. Negative zeros become
    positive, so that equal values have equal bytes.

    Args:
        vectors: (N, D) float32, finite.
        similarity: ``cosine`` or ``dot``.
        places: (R,) rows of ``vectors`` to take.
        targets: (R,) rows of ``out`` to write.
        out: (.., D) float32.

    Example:
        >>> out = np.zeros((2, 2), dtype=np.float32)
        >>> vectors = np.array([[0, -0.0], [3, 4]], dtype=np.float32)
        >>> prepare(vectors, "cosine", np.array([1, 0]), np.array([0, 1]), out)
        >>> out.tolist()
        [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    rows = vectors[places]
    if similarity == "cosine":
        wide = rows.astype(np.float64)
        lengths = np.sqrt(np.square(wide, out=wide).sum(axis=1, keepdims=True))
        np.divide(rows, lengths, where=lengths > 0, out=rows, casting="same_kind")
    out[targets] = np.add(rows, 0, out=rows)


def first_twins(vectors: NDArray[np.float32]) -> IntArray:
    """(N,) index of the first row with the same bytes; its own index where a row is unique.

    A matrix product may round the same row differently at another position (edge kernels, threads), so exact ties
    are taken from the bytes.

    Example:
        >>> first_twins(np.array([[1, 2], [3, 4], [1, 2]], dtype=np.float32)).tolist()
        [0, 1, 0]
    """
    twins = np.arange(len(vectors))
    hashes = row_hashes(vectors)
    _, group, size = np.unique(hashes, return_inverse=True, return_counts=True)
    candidates = np.flatnonzero(size[group] > 1)
    if candidates.size:
        rows = np.ascontiguousarray(vectors[candidates]).view(np.dtype((np.void, 4 * vectors.shape[1]))).ravel()
        _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
        twins[candidates] = candidates[first[inverse]]
    return twins


def row_hashes(vectors: NDArray[np.float32]) -> NDArray[Any]:
    """(N,) hashes; equal rows have equal ones, and unequal rows seldom do.

    Example:
        >>> hashes = row_hashes(np.array([[1, 2], [3, 4], [1, 2]], dtype=np.float32))
        >>> (hashes == hashes[0]).tolist()
        [True, False, True]
    """
    word = np.dtype(np.uint64 if vectors.shape[1] % 2 == 0 else np.uint32)
    words = np.ascontiguousarray(vectors).view(word)
    odd = np.random.default_rng(0).integers(1, 2**31, size=words.shape[1]) * 2 + 1
    return np.asarray(np.dot(words, odd.astype(word)))
