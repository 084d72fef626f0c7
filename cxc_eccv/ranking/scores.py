"""Sources of blocks of scores, and the loop that fills and reads them.

Vectors are prepared so that identical vectors tie in their product; rows of score matrices are laid out as columns.
"""

from __future__ import annotations

import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController
from tqdm import tqdm

from cxc_eccv.errors import MalformedRun, UnknownName
from cxc_eccv.kernels import unit_vectors
from cxc_eccv.ranking.counts import Counts, count_rows
from cxc_eccv.ranking.device import torch_on
from cxc_eccv.runs.run import SIMILARITIES
from cxc_eccv.terminal import has_terminal
from cxc_eccv.types import IntArray
from cxc_eccv.types.ids import check_whole, make_indptr, number_within

BLOCK_BYTES = 80_000_000
MOST_WORKERS = 16
FEWEST_ROWS = 64
MOST_ROWS = 1024
ALIGNMENT = 8
ROWS_PREPARED_AT_ONCE = 256
LARGEST_PRODUCT = float(np.finfo(np.float32).max) / 2
SMALLEST_PRODUCT = 2.0**-102
"""The smallest product that float32 holds with all its 24 digits."""

IDS_NAMED = 3
"""Number of ids that an error names."""


@dataclass(frozen=True, slots=True)
class Options:
    """How scores are computed; all but ``progress`` are for vectors.

    Attributes:
        similarity: ``cosine`` or ``dot``; None for that of the run, or cosine.
        block_size: rows that a thread scores at once; None for about 80 MB over all threads, so that scores are rounded
            in blocks that depend on the number of processors.
        device: torch device, such as ``cuda``; None for NumPy on the CPU.
        progress: show a progress bar.

    Raises:
        UnknownName: the similarity is unknown.
        InvalidOption: the block size is below 1, or the device cannot be used.
    """

    similarity: str | None = None
    block_size: int | None = None
    device: str | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        if self.similarity not in (None, *SIMILARITIES):
            raise UnknownName("similarity", self.similarity, SIMILARITIES)
        if self.block_size is not None:
            check_whole("block_size", self.block_size)
        if self.device is not None:
            torch_on(self.device)

    def rows_at_once(self, height: int, width: int) -> int:
        """Number of rows in a block, such that all threads get the same number of blocks."""
        if self.block_size:
            return min(self.block_size, height)
        fitting = int(np.clip(BLOCK_BYTES // (4 * width * workers()), FEWEST_ROWS, MOST_ROWS))
        rounds = -(-height // (fitting * workers()))
        return -(-height // (rounds * workers()))


class Scores(ABC):
    """A score matrix of ``height`` rows and ``width`` columns, computed in blocks of rows.

    ``rows_at_once`` and ``threads`` are None where the options decide.
    """

    height: int
    width: int
    rows_at_once: int | None = None
    threads: int | None = None
    backwards = False

    def room(self, size: int) -> Any:  # noqa: ANN401 - what ``fill`` writes to
        """Memory for a block of at most ``size`` rows, which one thread reuses; None if ``fill`` makes its own."""
        return None

    @abstractmethod
    def fill(self, start: int, stop: int, room: Any) -> Any:  # noqa: ANN401 - an array, or a tensor on a device
        """Scores of rows ``start`` to ``stop``, minus infinity where no item competes."""

    def count_rows(self, block: Any, rows: IntArray, columns: IntArray, bounds: IntArray) -> Counts:  # noqa: ANN401
        """Count pairs of a block, see :data:`cxc_eccv.ranking.counts.CountRows`."""
        return count_rows(block, rows, columns, bounds)

    def to_host(self, block: Any) -> NDArray[Any]:  # noqa: ANN401 - as ``fill`` returns it
        """The block as an array."""
        return np.asarray(block)


def scan(scores: Scores, read: Callable[[Any, int], None], options: Options, label: str = "") -> None:
    """Fill all blocks of rows, and read each in the thread that filled it."""
    count = scores.threads or workers()
    size = scores.rows_at_once or options.rows_at_once(scores.height, scores.width)
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
    if scores.backwards:
        spans = [(scores.height - stop, scores.height - start) for start, stop in spans]
    with ExitStack() as stack:
        run: Callable[..., Any] = map
        if count > 1:
            stack.enter_context(one_blas_thread())
            run = stack.enter_context(ThreadPoolExecutor(count)).map
        quiet = not (options.progress and has_terminal())
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


class Product(Scores):
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
        self.height = len(rows)
        self.width = len(columns)
        self._rows = rows
        self._columns = columns
        self._padding = padding
        self._self_columns = self_columns
        self._originals, self._copies = find_twins(columns)
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


def find_twins(vectors: NDArray[np.float32]) -> tuple[IntArray, IntArray]:
    """Index of the first row with the same bytes, and index of the copy, for all copies."""
    first = find_leaders(vectors)
    copies = np.flatnonzero(first != np.arange(first.size))
    return first[copies], copies


def group_twins(vectors: NDArray[np.float32]) -> tuple[IntArray, IntArray]:
    """The first row of each group with the same bytes, and (N,) the group of every row, -1 for a row without copy."""
    originals, copies = find_twins(vectors)
    group = np.full(len(vectors), -1)
    leaders, group[copies] = np.unique(originals, return_inverse=True)
    group[leaders] = np.arange(leaders.size)
    return leaders, group


def find_leaders(vectors: NDArray[np.float32]) -> IntArray:
    """(N,) index of the first row with the same bytes."""
    twins = np.arange(len(vectors))
    hashes = hash_rows(vectors)
    _, group, size = np.unique(hashes, return_inverse=True, return_counts=True)
    candidates = np.flatnonzero(size[group] > 1)
    if candidates.size:
        rows = np.ascontiguousarray(vectors[candidates]).view(np.dtype((np.void, 4 * vectors.shape[1]))).ravel()
        _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
        twins[candidates] = candidates[first[inverse]]
    return twins


def hash_rows(vectors: NDArray[np.float32]) -> NDArray[Any]:
    """(N,) hashes of rows."""
    word = np.dtype(np.uint64 if vectors.shape[1] % 2 == 0 else np.uint32)
    words = np.ascontiguousarray(vectors).view(word)
    odd = np.random.default_rng(0).integers(1, 2**31, size=words.shape[1]) * 2 + 1
    return np.asarray(np.dot(words, odd.astype(word)))


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
    rows = np.arange(len(vectors))
    out = np.empty(vectors.shape, np.float32)
    prepare(vectors, "cosine", rows, rows, out)
    return out


def refuse_zero_vectors(
    ids: IntArray, total: int, kind: str, where: str | Path = "run", *, by_dot: bool = True
) -> None:
    """Raise MalformedRun if any item has a zero vector, which would score 0, above all negative cosines."""
    if ids.size:
        first = ", ".join(map(str, ids[:IDS_NAMED]))
        remedy = ""
        if by_dot:
            remedy = ", or compare by dot product: --similarity dot (similarity='dot'), or save it so in the file"
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
        if product and not SMALLEST_PRODUCT <= product <= LARGEST_PRODUCT:
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
