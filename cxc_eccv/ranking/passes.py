"""Passes over the score matrix: one direction, or both directions of one product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.alignment import places_of, sides_of
from cxc_eccv.ranking.blocks import Options, for_every_block, workers
from cxc_eccv.ranking.brackets import refuse_extremes
from cxc_eccv.ranking.column_readers import ColumnReaders
from cxc_eccv.ranking.counting import Counts, RowPairs
from cxc_eccv.ranking.cross_modal import CrossModal
from cxc_eccv.ranking.demand import Demand
from cxc_eccv.ranking.product import Layout, ScoreBlocks
from cxc_eccv.ranking.row_readers import RowReader
from cxc_eccv.ranking.vectors import prepare, refuse_zero_vectors
from cxc_eccv.runs.embeddings import EmbeddingsRun
from cxc_eccv.types import IntArray, positions_of

__all__ = ["count_both", "count_one", "prepared"]

ROWS_PREPARED_AT_ONCE = 256


def count_one(
    run: EmbeddingsRun, direction: str, demand: Demand, options: Options, readers: Sequence[RowReader] = ()
) -> Counts:
    """Count one direction; every query is a row, which the readers read too.

    Raises:
        MissingIds: the run lacks queries or gallery items.
    """
    query_side, gallery_side = sides_of(direction)
    layout = Layout.of(demand.segments)
    rows = prepared(run, query_side, demand.query_ids, options)
    columns = prepared(run, gallery_side, demand.gallery_ids, options, layout)
    if options.similarity == "dot":
        refuse_extremes(rows, columns, demand.query_ids, layout.spread(demand.gallery_ids))
    pairs = RowPairs(demand.queries, layout.column[demand.items], layout.bounds)
    for reader in readers:
        reader.attach(demand.query_ids, demand.gallery_ids, layout.column, layout.width)

    def count(block: NDArray[np.float32], start: int) -> None:
        if demand.without_self:
            _leave_out_self(block, demand, layout, start)
        pairs.count(block, start)
        for reader in readers:
            reader.read(block, start)

    for_every_block(ScoreBlocks(rows, columns, layout.padding), count, options, direction)
    return pairs.result


def count_both(
    run: EmbeddingsRun,
    demands: Mapping[str, Demand],
    options: Options,
    readers: Mapping[str, Sequence[RowReader]] = MappingProxyType({}),
) -> dict[str, Counts]:
    """Count both cross-modal directions with one product.

    Where scores are too much alike to settle the direction whose queries are columns, it gets its own product.

    Args:
        run: vectors of both modalities.
        demands: the direction whose queries are rows, then the other one.
        options: of the pass.
        readers: direction to what else reads its scores; those of the second direction by
            :func:`cxc_eccv.ranking.column_readers.can_read_columns`.

    Raises:
        MissingIds: the run lacks queries or gallery items.
    """
    (direction, by_row), (other, by_column) = demands.items()
    sides = CrossModal.of(by_row, by_column)
    row_side, column_side = sides_of(direction)
    rows = prepared(run, row_side, sides.rows, options)
    columns = prepared(run, column_side, sides.columns, options, sides.layout)
    if options.similarity == "dot":
        refuse_extremes(rows, columns, sides.rows, sides.layout.spread(sides.columns))
    row_pairs, column_pairs = sides.row_pairs(by_row), sides.column_pairs(by_column, rows, columns)
    across = ColumnReaders(readers.get(other, ()), sides.rows, sides.columns, sides.layout.column, sides.layout.width)
    for reader in readers.get(direction, ()):
        reader.attach(sides.rows, sides.columns, sides.layout.column, sides.layout.width)

    def count(block: NDArray[np.float32], start: int) -> None:
        row_pairs.count(block, start)
        column_pairs.count(block, start, sides.row_segments[start : start + len(block)])
        across.read(block, start)
        for reader in readers.get(direction, ()):
            reader.read(block, start)

    scores = ScoreBlocks(rows, columns, sides.layout.padding, tie_rows=True)
    for_every_block(scores, count, options, f"{direction} and {other}")
    counts, kept = row_pairs.result, by_row.n_segments
    own = Counts(counts.scores, counts.at_least[:, :kept], counts.above[:, :kept])
    if not (column_pairs.settled and across.settled):
        return {direction: own, other: count_one(run, other, by_column, options, readers.get(other, ()))}
    across.finish()
    return {direction: own, other: column_pairs.resolve()}


def prepared(
    run: EmbeddingsRun, side: str, ids: IntArray, options: Options, layout: Layout | None = None
) -> NDArray[np.float32]:
    """Vectors of the ids to multiply: in their order, or at their columns of a layout.

    Raises:
        MissingIds: the run lacks the side or some of the ids.
        MalformedRun: a zero vector, which has no cosine.
    """
    places = places_of(ids, run, side)
    vectors: NDArray[np.float32] = getattr(run, side).vectors
    targets, height = (layout.column, layout.width) if layout else (np.arange(ids.size), ids.size)
    out = np.zeros((height, vectors.shape[1]), dtype=np.float32)

    def part(start: int) -> IntArray:
        own = slice(start, start + ROWS_PREPARED_AT_ONCE)
        return prepare(vectors, options.similarity, places[own], targets[own], out)

    with ThreadPoolExecutor(workers()) as pool:
        nowhere = np.concatenate(list(pool.map(part, range(0, ids.size, ROWS_PREPARED_AT_ONCE))))
    refuse_zero_vectors(run.ids(side)[nowhere], ids.size, side, run.path or "run")
    return out


def _leave_out_self(block: NDArray[np.float32], demand: Demand, layout: Layout, start: int) -> None:
    places, known = positions_of(demand.query_ids[start : start + len(block)], demand.gallery_ids)
    rows = np.flatnonzero(known)
    block[rows, layout.column[places[rows]]] = -np.inf
