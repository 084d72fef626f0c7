"""Passes over the score matrix: one direction, or both directions of one product."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from cxc_eccv.ranking.alignment import places_of, sides_of
from cxc_eccv.ranking.brackets import brackets
from cxc_eccv.ranking.column_pairs import ColumnPairs
from cxc_eccv.ranking.counting import Counts, RowPairs
from cxc_eccv.ranking.demand import Demand
from cxc_eccv.ranking.product import Layout, ScoreBlocks
from cxc_eccv.ranking.vectors import prepare
from cxc_eccv.runs.embeddings import EmbeddingsRun
from cxc_eccv.types import IntArray, positions_of

__all__ = ["Options", "count_both", "count_one"]

BLOCK_BYTES = 2**26
MOST_WORKERS = 16
FEWEST_ROWS, MOST_ROWS = 64, 1024
ROWS_PREPARED_AT_ONCE = 2048


@dataclass(frozen=True, slots=True)
class Options:
    """How scores are computed and walked through.

    Attributes:
        similarity: ``cosine`` or ``dot``.
        block_size: rows that one thread scores at once, or None for about 64 MB of scores in all threads together.
        progress: show a bar when standard error is a terminal.
    """

    similarity: str = "cosine"
    block_size: int | None = None
    progress: bool = False

    def rows_at_once(self, width: int) -> int:
        """Rows of a block that is ``width`` columns wide.

        Example:
            >>> Options(block_size=7).rows_at_once(25_000)
            7
        """
        fitting = BLOCK_BYTES // (4 * width * _workers())
        return self.block_size or int(np.clip(fitting, FEWEST_ROWS, MOST_ROWS))


def count_one(run: EmbeddingsRun, direction: str, demand: Demand, options: Options) -> Counts:
    """Count one direction; every query is a row.

    Raises:
        MissingIds: the run lacks queries or gallery items.
    """
    query_side, gallery_side = sides_of(direction)
    layout = Layout.of(demand.segments)
    rows = _prepared(run, query_side, demand.query_ids, options)
    columns = _prepared(run, gallery_side, demand.gallery_ids, options, layout)
    pairs = RowPairs(demand.queries, layout.column[demand.items], layout.bounds)

    def count(block: NDArray[np.float32], start: int) -> None:
        if demand.without_self:
            _leave_out_self(block, demand, layout, start)
        pairs.count(block, start)

    _for_every_block(ScoreBlocks(rows, columns, layout.padding), count, options, direction)
    return pairs.result


def count_both(run: EmbeddingsRun, i2t: Demand, t2i: Demand, options: Options) -> tuple[Counts, Counts]:
    """Count both cross-modal directions with one product; images are rows, captions are columns.

    Where scores are too much alike to settle the transposed direction this way, it gets its own product.

    Raises:
        MissingIds: the run lacks queries or gallery items.
    """
    sides = _Sides.of(i2t, t2i)
    rows = _prepared(run, "images", sides.images, options)
    columns = _prepared(run, "captions", sides.captions, options, sides.layout)
    by_row, by_column = sides.row_pairs(i2t), sides.column_pairs(t2i, rows, columns)

    def count(block: NDArray[np.float32], start: int) -> None:
        by_row.count(block, start)
        by_column.count(block, start, sides.image_segments[start : start + len(block)])

    _for_every_block(ScoreBlocks(rows, columns, sides.layout.padding, tie_rows=True), count, options, "i2t and t2i")
    counts = by_row.result
    i2t_counts = Counts(counts.scores, counts.at_least[:, : i2t.n_segments], counts.above[:, : i2t.n_segments])
    return i2t_counts, by_column.resolve() if by_column.settled else count_one(run, "t2i", t2i, options)


@dataclass(frozen=True, slots=True, eq=False)
class _Sides:
    """Images as rows and captions as columns, for both directions at once.

    Attributes:
        images: (R,) image ids in row order.
        image_segments: (R,) ascending; -1 where an image is in no gallery.
        captions: (N,) caption ids.
        layout: columns of the captions; those in no gallery stand in a further segment at the end.
    """

    images: IntArray
    image_segments: IntArray
    captions: IntArray
    layout: Layout

    @classmethod
    def of(cls, i2t: Demand, t2i: Demand) -> _Sides:
        images, image_segments = _with_segments(i2t.query_ids, t2i)
        captions, caption_segments = _with_segments(t2i.query_ids, i2t)
        order = np.argsort(image_segments, kind="stable")
        layout = Layout.of(np.where(caption_segments < 0, i2t.n_segments, caption_segments))
        return cls(images[order], image_segments[order], captions, layout)

    def row_pairs(self, i2t: Demand) -> RowPairs:
        rows = positions_of(i2t.query_ids, self.images)[0][i2t.queries]
        columns = self.layout.column[positions_of(i2t.gallery_ids, self.captions)[0][i2t.items]]
        return RowPairs(rows, columns, self.layout.bounds)

    def column_pairs(self, t2i: Demand, rows: NDArray[np.float32], columns: NDArray[np.float32]) -> ColumnPairs:
        pair_rows = positions_of(t2i.gallery_ids, self.images)[0][t2i.items]
        pair_columns = self.layout.column[positions_of(t2i.query_ids, self.captions)[0][t2i.queries]]
        low, high = brackets(rows, columns, pair_rows, pair_columns)
        return ColumnPairs(pair_rows, pair_columns, low, high, t2i.n_segments)


def _with_segments(query_ids: IntArray, opposite: Demand) -> tuple[IntArray, IntArray]:
    """All ids of a modality, queries of one direction and gallery of the other, with their gallery segments or -1."""
    ids = opposite.gallery_ids
    if not np.array_equal(query_ids, ids):
        ids = np.union1d(query_ids, ids)
    places, known = positions_of(ids, opposite.gallery_ids)
    return ids, np.where(known, opposite.segments[places], -1)


def _prepared(
    run: EmbeddingsRun, side: str, ids: IntArray, options: Options, layout: Layout | None = None
) -> NDArray[np.float32]:
    """Vectors of the ids to multiply: in their order, or at their columns of a layout."""
    places = places_of(ids, run, side)
    vectors: NDArray[np.float32] = getattr(run, side).vectors
    targets, height = (layout.column, layout.width) if layout else (np.arange(ids.size), ids.size)
    out = np.zeros((height, vectors.shape[1]), dtype=np.float32)

    def part(start: int) -> None:
        own = slice(start, start + ROWS_PREPARED_AT_ONCE)
        prepare(vectors, options.similarity, places[own], targets[own], out)

    with ThreadPoolExecutor(_workers()) as pool:
        list(pool.map(part, range(0, ids.size, ROWS_PREPARED_AT_ONCE)))
    return out


def _for_every_block(
    scores: ScoreBlocks, count: Callable[[NDArray[np.float32], int], None], options: Options, label: str
) -> None:
    """Compute and count all blocks of rows, each by one thread.

    The linear algebra library is held to one thread meanwhile: its idle threads would spin on the processors that
    count.
    """
    height, width = len(scores.rows), len(scores.columns)
    size = min(options.rows_at_once(width), height)
    spare: SimpleQueue[NDArray[np.float32]] = SimpleQueue()
    for _ in range(_workers()):
        spare.put(np.empty((size, width), dtype=np.float32))

    def one(start: int) -> None:
        out = spare.get()
        count(scores.fill(start, min(start + size, height), out), start)
        spare.put(out)

    starts = range(0, height, size)
    bar = tqdm(total=len(starts), desc=f"ranking {label}", leave=False, disable=None if options.progress else True)
    with bar, threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(_workers()) as pool:
        for _ in pool.map(one, starts):
            bar.update()


def _workers() -> int:
    """Threads to count with: the processors this process may use, within reason."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(processors, MOST_WORKERS)


def _leave_out_self(block: NDArray[np.float32], demand: Demand, layout: Layout, start: int) -> None:
    places, known = positions_of(demand.query_ids[start : start + len(block)], demand.gallery_ids)
    rows = np.flatnonzero(known)
    block[rows, layout.column[places[rows]]] = -np.inf
