"""Readers of the transposed direction: their queries are columns, and their best items are kept for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.best_of_columns import BestOfColumns
from cxc_eccv.ranking.row_readers import RowReader
from cxc_eccv.types import IntArray, positions_of

__all__ = ["ColumnReaders", "can_read_columns"]

SHARE = 64
QUERIES_AT_ONCE = 1024


def can_read_columns(reader: RowReader) -> bool:
    """Whether a reader looks at so few of its items that those can be kept for it."""
    return reader.deepest is not None and reader.deepest * SHARE <= reader.gallery_ids.size


class ColumnReaders:
    """Lets readers read columns instead of rows.

    Args:
        readers: each one of :func:`can_read_columns`.
        row_ids: (R,) item of each row; all of the readers' items are there.
        column_ids: (M,) queries, all of the readers' among them.
        columns: (M,) column of each.
        width: number of columns; those of no query hold minus infinity.
    """

    def __init__(
        self, readers: Sequence[RowReader], row_ids: IntArray, column_ids: IntArray, columns: IntArray, width: int
    ) -> None:
        galleries: dict[bytes, list[RowReader]] = {}
        for reader in readers:
            galleries.setdefault(reader.gallery_ids.tobytes(), []).append(reader)
        self._column_ids, self._columns = column_ids, columns
        self._groups = []
        for group in galleries.values():
            places, known = positions_of(row_ids, group[0].gallery_ids)
            asked = np.zeros(width, dtype=bool)
            for reader in group:
                asked[self._columns_of(reader)] = True
            depth = max(reader.deepest or 0 for reader in group)
            self._groups.append((group, np.where(known, places, -1), BestOfColumns(depth, asked)))

    def read(self, block: NDArray[np.float32], start: int) -> None:
        """Read a block of rows, of which ``start`` is the first; blocks may come in any order, several at once."""
        for _, items, best in self._groups:
            own = items[start : start + len(block)]
            inside = own >= 0
            if inside.any():
                best.read(block if inside.all() else block[inside], own[inside])

    @property
    def settled(self) -> bool:
        """False when scores are too much alike for this; the readers have read nothing then."""
        return all(best.settled for _, _, best in self._groups)

    def finish(self) -> None:
        """Hand out the best items, after the last block.

        Raises:
            RunTooShallow: a query ranks too few items.
        """
        for readers, _, best in self._groups:
            scores, items = best.lists()
            for reader in readers:
                columns = self._columns_of(reader)
                for start in range(0, columns.size, QUERIES_AT_ONCE):
                    own = columns[start : start + QUERIES_AT_ONCE]
                    reader.take(np.arange(start, start + own.size), scores[own], items[own])

    def _columns_of(self, reader: RowReader) -> IntArray:
        return self._columns[positions_of(reader.query_ids, self._column_ids)[0]]
