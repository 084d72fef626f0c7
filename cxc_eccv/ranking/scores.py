"""Where blocks of scores come from, and the one loop over them: fill a block, let it be read while it is there, go on.

Vectors are made ready, so that in their product identical vectors tie; given scores are laid out.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController
from tqdm import tqdm

from cxc_eccv.errors import InvalidOption, MalformedRun, MissingIds, UnknownName
from cxc_eccv.kernels import unit_vectors
from cxc_eccv.runs.embeddings import SIMILARITIES, EmbeddingsRun
from cxc_eccv.runs.run import Run
from cxc_eccv.types import IntArray, other_side, positions_of

BLOCK_BYTES = 80_000_000
MOST_WORKERS = 16
FEWEST_ROWS, MOST_ROWS = 64, 1024
ALIGNMENT = 8
NAMED = 3
SWAP_SHARE = 0.9
ROWS_PREPARED_AT_ONCE = 256
LARGEST = float(np.finfo(np.float32).max) / 2
SMALLEST = 2.0**-102
"""The smallest normal float32 with all its 24 digits."""


@dataclass(frozen=True, slots=True)
class Options:
    """How scores are computed and walked through."""

    similarity: str = "cosine"
    block_size: int | None = None  # rows that one thread scores at once; None for about 80 MB in all threads together
    progress: bool = False
    device: str | None = None

    def rows_at_once(self, height: int, width: int) -> int:
        """Rows of a block out of ``height`` that are ``width`` columns wide; every thread gets as many blocks."""
        if self.block_size:
            return min(self.block_size, height)
        fitting = int(np.clip(BLOCK_BYTES // (4 * width * workers()), FEWEST_ROWS, MOST_ROWS))
        rounds = -(-height // (fitting * workers()))
        return -(-height // (rounds * workers()))


class Scores(Protocol):
    """A score matrix of ``height`` rows and ``width`` columns that is made in blocks of rows."""

    height: int
    width: int

    def room(self, size: int) -> Any:  # noqa: ANN401 - what ``fill`` writes to
        """Memory for one block of at most ``size`` rows, which one thread fills again and again."""

    def fill(self, start: int, stop: int, room: Any) -> Any:  # noqa: ANN401 - an array, or a tensor on a device
        """Scores of rows ``start`` to ``stop``, minus infinity wherever no item competes."""


def scan(
    scores: Scores,
    read: Callable[[Any, int], None],
    options: Options,
    label: str = "",
    *,
    rows_at_once: int | None = None,
    threads: int | None = None,
    backwards: bool = False,
) -> None:
    """Fill all blocks of rows and let each be read, by the thread that filled it."""
    count = threads or workers()
    size = rows_at_once or options.rows_at_once(scores.height, scores.width)
    spare: SimpleQueue[Any] = SimpleQueue()
    for _ in range(count):
        spare.put(scores.room(size))

    def fill_and_read(span: tuple[int, int]) -> None:
        room = spare.get()
        try:
            read(scores.fill(*span, room), span[0])
        finally:
            spare.put(room)  # or the other threads would wait for it for ever

    spans = list(itertools.pairwise(_stagger(scores.height, size, count)))
    if backwards:
        spans = [(scores.height - stop, scores.height - start) for start, stop in spans]
    with ExitStack() as stack:
        run: Callable[..., Any] = map
        if count > 1:
            stack.enter_context(one_blas_thread())
            run = stack.enter_context(ThreadPoolExecutor(count)).map
        quiet = None if options.progress else True
        bar = stack.enter_context(tqdm(total=len(spans), desc=f"ranking {label}", leave=False, disable=quiet))
        for _ in run(fill_and_read, spans):
            bar.update()


def _stagger(height: int, size: int, threads: int) -> list[int]:
    """Block edges; the first blocks of the threads differ in size.

    In step, all threads would multiply at the same time and then count at the same time, which the interpreter's lock
    allows in part only.
    """
    first = size * np.arange(1, threads + 1) // threads
    edges = np.concatenate([[0], np.cumsum(np.maximum(first, 1))])
    rest = np.arange(edges[-1] + size, height, size)
    return [*edges[edges < height].tolist(), *rest.tolist(), height]


def one_blas_thread() -> AbstractContextManager[Any]:
    """Hold the linear algebra library to one thread, while several threads of ours call it."""
    held: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return held


@cache
def _libraries() -> ThreadpoolController:
    """Looking for them among all that this process has loaded takes longer than many a product."""
    return ThreadpoolController()


def workers() -> int:
    """Threads to count with: the processors this process may use, within reason."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(processors, MOST_WORKERS)


