"""Scores that somebody else computed: a matrix, or any scorer that yields rows of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedRun
from cxc_eccv.ranking.scores.product import Layout, leave_out
from cxc_eccv.types import IntArray

__all__ = ["GivenScores", "ScoreRows"]

ScoreRows = Callable[[IntArray], NDArray[Any]]


class GivenScores:
    """The rows of a score matrix, laid out as columns by segment.

    Args:
        score_rows: positions of queries to their (rows, N) scores, float32 or float64.
        query_ids: (R,) ids of the rows, for messages.
        rows: (R,) position that the scorer knows each row by.
        items: (M,) column of the scorer that holds each gallery item.
        layout: (M,) items laid out.
        own: as in :class:`cxc_eccv.ranking.scores.product.Product`.
    """

    def __init__(
        self,
        score_rows: ScoreRows,
        query_ids: IntArray,
        rows: IntArray,
        items: IntArray,
        layout: Layout,
        own: IntArray | None,
    ) -> None:
        self.height, self.width = rows.size, layout.width
        self._score_rows, self._query_ids, self._rows, self._items = score_rows, query_ids, rows, items
        self._layout, self._own = layout, own

    def room(self, _size: int) -> None:
        """None: blocks are of the scorer's own type."""

    def fill(self, start: int, stop: int, _room: None) -> NDArray[Any]:
        """Scores of rows ``start`` to ``stop``.

        Raises:
            MalformedRun: a score is NaN or infinite.
        """
        scores = self._score_rows(self._rows[start:stop])
        if not np.isfinite(scores).all():
            raise MalformedRun(
                f"scores of queries {self._query_ids[start:stop][:3].tolist()}... hold NaN or infinite values"
            )
        block = np.full((len(scores), self.width), -np.inf, dtype=scores.dtype)
        block[:, self._layout.column] = scores[:, self._items]
        leave_out(block, self._own, start)
        return block
