"""A reader of whole orders: where the score of every item stands among those of its row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.readers.rows import RowReader, refuse_shallow
from cxc_eccv.types import IntArray


class LevelRows(RowReader):
    """Reads the level of every item's score for every query: 0 for the lowest, and the same for equal scores."""

    reason = "for the order of the whole gallery"

    def __init__(self, query_ids: IntArray, gallery_ids: IntArray) -> None:
        super().__init__(query_ids, gallery_ids)
        self.deepest = gallery_ids.size
        self._levels = np.zeros((query_ids.size, gallery_ids.size), dtype=np.int32)

    def _read(self, block: NDArray[Any], start: int) -> None:
        columns = np.empty(self.gallery_ids.size, dtype=np.int64)
        is_item = np.flatnonzero(self._own.items >= 0)
        columns[self._own.items[is_item]] = is_item
        for queries, scores in self._own.strips(block, start, blank=False):
            self._levels[queries] = _find_levels(scores[:, columns])

    def _take(self, queries: IntArray, scores: NDArray[Any], items: IntArray) -> None:
        refuse_shallow(self.query_ids[queries], scores, scores.min(axis=1), self.needs[queries], self.reason)
        by_item = np.empty_like(scores)
        np.put_along_axis(by_item, items, scores, axis=1)
        self._levels[queries] = _find_levels(by_item)

    @property
    def needs(self) -> IntArray:
        """(Q,) the size of the gallery."""
        return np.full(self.query_ids.size, self.gallery_ids.size)

    @property
    def result(self) -> NDArray[np.int32]:
        """(Q, N) levels, after all blocks."""
        self._refuse_too_short()
        return self._levels


def _find_levels(scores: NDArray[Any]) -> NDArray[np.int32]:
    """(B, N) number of distinct lower scores in the row of each."""
    order = np.argsort(scores, axis=1)
    ascending = np.take_along_axis(scores, order, axis=1)
    steps = np.zeros(scores.shape, dtype=np.int32)
    steps[:, 1:] = ascending[:, 1:] != ascending[:, :-1]
    levels = np.empty_like(steps)
    np.put_along_axis(levels, order, np.cumsum(steps, axis=1, dtype=np.int32), axis=1)
    return levels
