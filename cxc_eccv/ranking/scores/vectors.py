"""Vectors ready for a product: unit length where cosine is asked, and which rows are byte-identical."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedRun, MissingIds
from cxc_eccv.ranking.scan import workers
from cxc_eccv.runs.embeddings import EmbeddingsRun
from cxc_eccv.runs.run import Run
from cxc_eccv.runs.sides import other_side
from cxc_eccv.types import FloatArray, IntArray, positions_of

__all__ = [
    "SIMILARITIES",
    "first_twins",
    "places_of",
    "prepare",
    "prepare_side",
    "refuse_overflow",
    "row_hashes",
]

SIMILARITIES = ("cosine", "dot")
ROWS_PREPARED_AT_ONCE = 256


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


NAMED = 3
SWAP_SHARE = 0.9


def places_of(ids: IntArray, run: Run, side: str) -> IntArray:
    """Position among the run's ids of a ``side`` of every id.

    Raises:
        MissingIds: the run lacks the side or some of the ids; names the first ones, how many, and says so when
            images and captions look swapped.

    Example:
        >>> from cxc_eccv.runs import EmbeddingsRun
        >>> from cxc_eccv.types import Embeddings
        >>> run = EmbeddingsRun(None, Embeddings([30, 10], np.eye(2)))
        >>> places_of(np.array([10]), run, "captions").tolist()
        [1]
    """
    own = run.ids(side)
    if not own.size:
        raise MissingIds(f"{run.path or 'run'}: has no {side}; this direction needs {ids.size} of them")
    places, known = positions_of(ids, own)
    if not known.all():
        missing = ids[~known]
        first = ", ".join(map(str, missing[:NAMED]))
        raise MissingIds(
            f"{run.path or 'run'}: lacks {missing.size} of {ids.size} {side} the task needs, the first: {first}. "
            + _remedy(run, side, ids, missing)
        )
    return places


def _remedy(run: Run, side: str, ids: IntArray, missing: IntArray) -> str:
    other = other_side(side)
    if missing.size > ids.size / 2 and np.isin(ids, run.ids(other)).mean() >= SWAP_SHARE:
        return f"These ids stand among the {other}: images and captions look swapped in the file."
    if missing.size == ids.size:
        return "None of them is there: is the run from another split or data set?"
    return "Encode the missing items too, or score them; a score over part of the gallery is not comparable."


def prepare_side(
    run: EmbeddingsRun, side: str, ids: IntArray, similarity: str, columns: IntArray | None = None, width: int = 0
) -> NDArray[np.float32]:
    """Vectors of the ids to multiply: in their order, or laid out as columns with zeros elsewhere.

    Args:
        run: has the vectors.
        side: ``images`` or ``captions``.
        ids: (N,) which.
        similarity: ``cosine`` or ``dot``.
        columns: (N,) row of the result for each, or None for their order.
        width: rows of the result, with ``columns``.

    Raises:
        MissingIds: the run lacks the side or some of the ids.
    """
    places = places_of(ids, run, side)
    vectors: NDArray[np.float32] = getattr(run, side).vectors
    targets, height = (np.arange(ids.size), ids.size) if columns is None else (columns, width)
    out = np.zeros((height, vectors.shape[1]), dtype=np.float32)

    def prepare_part(start: int) -> None:
        own = slice(start, start + ROWS_PREPARED_AT_ONCE)
        prepare(vectors, similarity, places[own], targets[own], out)

    with ThreadPoolExecutor(workers()) as pool:
        list(pool.map(prepare_part, range(0, ids.size, ROWS_PREPARED_AT_ONCE)))
    return out


def refuse_overflow(queries: NDArray[np.float32], items: NDArray[np.float32]) -> None:
    """Refuse vectors so long that a product may not fit float32.

    Raises:
        MalformedRun: the longest query times the longest item is beyond float32.

    Example:
        >>> refuse_overflow(np.full((1, 2), 1e20, np.float32), np.full((1, 2), 1e20, np.float32))
        Traceback (most recent call last):
        cxc_eccv.errors.MalformedRun: dot products reach 2e+40, beyond float32; scale the vectors, or use cosine
    """
    largest = float(_lengths(queries).max() * _lengths(items).max())
    if largest > float(np.finfo(np.float32).max) / 2:
        raise MalformedRun(f"dot products reach {largest:.0e}, beyond float32; scale the vectors, or use cosine")


def _lengths(vectors: NDArray[np.float32]) -> FloatArray:
    """(N,) Euclidean lengths, rounded up."""
    squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    return np.asarray(np.sqrt(squares) * (1 + 1e-12))
