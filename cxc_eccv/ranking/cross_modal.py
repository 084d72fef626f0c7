"""Two modalities as rows and columns: one score matrix for both cross-modal directions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.brackets import brackets
from cxc_eccv.ranking.column_pairs import ColumnPairs
from cxc_eccv.ranking.counting import RowPairs
from cxc_eccv.ranking.demand import Demand
from cxc_eccv.ranking.product import Layout
from cxc_eccv.types import IntArray, positions_of

__all__ = ["CrossModal", "with_segments"]


@dataclass(frozen=True, slots=True, eq=False)
class CrossModal:
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
    def of(cls, by_row: Demand, by_column: Demand) -> CrossModal:
        """Place the items of both directions.

        Args:
            by_row: judgments whose queries are rows.
            by_column: judgments whose queries are columns.
        """
        rows, row_segments = with_segments(by_row.query_ids, by_column)
        columns, column_segments = with_segments(by_column.query_ids, by_row)
        order = np.argsort(row_segments, kind="stable")
        layout = Layout.of(np.where(column_segments < 0, by_row.n_segments, column_segments))
        return cls(rows[order], row_segments[order], columns, layout)

    def row_pairs(self, by_row: Demand) -> RowPairs:
        """The positive pairs whose query is a row."""
        rows = positions_of(by_row.query_ids, self.rows)[0][by_row.queries]
        columns = self.layout.column[positions_of(by_row.gallery_ids, self.columns)[0][by_row.items]]
        return RowPairs(rows, columns, self.layout.bounds)

    def column_pairs(self, by_column: Demand, rows: NDArray[np.float32], columns: NDArray[np.float32]) -> ColumnPairs:
        """The positive pairs whose query is a column, with brackets from the vectors of all rows and columns."""
        pair_rows = positions_of(by_column.gallery_ids, self.rows)[0][by_column.items]
        pair_columns = self.layout.column[positions_of(by_column.query_ids, self.columns)[0][by_column.queries]]
        low, high = brackets(rows, columns, pair_rows, pair_columns)
        return ColumnPairs(pair_rows, pair_columns, low, high, by_column.n_segments)


def with_segments(query_ids: IntArray, opposite: Demand) -> tuple[IntArray, IntArray]:
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
