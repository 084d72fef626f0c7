"""The one loop over blocks of rows of a score matrix: fill a block, let it be read while it is there, go on."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import cache
from queue import SimpleQueue
from typing import Any, Protocol

import numpy as np
from threadpoolctl import ThreadpoolController
from tqdm import tqdm

BLOCK_BYTES = 80_000_000
MOST_WORKERS = 16
FEWEST_ROWS, MOST_ROWS = 64, 1024


@dataclass(frozen=True, slots=True)
class Options:
    """How scores are computed and walked through."""

    similarity: str = "cosine"
    block_size: int | None = None
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
