"""Vectors ready for a product: unit length where cosine is asked, and which rows are byte-identical."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedRun, UnknownName
from cxc_eccv.runs.embeddings import SIMILARITIES, EmbeddingsRun
from cxc_eccv.types import IntArray

__all__ = ["SIMILARITIES", "first_twins", "prepare", "refuse_zero_vectors", "row_hashes", "similarity_of"]

NAMED = 3


def similarity_of(run: EmbeddingsRun, asked: str | None = None) -> str:
    """The similarity that is asked for, else the one that the run is meant for, else cosine.

    Raises:
        UnknownName: no such similarity.

    Example:
        >>> from cxc_eccv.types import Embeddings
        >>> run = EmbeddingsRun(None, Embeddings([1], [[1.0]]), similarity="dot")
        >>> similarity_of(run), similarity_of(run, "cosine")
        ('dot', 'cosine')
    """
    if asked not in (None, *SIMILARITIES):
        raise UnknownName("similarity", asked, SIMILARITIES)
    return asked or run.similarity or "cosine"


def prepare(
    vectors: NDArray[np.float32], similarity: str, places: IntArray, targets: IntArray, out: NDArray[np.float32]
) -> IntArray:
    """Write vectors to multiply into ``out``: of unit length for ``cosine``, as given for ``dot``.

    The length is summed in float64 within the row, so that rows of equal bytes stay so wherever they stand; the
    quotient is rounded to float32. Negative zeros become positive, so that equal values have equal bytes.

    Args:
        vectors: (N, D) float32, finite.
        similarity: ``cosine`` or ``dot``.
        places: (R,) rows of ``vectors`` to take.
        targets: (R,) rows of ``out`` to write.
        out: (.., D) float32.

    Returns:
        Those of ``places`` whose vector is zero and so has no cosine, to be refused; none for ``dot``.

    Example:
        >>> out = np.zeros((2, 2), dtype=np.float32)
        >>> vectors = np.array([[0, -0.0], [3, 4]], dtype=np.float32)
        >>> prepare(vectors, "cosine", np.array([1, 0]), np.array([0, 1]), out).tolist()
        [0]
        >>> out.tolist()
        [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    rows, nowhere = vectors[places], places[:0]
    if similarity == "cosine":
        wide = rows.astype(np.float64)
        lengths = np.sqrt(np.square(wide, out=wide).sum(axis=1, keepdims=True))
        np.divide(rows, lengths, where=lengths > 0, out=rows, casting="same_kind")
        nowhere = places[lengths[:, 0] == 0]
    out[targets] = np.add(rows, 0, out=rows)
    return nowhere


def refuse_zero_vectors(ids: IntArray, total: int, kind: str, where: str | Path = "run") -> None:
    """Refuse items whose vector is zero; under cosine it would score 0, above all that is negative.

    Args:
        ids: of these items.
        total: items in all.
        kind: what they are.
        where: the file, for the message.

    Raises:
        MalformedRun: there is one; names the first and how many.

    Example:
        >>> refuse_zero_vectors(np.array([7]), 2, "captions")
        Traceback (most recent call last):
        cxc_eccv.errors.MalformedRun: run: 1 of 2 captions have the zero vector, which has no direction and so no \
cosine, the first: 7. Check the model's output on them, or compare by dot product (similarity='dot', --similarity dot).
    """
    if ids.size:
        first = ", ".join(map(str, ids[:NAMED]))
        raise MalformedRun(
            f"{where}: {ids.size} of {total} {kind} have the zero vector, which has no direction and so no cosine, the "
            f"first: {first}. Check the model's output on them, or compare by dot product (similarity='dot', "
            "--similarity dot)."
        )


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
