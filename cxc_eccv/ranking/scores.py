"""Sources of blocks of scores, and the loop that fills and reads them.

Vectors are prepared so that identical vectors tie in their product; rows of score matrices are laid out as columns.
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
from cxc_eccv.runs import EmbeddingsRun, Run
from cxc_eccv.runs.embeddings import SIMILARITIES
from cxc_eccv.types import IntArray, find_positions, other_side
from cxc_eccv.types.ids import make_indptr, number_within

BLOCK_BYTES = 80_000_000
MOST_WORKERS = 16
FEWEST_ROWS, MOST_ROWS = 64, 1024
ALIGNMENT = 8
NAMED = 3
SWAP_SHARE = 0.9
ROWS_PREPARED_AT_ONCE = 256
LARGEST = float(np.finfo(np.float32).max) / 2
SMALLEST = 2.0**-102
"""The smallest product that float32 holds with all its 24 digits."""


@dataclass(frozen=True, slots=True)
class Options:
    """How scores are computed."""

    similarity: str = "cosine"
    block_size: int | None = None  # rows that a thread scores at once; None for about 80 MB over all threads, so that
    # scores are rounded in blocks that depend on the number of processors
    progress: bool = False
    device: str | None = None

    def __post_init__(self) -> None:
        if self.block_size is not None and self.block_size < 1:
            raise InvalidOption(f"block_size is {self.block_size}, expected at least 1")

    def rows_at_once(self, height: int, width: int) -> int:
        """Number of rows in a block, such that all threads get the same number of blocks."""
        if self.block_size:
            return min(self.block_size, height)
        fitting = int(np.clip(BLOCK_BYTES // (4 * width * workers()), FEWEST_ROWS, MOST_ROWS))
        rounds = -(-height // (fitting * workers()))
        return -(-height // (rounds * workers()))


class Scores(Protocol):
    """A score matrix of ``height`` rows and ``width`` columns, computed in blocks of rows."""

    height: int
    width: int

    def room(self, size: int) -> Any:  # noqa: ANN401 - what ``fill`` writes to
        """Memory for a block of at most ``size`` rows, which one thread reuses."""

    def fill(self, start: int, stop: int, room: Any) -> Any:  # noqa: ANN401 - an array, or a tensor on a device
        """Scores of rows ``start`` to ``stop``, minus infinity where no item competes."""


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
    """Fill all blocks of rows, and read each in the thread that filled it."""
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
            spare.put(room)  # otherwise other threads would wait for it forever

    spans = list(itertools.pairwise(_stagger(scores.height, size, 1 if options.block_size else count)))
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
    """Block edges; the first blocks of the threads differ in size, so that the threads do not run in step.

    In step, all threads would multiply at once and then count at once, which the interpreter's lock partly serialises.
    """
    first = size * np.arange(1, threads + 1) // threads
    edges = make_indptr(np.maximum(first, 1))
    rest = np.arange(edges[-1] + size, height, size)
    return [*edges[edges < height].tolist(), *rest.tolist(), height]


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limit the linear algebra library to one thread, while several of our threads call it."""
    limit: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return limit


@cache
def _libraries() -> ThreadpoolController:
    """Cached, as the search among all loaded libraries takes longer than many products."""
    return ThreadpoolController()


