"""Walking through the score matrix in blocks of rows, one thread a block."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from tqdm import tqdm

__all__ = ["Blocks", "Options", "for_every_block", "workers"]

BLOCK_BYTES = 100_000_000
MOST_WORKERS = 16
FEWEST_ROWS, MOST_ROWS = 64, 1024


@dataclass(frozen=True, slots=True)
class Options:
    """How scores are computed and walked through.

    Attributes:
        similarity: ``cosine`` or ``dot``.
        block_size: rows that one thread scores at once, or None for about 100 MB of scores in all threads together.
        progress: show a bar when standard error is a terminal.
        device: a torch device to score on, or None for NumPy.
    """

    similarity: str = "cosine"
    block_size: int | None = None
    progress: bool = False
    device: str | None = None

    def rows_at_once(self, height: int, width: int) -> int:
        """Rows of a block out of ``height`` that are ``width`` columns wide; every thread gets as many blocks.

        Example:
            >>> Options(block_size=7).rows_at_once(5_000, 25_000)
            7
        """
        if self.block_size:
            return min(self.block_size, height)
        fitting = int(np.clip(BLOCK_BYTES // (4 * width * workers()), FEWEST_ROWS, MOST_ROWS))
        rounds = -(-height // (fitting * workers()))
        return -(-height // (rounds * workers()))


class Blocks(Protocol):
    """A score matrix that is computed in blocks of rows.

    Attributes:
        rows: (R, D) vectors of the rows.
        columns: (width, D) vectors of the columns.
    """

    rows: NDArray[np.float32]
    columns: NDArray[np.float32]

    def fill(self, start: int, stop: int, out: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scores of rows ``start`` to ``stop``, in the memory of ``out``."""


def for_every_block(
    scores: Blocks,
    count: Callable[[NDArray[np.float32], int], None],
    options: Options,
    label: str,
    *,
    backwards: bool = False,
) -> None:
    """Compute and count all blocks of rows, from the first or from the last one, each by one thread.

    The linear algebra library is held to one thread meanwhile: its idle threads would spin on the processors that
    count.
    """
    height, width = len(scores.rows), len(scores.columns)
    size = options.rows_at_once(height, width)
    spare: SimpleQueue[NDArray[np.float32]] = SimpleQueue()
    for _ in range(workers()):
        spare.put(np.empty((size, width), dtype=np.float32))

    def one(start: int, stop: int) -> None:
        out = spare.get()
        try:
            count(scores.fill(start, stop, out), start)
        finally:
            spare.put(out)  # or the other threads would wait for it for ever

    edges = _staggered(height, size)
    spans = list(itertools.pairwise(edges))
    if backwards:
        spans = [(height - stop, height - start) for start, stop in spans]
    bar = tqdm(total=len(spans), desc=f"ranking {label}", leave=False, disable=None if options.progress else True)
    with bar, threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(workers()) as pool:
        for _ in pool.map(one, *zip(*spans, strict=True)):
            bar.update()


def _staggered(height: int, size: int) -> list[int]:
    """Block edges; the first blocks of the threads differ in size.

    In step, all threads would multiply at the same time and then count at the same time, which the interpreter's lock
    allows in part only.
    """
    first = size * np.arange(1, workers() + 1) // workers()
    edges = np.concatenate([[0], np.cumsum(np.maximum(first, 1))])
    rest = np.arange(edges[-1] + size, height, size)
    return [*edges[edges < height].tolist(), *rest.tolist(), height]


def workers() -> int:
    """Threads to count with: the processors this process may use, within reason."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(processors, MOST_WORKERS)
