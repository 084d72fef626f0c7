"""Both cross-modal directions of one product: one modality is rows, the other columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Event
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.by_row import count_by_row
from cxc_eccv.ranking.counts import Counts, ScoresTooAlike
from cxc_eccv.ranking.merged_judgments import MergedJudgments
from cxc_eccv.ranking.readers import ColumnPairs, ColumnReaders, RowPairs, RowReader, brackets
from cxc_eccv.ranking.scan import Options, scan
from cxc_eccv.ranking.scores import Layout, Product, prepare_side, refuse_extremes
from cxc_eccv.runs.embeddings import EmbeddingsRun
from cxc_eccv.runs.run import sides_of
from cxc_eccv.types import IntArray, positions_of

__all__ = ["count_both", "with_segments"]


def count_both(
    run: EmbeddingsRun,
    merged: Mapping[str, MergedJudgments],
    options: Options,
    readers: Mapping[str, Sequence[RowReader]] = MappingProxyType({}),
) -> dict[str, Counts]:
    """Count both cross-modal directions with one product.

    Where scores are too much alike to settle the direction whose queries are columns, it gets its own product.

    Args:
        run: vectors of both modalities.
        merged: the direction whose queries are rows, then the other one.
        options: of the pass.
        readers: direction to what else reads its scores; those of the second direction by
            :func:`cxc_eccv.ranking.readers.top_columns.can_read_columns`.

    Raises:
        MissingIds: the run lacks queries or gallery items.
    """
    (direction, by_row), (other, by_column) = merged.items()
    sides = _Sides.of(by_row, by_column)
    row_side, column_side = sides_of(direction)
    rows = prepare_side(run, row_side, sides.rows, options.similarity)
    columns = prepare_side(run, column_side, sides.columns, options.similarity, sides.layout.column, sides.layout.width)
    if options.similarity == "dot":
        refuse_extremes(rows, columns, sides.rows, sides.layout.spread(sides.columns))
    row_pairs, column_pairs = sides.row_pairs(by_row), sides.column_pairs(by_column, rows, columns)
    across = sides.column_readers(readers.get(other, ()), rows, columns)
    along = readers.get(direction, ())
    for reader in along:
        reader.attach(sides.rows, sides.columns, sides.layout.column, sides.layout.width)
    too_alike = Event()
    if across is None:
        too_alike.set()

    def read(block: NDArray[np.float32], start: int) -> None:
        row_pairs.read(block, start)
        for reader in along:
            reader.read(block, start)
        if across is not None and not too_alike.is_set():
            try:
                column_pairs.read(block, start, sides.row_segments[start : start + len(block)])
                across.read(block, start)
            except ScoresTooAlike:
                too_alike.set()

    product = Product(rows, columns, sides.layout.padding, tie_rows=True)
    scan(product, read, options, f"{direction} and {other}")
    counts, kept = row_pairs.result, by_row.n_segments
    own = Counts(counts.scores, counts.at_least[:, :kept], counts.above[:, :kept])
    try:
        if across is None or too_alike.is_set():
            raise ScoresTooAlike
        across.finish()
        return {direction: own, other: column_pairs.resolve()}
    except ScoresTooAlike:
        return {direction: own, other: count_by_row(run, other, by_column, options, readers.get(other, ()))}


@dataclass(frozen=True, slots=True, eq=False)
class _Sides:
    """Which items are rows and which are columns, and where the pairs of both directions stand.

    Attributes:
        rows: (R,) ids of one modality in row order.
        row_segments: (R,) ascending; -1 where a row is in no gallery.
        columns: (N,) ids of the other modality.
        layout: places of the columns; those in no gallery stand in a further segment at the end.
    """

    rows: IntArray
    row_segments: IntArray
    columns: IntArray
    layout: Layout

    @classmethod
    def of(cls, by_row: MergedJudgments, by_column: MergedJudgments) -> _Sides:
        rows, row_segments = with_segments(by_row.query_ids, by_column)
        columns, column_segments = with_segments(by_column.query_ids, by_row)
        # Columns of as many pairs stand side by side, where these are counted together.
        n_pairs = np.bincount(by_column.queries, minlength=by_column.query_ids.size)
        alike = np.argsort(-n_pairs[positions_of(columns, by_column.query_ids)[0]], kind="stable")
        columns, column_segments = columns[alike], column_segments[alike]
        order = np.argsort(row_segments, kind="stable")
        layout = Layout.of(np.where(column_segments < 0, by_row.n_segments, column_segments))
        return cls(rows[order], row_segments[order], columns, layout)

    def row_pairs(self, by_row: MergedJudgments) -> RowPairs:
        """The positive pairs whose query is a row."""
        rows = positions_of(by_row.query_ids, self.rows)[0][by_row.queries]
        columns = self.layout.column[positions_of(by_row.gallery_ids, self.columns)[0][by_row.items]]
        return RowPairs(rows, columns, self.layout.bounds)

    def column_pairs(
        self, by_column: MergedJudgments, rows: NDArray[np.float32], columns: NDArray[np.float32]
    ) -> ColumnPairs:
        """The positive pairs whose query is a column, with brackets from the vectors of all rows and columns."""
        pair_rows = positions_of(by_column.gallery_ids, self.rows)[0][by_column.items]
        pair_columns = self.layout.column[positions_of(by_column.query_ids, self.columns)[0][by_column.queries]]
        low, high = brackets(rows, columns, pair_rows, pair_columns)
        return ColumnPairs(pair_rows, pair_columns, low, high, by_column.n_segments)

    def column_readers(
        self, readers: Sequence[RowReader], rows: NDArray[np.float32], columns: NDArray[np.float32]
    ) -> ColumnReaders | None:
        """What lets readers read columns; None where they look at more than can be kept for them."""
        layout = self.layout
        try:
            return ColumnReaders(
                readers,
                self.rows,
                self.columns,
                layout.column,
                layout.width,
                lambda chosen: rows[chosen] @ columns.T,
            )
        except ScoresTooAlike:
            return None


def with_segments(query_ids: IntArray, opposite: MergedJudgments) -> tuple[IntArray, IntArray]:
    """All ids of a modality, queries and gallery, with their gallery segments or -1.

    Args:
        query_ids: (Q,) queries that belong to the modality.
        opposite: judgments whose gallery is of the modality.
    """
    ids = opposite.gallery_ids
    if not np.array_equal(query_ids, ids):
        ids = np.union1d(query_ids, ids)
    places, known = positions_of(ids, opposite.gallery_ids)
    return ids, np.where(known, opposite.segments[places], -1)