def workers() -> int:
    """Number of threads: the processors available to this process, at most 16."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(processors, MOST_WORKERS)


@dataclass(frozen=True, eq=False)
class Layout:
    """Gallery items as columns: sorted by segment, each segment padded to a multiple of eight.

    Eight flags are counted as one 64-bit word, which must not straddle segments. ``column`` is the (N,) column of each
    item; ``bounds`` are the first columns of the S segments, and the width.
    """

    column: IntArray
    bounds: IntArray

    @classmethod
    def of(cls, segments: IntArray) -> Layout:
        """Lay out items by their segment numbers."""
        sizes = np.bincount(segments)
        padded = -(-sizes // ALIGNMENT) * ALIGNMENT
        bounds = make_indptr(padded)
        column = np.empty(segments.size, dtype=np.int64)
        column[np.argsort(segments, kind="stable")] = np.repeat(bounds[:-1], sizes) + number_within(sizes)
        return cls(column, bounds)

    @property
    def width(self) -> int:
        """Number of columns, including padding."""
        return int(self.bounds[-1])

    @cached_property
    def padding(self) -> IntArray:
        """Columns without an item."""
        empty = np.ones(self.width, dtype=bool)
        empty[self.column] = False
        return np.flatnonzero(empty)

    def spread(self, ids: IntArray) -> IntArray:
        """(width,) id of each column, -1 for padding."""
        spread = np.full(self.width, -1)
        spread[self.column] = ids
        return spread


class Product:
    """The product of (R, D) row vectors with (width, D) laid-out gallery vectors, zero in the ``padding``.

    Byte-identical columns have identical scores in every row. With ``tie_rows``, for columns that rank rows,
    byte-identical rows also have identical scores in every block. ``self_columns`` is the (R,) column of each query
    itself, which it does not rank, or -1.
    """

    def __init__(
        self,
        rows: NDArray[np.float32],
        columns: NDArray[np.float32],
        padding: IntArray,
        *,
        self_columns: IntArray | None = None,
        tie_rows: bool = False,
    ) -> None:
        self.height, self.width = len(rows), len(columns)
        self._rows, self._columns, self._padding, self._self_columns = rows, columns, padding, self_columns
        self._originals, self._copies = twins_of(columns)
        self._row_twins = np.full(len(rows), -1)
        if tie_rows:
            shared, self._row_twins = group_twins(rows)
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
        leave_out_self(block, self._self_columns, start)
        return block


def leave_out_self(block: NDArray[Any], self_columns: IntArray | None, start: int) -> None:
    """Set the score of every query with itself to minus infinity."""
    if self_columns is not None:
        columns = self_columns[start : start + len(block)]
        rows = np.flatnonzero(columns >= 0)
        block[rows, columns[rows]] = -np.inf


def twins_of(vectors: NDArray[np.float32]) -> tuple[IntArray, IntArray]:
    """Index of the first row with the same bytes, and index of the copy, for all copies."""
    first = first_twins(vectors)
    copies = np.flatnonzero(first != np.arange(first.size))
    return first[copies], copies


def group_twins(vectors: NDArray[np.float32]) -> tuple[IntArray, IntArray]:
    """The first row of each group with the same bytes, and (N,) the group of every row, -1 for a row without copy."""
    originals, copies = twins_of(vectors)
    group = np.full(len(vectors), -1)
    leaders, group[copies] = np.unique(originals, return_inverse=True)
    group[leaders] = np.arange(leaders.size)
    return leaders, group


ScoreRows = Callable[[IntArray], NDArray[Any]]
"""Maps positions of queries to their (rows, N) finite scores, float32 or float64."""


class GivenScores:
    """The rows of a score matrix, laid out as columns by segment."""

    def __init__(
        self,
        score_rows: ScoreRows,
        rows: IntArray,
        items: IntArray,
        layout: Layout,
        self_columns: IntArray | None,
    ) -> None:
        self.height, self.width = rows.size, layout.width
        self._score_rows, self._rows, self._items = score_rows, rows, items
        self._layout, self._self_columns = layout, self_columns

    def room(self, _size: int) -> None:
        """None, as blocks have the type of the scores."""

    def fill(self, start: int, stop: int, _room: None) -> NDArray[Any]:
        """Scores of rows ``start`` to ``stop``."""
        scores = self._score_rows(self._rows[start:stop])
        block = np.full((len(scores), self.width), -np.inf, dtype=scores.dtype)
        block[:, self._layout.column] = scores[:, self._items]
        leave_out_self(block, self._self_columns, start)
        return block


def similarity_of(run: EmbeddingsRun, similarity: str | None = None) -> str:
    """The given similarity, else that of the run, else cosine."""
    if similarity not in (None, *SIMILARITIES):
        raise UnknownName("similarity", similarity, SIMILARITIES)
    return similarity or run.similarity or "cosine"


def refuse_embedding_options(run: Run, **options: Any) -> None:  # noqa: ANN401
    """Raise InvalidOption for the first option that is not None; scores and rankings have no such options."""
    for name, value in options.items():
        if value is not None:
            raise InvalidOption(f"{name}={value!r} is for embeddings, and this run has {run.kind}; leave it out")


def prepare(
    vectors: NDArray[np.float32], similarity: str, places: IntArray, targets: IntArray, out: NDArray[np.float32]
) -> IntArray:
    """Write rows ``places`` of vectors to rows ``targets`` of ``out``, scaled to unit length for ``cosine``.

    Lengths are summed in float64 within a row, so that rows of equal bytes stay equal; quotients are rounded to
    float32. Negative zeros become positive, so that equal values have equal bytes. Returns the ``places`` of zero
    vectors, which have no cosine; none for ``dot``.
    """
    if similarity == "cosine":
        return np.asarray(places[unit_vectors(vectors, places, targets, out) == 0])
    out[targets] = vectors[places] + 0
    return places[:0]


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


def first_twins(vectors: NDArray[np.float32]) -> IntArray:
    """(N,) index of the first row with the same bytes.

    A matrix product may round the same row differently at another position (edge kernels, threads), so exact ties are
    found by bytes.
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
    """(N,) hashes of rows."""
    word = np.dtype(np.uint64 if vectors.shape[1] % 2 == 0 else np.uint32)
    words = np.ascontiguousarray(vectors).view(word)
    odd = np.random.default_rng(0).integers(1, 2**31, size=words.shape[1]) * 2 + 1
    return np.asarray(np.dot(words, odd.astype(word)))


