"""Vectors ready for a product: found, of unit length where cosine is asked, and which rows are byte-identical."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import InvalidOption, MalformedRun, MissingIds, UnknownName
from cxc_eccv.ranking.kernels import unit_vectors
from cxc_eccv.ranking.scan import workers
from cxc_eccv.runs.embeddings import SIMILARITIES, EmbeddingsRun
from cxc_eccv.runs.run import Run, other_side
from cxc_eccv.types import IntArray, positions_of

__all__ = [
    "SIMILARITIES",
    "first_twins",
    "places_of",
    "prepare",
    "prepare_side",
    "refuse_embedding_options",
    "refuse_extremes",
    "refuse_zero_vectors",
    "row_hashes",
    "similarity_of",
]

NAMED = 3
SWAP_SHARE = 0.9
ROWS_PREPARED_AT_ONCE = 256
LARGEST = float(np.finfo(np.float32).max) / 2
SMALLEST = 2.0**-102
"""The smallest normal float32 with all its 24 digits."""


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


def refuse_embedding_options(run: Run, **options: Any) -> None:  # noqa: ANN401
    """Refuse options that only embeddings heed.

    Args:
        run: scores or rankings.
        **options: name to value; None is none.

    Raises:
        InvalidOption: names the first.

    Example:
        >>> from cxc_eccv.runs import RankingsRun
        >>> run = RankingsRun.from_dicts(i2t={1: [7]})
        >>> refuse_embedding_options(run, similarity=None, device="cuda")
        Traceback (most recent call last):
        cxc_eccv.errors.InvalidOption: device='cuda' is for embeddings, and this run has rankings; leave it out
    """
    for name, value in options.items():
        if value is not None:
            raise InvalidOption(f"{name}={value!r} is for embeddings, and this run has {run.kind}; leave it out")


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
    if similarity == "cosine":
        return np.asarray(places[unit_vectors(vectors, places, targets, out) == 0])
    out[targets] = vectors[places] + 0
    return places[:0]


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
        MalformedRun: a zero vector, which has no cosine.
    """
    places = places_of(ids, run, side)
    vectors: NDArray[np.float32] = getattr(run, side).vectors
    targets, height = (np.arange(ids.size), ids.size) if columns is None else (columns, width)
    out = np.zeros((height, vectors.shape[1]), dtype=np.float32)

    def prepare_part(start: int) -> IntArray:
        own = slice(start, start + ROWS_PREPARED_AT_ONCE)
        return prepare(vectors, similarity, places[own], targets[own], out)

    with ThreadPoolExecutor(workers()) as pool:
        nowhere = np.concatenate(list(pool.map(prepare_part, range(0, ids.size, ROWS_PREPARED_AT_ONCE))))
    refuse_zero_vectors(run.ids(side)[nowhere], ids.size, side, run.path or "run")
    return out


def refuse_extremes(
    queries: NDArray[np.float32], items: NDArray[np.float32], query_ids: IntArray, item_ids: IntArray
) -> None:
    """Refuse vectors so long that a product may not fit float32, or so short that it may vanish; zero ones may stay.

    Args:
        queries: (Q, D) float32.
        items: (N, D) float32.
        query_ids: (Q,) ids, for messages.
        item_ids: (N,) likewise.

    Raises:
        MalformedRun: the longest query times the longest item is beyond float32, or the shortest times the shortest
            below what float32 holds with all its digits.

    Example:
        >>> ids = np.array([5])
        >>> refuse_extremes(np.full((1, 2), 1e20, np.float32), np.full((1, 2), 1e20, np.float32), ids, ids)
        Traceback (most recent call last):
        cxc_eccv.errors.MalformedRun: dot products reach 2e+40 (query 5 with item 5), beyond float32; multiply all \
vectors by one number to bring them near 1, or use cosine
    """
    (longest, shortest), (wide, narrow) = _extremes(queries), _extremes(items)
    for (row, length), (column, other) in ((longest, wide), (shortest, narrow)):
        product = length * other
        if product and not SMALLEST <= product <= LARGEST:
            extent = f"{'reach' if product > 1 else 'fall to'} {product:.0e}"
            raise MalformedRun(
                f"dot products {extent} (query {query_ids[row]} with item {item_ids[column]}), beyond float32; "
                "multiply all vectors by one number to bring them near 1, or use cosine"
            )


def _extremes(vectors: NDArray[np.float32]) -> list[tuple[int, float]]:
    """Row and Euclidean length, rounded up, of the longest vector and of the shortest one that is not zero."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)) * (1 + 1e-12)
    places = int(lengths.argmax()), int(np.where(lengths > 0, lengths, np.inf).argmin())
    return [(place, float(lengths[place])) for place in places]