@dataclass(frozen=True, eq=False)
class Layout:
    """Gallery items as columns: sorted by segment, each segment padded to a multiple of eight.

    Eight flags are counted as one 64-bit word, which must not straddle segments. ``column`` has the (N,) column of each
    item, ``bounds`` the (S + 1,) first columns of the segments, and the width.
    """

    column: IntArray
    bounds: IntArray

    @classmethod
    def of(cls, segments: IntArray) -> Layout:
        """Lay out items by their segment numbers."""
        sizes = np.bincount(segments)
        padded = -(-sizes // ALIGNMENT) * ALIGNMENT
        bounds = np.concatenate([[0], np.cumsum(padded)])
        order = np.argsort(segments, kind="stable")
        within = np.arange(segments.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        column = np.empty(segments.size, dtype=np.int64)
        column[order] = np.repeat(bounds[:-1], sizes) + within
        return cls(column, bounds)

    @property
    def width(self) -> int:
        """Columns, padding included."""
        return int(self.bounds[-1])

    @cached_property
    def padding(self) -> IntArray:
        """Columns that hold no item."""
        empty = np.ones(self.width, dtype=bool)
        empty[self.column] = False
        return np.flatnonzero(empty)

    def spread(self, ids: IntArray) -> IntArray:
        """(width,) the id of each column; of the padding -1."""
        spread = np.full(self.width, -1)
        spread[self.column] = ids
        return spread


class Product:
    """The product of (R, D) row vectors with (width, D) laid-out gallery vectors, zero in the ``padding``.

    Byte-identical columns have identical scores in every row. With ``tie_rows``, where columns rank rows as well,
    byte-identical rows have identical scores too, in whatever blocks they stand. ``own`` has the (R,) column of the
    query itself, which it does not rank, or -1.
    """

    def __init__(
        self,
        rows: NDArray[np.float32],
        columns: NDArray[np.float32],
        padding: IntArray,
        *,
        own: IntArray | None = None,
        tie_rows: bool = False,
    ) -> None:
        self.height, self.width = len(rows), len(columns)
        self._rows, self._columns, self._padding, self._own = rows, columns, padding, own
        self._originals, self._copies = twins_of(columns)
        self._row_twins = np.full(len(rows), -1)
        if tie_rows:
            originals, copies = twins_of(rows)
            shared, self._row_twins[copies] = np.unique(originals, return_inverse=True)
            self._row_twins[shared] = np.arange(shared.size)
            self._shared = rows[shared] @ columns.T

    def room(self, size: int) -> NDArray[np.float32]:
        """Memory for one block."""
        return np.empty((size, self.width), dtype=np.float32)

    def fill(self, start: int, stop: int, room: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scores of rows ``start`` to ``stop``: a (stop - start, width) view of ``room``."""
        block = room[: stop - start]
        np.matmul(self._rows[start:stop], self._columns.T, out=block)
        twins = self._row_twins[start:stop]
        for row in np.flatnonzero(twins >= 0).tolist():
            block[row] = self._shared[twins[row]]
        block[:, self._copies] = block[:, self._originals]
        block[:, self._padding] = -np.inf
        leave_out(block, self._own, start)
        return block


def leave_out(block: NDArray[Any], own: IntArray | None, start: int) -> None:
    """Set the score of every query with itself, in the column ``own`` if not negative, to minus infinity."""
    if own is not None:
        columns = own[start : start + len(block)]
        rows = np.flatnonzero(columns >= 0)
        block[rows, columns[rows]] = -np.inf


def twins_of(vectors: NDArray[np.float32]) -> tuple[IntArray, IntArray]:
    """Original and copy of every row whose bytes occurred before."""
    first = first_twins(vectors)
    copies = np.flatnonzero(first != np.arange(first.size))
    return first[copies], copies


ScoreRows = Callable[[IntArray], NDArray[Any]]
"""Positions of queries to their (rows, N) scores, float32 or float64."""


class GivenScores:
    """The rows of a score matrix, laid out as columns by segment."""

    def __init__(
        self,
        score_rows: ScoreRows,
        query_ids: IntArray,
        rows: IntArray,
        items: IntArray,
        layout: Layout,
        own: IntArray | None,
    ) -> None:
        self.height, self.width = rows.size, layout.width
        self._score_rows, self._query_ids, self._rows, self._items = score_rows, query_ids, rows, items
        self._layout, self._own = layout, own

    def room(self, _size: int) -> None:
        """None: blocks are of the scorer's own type."""

    def fill(self, start: int, stop: int, _room: None) -> NDArray[Any]:
        """Scores of rows ``start`` to ``stop``, refused where one is NaN or infinite."""
        scores = self._score_rows(self._rows[start:stop])
        if not np.isfinite(scores).all():
            raise MalformedRun(
                f"scores of queries {self._query_ids[start:stop][:3].tolist()}... hold NaN or infinite values"
            )
        block = np.full((len(scores), self.width), -np.inf, dtype=scores.dtype)
        block[:, self._layout.column] = scores[:, self._items]
        leave_out(block, self._own, start)
        return block


def similarity_of(run: EmbeddingsRun, asked: str | None = None) -> str:
    """The similarity that is asked for, else the one that the run is meant for, else cosine."""
    if asked not in (None, *SIMILARITIES):
        raise UnknownName("similarity", asked, SIMILARITIES)
    return asked or run.similarity or "cosine"


def refuse_embedding_options(run: Run, **options: Any) -> None:  # noqa: ANN401
    """Raise InvalidOption for the first option that is not None: scores and rankings heed none of embeddings."""
    for name, value in options.items():
        if value is not None:
            raise InvalidOption(f"{name}={value!r} is for embeddings, and this run has {run.kind}; leave it out")


def prepare(
    vectors: NDArray[np.float32], similarity: str, places: IntArray, targets: IntArray, out: NDArray[np.float32]
) -> IntArray:
    """Write the rows ``places`` of vectors into the rows ``targets`` of ``out``: of unit length for ``cosine``.

    The length is summed in float64 within the row, so that rows of equal bytes stay so wherever they stand; the
    quotient is rounded to float32. Negative zeros become positive, so that equal values have equal bytes.
    Returns those of ``places`` whose vector is zero and so has no cosine; none for ``dot``.
    """
    if similarity == "cosine":
        return np.asarray(places[unit_vectors(vectors, places, targets, out) == 0])
    out[targets] = vectors[places] + 0
    return places[:0]


def to_unit_length(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """(N, D) vectors of length 1, as cosine compares them; zero vectors stay zero."""
    rows, out = np.arange(len(vectors)), np.empty(vectors.shape, np.float32)
    prepare(vectors, "cosine", rows, rows, out)
    return out


def refuse_zero_vectors(
    ids: IntArray, total: int, kind: str, where: str | Path = "run", *, by_dot: bool = True
) -> None:
    """Raise MalformedRun if any item has a zero vector; under cosine it would score 0, above all that is negative."""
    if ids.size:
        first = ", ".join(map(str, ids[:NAMED]))
        remedy = ", or say in the file that they are compared by dot product (similarity='dot')" if by_dot else ""
        raise MalformedRun(
            f"{where}: {ids.size} of {total} {kind} have the zero vector, which has no direction and so no cosine, the "
            f"first: {first}. Check the model's output on them{remedy}."
        )


def first_twins(vectors: NDArray[np.float32]) -> IntArray:
    """(N,) index of the first row with the same bytes; its own index where a row is unique.

    A matrix product may round the same row differently at another position (edge kernels, threads), so exact ties
    are taken from the bytes.
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
    """(N,) hashes; equal rows have equal ones, and unequal rows seldom do."""
    word = np.dtype(np.uint64 if vectors.shape[1] % 2 == 0 else np.uint32)
    words = np.ascontiguousarray(vectors).view(word)
    odd = np.random.default_rng(0).integers(1, 2**31, size=words.shape[1]) * 2 + 1
    return np.asarray(np.dot(words, odd.astype(word)))


def places_of(ids: IntArray, run: Run, side: str) -> IntArray:
    """Position of every id among the run's ids of a ``side``."""
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
    return (
        "Encode the missing items too, or score them; a score over part of the gallery is not comparable. cxc-eccv "
        "evaluate --allow-missing scores what is there, and its report says so."
    )


def prepare_side(
    run: EmbeddingsRun, side: str, ids: IntArray, similarity: str, layout: Layout | None = None
) -> NDArray[np.float32]:
    """Vectors of the ids to multiply: in their order, or laid out as columns, with zeros in the padding."""
    places = places_of(ids, run, side)
    vectors: NDArray[np.float32] = getattr(run, side).vectors
    targets, height = (np.arange(ids.size), ids.size) if layout is None else (layout.column, layout.width)
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

    The longest query times the longest item must be within float32, and the shortest times the shortest must be held
    with all its digits. The ids are for the message.
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