def places_of(ids: IntArray, run: Run, side: str) -> IntArray:
    """Position of every id among the run's ids of a ``side``; raises MissingIds."""
    run_ids = run.ids(side)
    if not run_ids.size:
        raise MissingIds(f"{run.path or 'run'}: has no {side}; this direction needs {ids.size} of them")
    places, known = find_positions(ids, run_ids)
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
        return f"These ids are among the {other}: images and captions look swapped in the file."
    if missing.size == ids.size:
        return "The run has none of them; is it from another split or data set?"
    return (
        "Encode the missing items too, or score them; a score over part of the gallery is not comparable. cxc-eccv "
        "evaluate --allow-missing scores the part that the run has, and its report says so."
    )


def prepare_side(
    run: EmbeddingsRun, side: str, ids: IntArray, similarity: str, layout: Layout | None = None
) -> NDArray[np.float32]:
    """Prepared vectors of the ids, in their order or laid out as columns with zeros in the padding."""
    places = places_of(ids, run, side)
    vectors: NDArray[np.float32] = getattr(run, side).vectors
    targets, height = (np.arange(ids.size), ids.size) if layout is None else (layout.column, layout.width)
    out = np.zeros((height, vectors.shape[1]), dtype=np.float32)

    def prepare_part(start: int) -> IntArray:
        part = slice(start, start + ROWS_PREPARED_AT_ONCE)
        return prepare(vectors, similarity, places[part], targets[part], out)

    with ThreadPoolExecutor(workers()) as pool:
        zero = np.concatenate(list(pool.map(prepare_part, range(0, ids.size, ROWS_PREPARED_AT_ONCE))))
    refuse_zero_vectors(run.ids(side)[zero], ids.size, side, run.path or "run")
    return out


def refuse_extremes(
    queries: NDArray[np.float32], items: NDArray[np.float32], query_ids: IntArray, item_ids: IntArray
) -> None:
    """Raise MalformedRun if products of vectors may overflow or vanish in float32; zero vectors are allowed.

    The product of the longest vectors must fit float32, and that of the shortest must keep all its digits. The ids are
    for the message.
    """
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
    places = int(lengths.argmax()), int(np.where(lengths > 0, lengths, np.inf).argmin())
    return [(place, float(lengths[place])) for place in places]
