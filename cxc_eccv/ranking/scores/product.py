"""Scores of queries against a gallery, block by block, from one matrix product in which identical vectors tie."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.scores.vectors import first_twins
from cxc_eccv.types import IntArray

__all__ = ["ALIGNMENT", "Layout", "Product", "leave_out", "twins_of"]

ALIGNMENT = 8


@dataclass(frozen=True, eq=False)
class Layout:
    """Gallery items as columns: sorted by segment, each segment padded to a multiple of eight.

    Eight flags are counted as one 64-bit word, which must not straddle segments.

    Attributes:
        column: (N,) column of each gallery item.
        bounds: (S + 1,) first column of each segment, and the width.
    """

    column: IntArray
    bounds: IntArray

    @classmethod
    def of(cls, segments: IntArray) -> Layout:
        """Lay out items by their segment numbers.

        Example:
            >>> layout = Layout.of(np.array([1, 0, 1]))
            >>> layout.column.tolist(), layout.bounds.tolist()
            ([8, 0, 9], [0, 8, 16])
        """
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
        """(width,) the id of each column; of the padding -1.

        Example:
            >>> Layout.of(np.array([0, 0])).spread(np.array([7, 9])).tolist()
            [7, 9, -1, -1, -1, -1, -1, -1]
        """
        spread = np.full(self.width, -1)
        spread[self.column] = ids
        return spread


class Product:
    """The product of row vectors with laid-out gallery vectors.

    Byte-identical columns have identical scores in every row. With ``tie_rows`` byte-identical rows have identical
    scores too, in whatever blocks they stand.

    Args:
        rows: (R, D) float32.
        columns: (width, D) float32, zero in the padding.
        padding: columns that hold no item.
        own: (R,) column of the query itself, which it does not rank, or -1; None where queries are no items.
        tie_rows: whether columns rank rows as well.
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
    """Set the score of every query with itself to minus infinity.

    Args:
        block: (B, width) scores, of which ``start`` is the number of the first row.
        own: (R,) column of each row's own item, or -1; None where queries are no items.
        start: row number.
    """
    if own is not None:
        columns = own[start : start + len(block)]
        rows = np.flatnonzero(columns >= 0)
        block[rows, columns[rows]] = -np.inf


def twins_of(vectors: NDArray[np.float32]) -> tuple[IntArray, IntArray]:
    """Original and copy of every row whose bytes occurred before.

    Example:
        >>> [places.tolist() for places in twins_of(np.array([[1, 2], [3, 4], [1, 2]], dtype=np.float32))]
        [[0], [2]]
    """
    first = first_twins(vectors)
    copies = np.flatnonzero(first != np.arange(first.size))
    return first[copies], copies
