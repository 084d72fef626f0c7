"""The best items of every query, read off whole rows of the score matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.readers.reader import OwnRows, refuse_shallow
from cxc_eccv.ranking.readers.thresholds import best_candidates, score_at_depth
from cxc_eccv.ranking.tie_rule import order_of_gains
from cxc_eccv.types import IntArray, Judgments, TopK, check_whole, positions_of

__all__ = ["TopRows"]


class TopRows:
    """Reads the top K of every query under the pessimistic order.

    Scores go down. Of items with equal scores judged ones without gain stand first, then those that were not judged,
    then the others from the lowest gain; equal ones among these by id. So the order depends neither on the place of an
    item in the gallery nor on the size of the blocks.

    Args:
        judgments: the queries, the gallery, and the gains that order ties; without gains the positives stand last.
        depth: K, at least 1.

    Raises:
        InvalidOption: K is not a whole number of at least 1.
    """

    ended = False

    def __init__(self, judgments: Judgments, depth: int) -> None:
        check_whole("the top k of a ranking: k", depth)
        self.query_ids, self.gallery_ids = judgments.query_ids, judgments.gallery_ids
        self.without_self = judgments.without_self
        in_own_gallery = positions_of(self.query_ids, self.gallery_ids)[1] if self.without_self else np.zeros(1, bool)
        self.depth = min(depth, self.gallery_ids.size - int(in_own_gallery.any()))
        self.deepest: int | None = self.depth
        size = self.gallery_ids.size
        self._judged = judgments.rows * size + judgments.indices  # ascending
        gains = np.ones(self._judged.size) if judgments.gains is None else judgments.gains
        self._codes, self._unjudged = order_of_gains(gains)
        self._order_of_ids = np.argsort(np.argsort(self.gallery_ids))
        shape = self.query_ids.size, self.depth
        self._ids = np.zeros(shape, dtype=np.int64)
        self._scores = np.zeros(shape)  # scores of a matrix may be float64, which tie in float32
        self._cut = np.zeros(self.query_ids.size, dtype=np.int64)

    def attach(self, row_ids: IntArray, item_ids: IntArray, columns: IntArray, width: int) -> None:
        """Learn the layout, see :meth:`cxc_eccv.ranking.readers.reader.RowReader.attach`."""
        self._own = OwnRows(self.query_ids, self.gallery_ids, row_ids, item_ids, columns, width)

    def read(self, block: NDArray[Any], start: int) -> None:
        """Read a block of rows, of which ``start`` is the first.

        Raises:
            RunTooShallow: a row holds too few items.
        """
        for queries, scores in self._own.strips(block, start):
            best, columns = best_candidates(scores, self.depth)
            self.take(queries, best, self._own.items[columns])

    def take(self, queries: IntArray, scores: NDArray[Any], items: IntArray) -> None:
        """Read the best items of queries, see :meth:`cxc_eccv.ranking.readers.reader.RowReader.take`.

        Raises:
            RunTooShallow: a query has too few items.
        """
        depths = np.full(queries.size, self.depth)
        lowest = score_at_depth(scores, self.depth)
        refuse_shallow(self.query_ids[queries], scores, lowest, depths, self.reason)
        found = np.flatnonzero(scores >= lowest[:, None])
        self._keep(queries, lowest, found // scores.shape[1], items.ravel()[found], scores.ravel()[found])

    @property
    def needs(self) -> IntArray:
        """(Q,) items that a ranking must hold."""
        return np.full(self.query_ids.size, self.depth)

    @property
    def reason(self) -> str:
        """Why so many."""
        return f"for its top {self.depth}"

    @property
    def result(self) -> TopK:
        """The best items, after all blocks were read."""
        return TopK(self.query_ids, self._ids, self._scores, self._cut)

    def _keep(
        self, queries: IntArray, lowest: NDArray[Any], rows: IntArray, items: IntArray, scores: NDArray[Any]
    ) -> None:
        """Store the best of the candidates, which score at least as high as the last of the top K."""
        keys, kept = self._tie_keys(queries[rows], items), np.ones(rows.size, dtype=bool)
        counts = np.bincount(rows, minlength=queries.size)
        self._cut[queries] = counts - self.depth
        for row in np.flatnonzero(counts > self.depth).tolist():
            own = np.arange(*np.searchsorted(rows, [row, row + 1]))
            tied = own[scores[own] == lowest[row]]
            room = self.depth - (own.size - tied.size)
            kept[tied[np.argpartition(keys[tied], room)[room:]]] = False
        rows, items, keys, scores = rows[kept], items[kept], keys[kept], scores[kept]
        order = np.lexsort((keys, -scores, rows))
        shape = queries.size, self.depth
        self._ids[queries] = self.gallery_ids[items[order]].reshape(shape)
        self._scores[queries] = scores[order].reshape(shape)

    def _tie_keys(self, queries: IntArray, items: IntArray) -> IntArray:
        """(P,) whole numbers that order items of equal scores."""
        size = self.gallery_ids.size
        pairs = queries * size + items
        places = np.minimum(np.searchsorted(self._judged, pairs), self._judged.size - 1)
        codes = np.where(self._judged[places] == pairs, self._codes[places], self._unjudged)
        return np.asarray(codes * size + self._order_of_ids[items])
