"""Prepares vectors for products: scales them, and refuses those without a similarity."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedRun
from cxc_eccv.kernels import unit_vectors
from cxc_eccv.ranking.ranked import NAMED, find_rows
from cxc_eccv.ranking.scores import Layout, workers
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings, IntArray

ROWS_PREPARED_AT_ONCE = 256
LARGEST = float(np.finfo(np.float32).max) / 2
SMALLEST = 2.0**-102
"""The smallest product that float32 holds with all its 24 digits."""


@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """The vectors of a run with their similarity, ``cosine`` or ``dot``."""

    run: EmbeddingsRun
    similarity: str

    def prepare(self, side: str, ids: IntArray, layout: Layout | None = None) -> NDArray[np.float32]:
        """Prepared vectors of the ids, in their order or laid out as columns with zeros in the padding."""
        rows = find_rows(ids, self.run, side)
        embeddings: Embeddings = getattr(self.run, side)
        targets, height = (np.arange(ids.size), ids.size) if layout is None else (layout.column, layout.width)
        out = np.zeros((height, embeddings.vectors.shape[1]), dtype=np.float32)

        def prepare_part(start: int) -> IntArray:
            part = slice(start, start + ROWS_PREPARED_AT_ONCE)
            return prepare(embeddings.vectors, self.similarity, rows[part], targets[part], out)

        with ThreadPoolExecutor(workers()) as pool:
            zero = np.concatenate(list(pool.map(prepare_part, range(0, ids.size, ROWS_PREPARED_AT_ONCE))))
        refuse_zero_vectors(embeddings.ids[zero], ids.size, side, self.run.path or "run")
        return out


def prepare(
    vectors: NDArray[np.float32], similarity: str, rows: IntArray, targets: IntArray, out: NDArray[np.float32]
) -> IntArray:
    """Write these rows of vectors to rows ``targets`` of ``out``, scaled to unit length for ``cosine``.

    Lengths are summed in float64 within a row, so that rows of equal bytes stay equal; quotients are rounded to
    float32. Negative zeros become positive, so that equal values have equal bytes. Returns the rows of zero vectors,
    which have no cosine; none for ``dot``.
    """
    if similarity == "cosine":
        return np.asarray(rows[unit_vectors(vectors, rows, targets, out) == 0])
    out[targets] = vectors[rows] + 0
    return rows[:0]


def to_unit_length(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """(N, D) vectors scaled to length 1; zero vectors stay zero."""
    rows, out = np.arange(len(vectors)), np.empty(vectors.shape, np.float32)
    prepare(vectors, "cosine", rows, rows, out)
    return out


def refuse_zero_vectors(
    ids: IntArray, total: int, kind: str, where: str | Path = "run", *, by_dot: bool = True
) -> None:
    """Raise MalformedRun if any item has a zero vector, which would score 0, above all negative cosines."""
    if ids.size:
        first = ", ".join(map(str, ids[:NAMED]))
        remedy = ", or save similarity='dot' in the file to compare them by dot product" if by_dot else ""
        raise MalformedRun(
            f"{where}: {ids.size} of {total} {kind} have a zero vector, which has no cosine, the first: {first}. Check "
            f"the model's output on them{remedy}."
        )


def refuse_extremes(
    similarity: str,
    queries: NDArray[np.float32],
    items: NDArray[np.float32],
    query_ids: IntArray,
    item_ids: IntArray,
) -> None:
    """Raise MalformedRun if dot products may overflow or vanish in float32; zero vectors are allowed.

    The product of the longest vectors must fit float32, and that of the shortest must keep all its digits. The ids are
    for the message.
    """
    if similarity != "dot":
        return
    (longest, shortest), (wide, narrow) = _extremes(queries), _extremes(items)
    for (row, length), (column, other) in ((longest, wide), (shortest, narrow)):
        product = length * other
        if product and not SMALLEST <= product <= LARGEST:
            extent = f"{'reach' if product > 1 else 'fall to'} {product:.0e}"
            raise MalformedRun(
                f"dot products {extent} (query {query_ids[row]} with item {item_ids[column]}), beyond float32; "
                "multiply all vectors by one number that brings them near 1, or use cosine"
            )


def _extremes(vectors: NDArray[np.float32]) -> list[tuple[int, float]]:
    """Row and Euclidean length, rounded up, of the longest vector and of the shortest nonzero vector."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)) * (1 + 1e-12)
    rows = int(lengths.argmax()), int(np.where(lengths > 0, lengths, np.inf).argmin())
    return [(row, float(lengths[row])) for row in rows]
