"""A pass over half of the score matrix of one modality."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.by_row import count_by_row
from cxc_eccv.ranking.counts import Counts, ScoresTooAlike
from cxc_eccv.ranking.kernels import row_counts
from cxc_eccv.ranking.merged_judgments import MergedJudgments
from cxc_eccv.ranking.readers import ColumnPairs, RowReader, brackets
from cxc_eccv.ranking.scan import BLOCK_BYTES, Options, scan
from cxc_eccv.ranking.scores import HalfProduct, Layout, left_edge, prepare_side, refuse_extremes
from cxc_eccv.ranking.shared_product.cross_modal import with_segments
from cxc_eccv.runs.embeddings import EmbeddingsRun
from cxc_eccv.runs.run import sides_of
from cxc_eccv.types import IntArray, positions_of

__all__ = ["MutualPairs", "count_within"]

WORTHWHILE = 0.6


def count_within(
    run: EmbeddingsRun, direction: str, merged: MergedJudgments, options: Options, readers: Sequence[RowReader] = ()
) -> Counts:
    """Count text-text or image-image with half a product where that suffices, else with a whole one.

    A whole one is needed by readers of whole rows, by few queries on a large gallery, and where scores are too much
    alike.

    Raises:
        MissingIds: the run lacks queries or gallery items.
    """
    ids, segments = with_segments(merged.query_ids, merged)
    asked = merged.query_ids.size * merged.gallery_ids.size
    if not readers and WORTHWHILE * ids.size**2 <= asked:
        try:
            return _count_half(run, direction, merged, options, ids, segments)
        except ScoresTooAlike:
            pass
    return count_by_row(run, direction, merged, options, readers)


def _count_half(
    run: EmbeddingsRun,
    direction: str,
    merged: MergedJudgments,
    options: Options,
    ids: IntArray,
    segments: IntArray,
) -> Counts:
    order = _positives_together(merged, ids)
    ids, segments = ids[order], segments[order]
    layout = Layout.of(np.where(segments < 0, merged.n_segments, segments))
    vectors = prepare_side(run, sides_of(direction)[0], ids, options.similarity, layout.column, layout.width)
    if options.similarity == "dot":
        refuse_extremes(vectors, vectors, layout.spread(ids), layout.spread(ids))
    half = HalfProduct(vectors, layout.padding, without_self=merged.without_self, shared_bytes=BLOCK_BYTES)
    pairs = _mutual_pairs(merged, ids, segments, layout, vectors)
    scan(half, pairs.read, options, direction, backwards=True)
    return pairs.resolve()


def _positives_together(merged: MergedJudgments, ids: IntArray) -> IntArray:
    """(N,) order in which positives mostly stand in one block of rows: their score is known when they are counted."""
    queries = positions_of(merged.query_ids, ids)[0][merged.queries]
    items = positions_of(merged.gallery_ids, ids)[0][merged.items]
    first = np.arange(ids.size)
    np.minimum.at(first, queries, items)
    return np.argsort(first, kind="stable")


def _mutual_pairs(
    merged: MergedJudgments, ids: IntArray, segments: IntArray, layout: Layout, vectors: NDArray[np.float32]
) -> MutualPairs:
    queries = layout.column[positions_of(merged.query_ids, ids)[0][merged.queries]]
    items = layout.column[positions_of(merged.gallery_ids, ids)[0][merged.items]]
    # Most pairs are positive in both orders, and one bracket holds for both.
    pairs, occurrence = np.unique(
        np.minimum(queries, items) * layout.width + np.maximum(queries, items), return_inverse=True
    )
    low, high = brackets(vectors, vectors, *np.divmod(pairs, layout.width))
    by_place = layout.spread(segments)
    return MutualPairs(queries, items, low[occurrence], high[occurrence], layout, by_place, merged.n_segments)


class MutualPairs:
    """Positive pairs whose query and item both stand in one layout.

    A query meets the items above it as a column of their rows, and all others in its own row; so does its positive.
    Where the positive's score is not among those at hand, its bracket stands for it, see :class:`ColumnPairs`.

    Args:
        queries, items: (P,) places of each pair.
        low, high: (P,) bracket of each pair's score.
        layout: of the items.
        segments: (width,) segment of the item in each place; negative where it is in nobody's gallery.
        n_segments: S.
    """

    def __init__(
        self,
        queries: IntArray,
        items: IntArray,
        low: NDArray[np.float32],
        high: NDArray[np.float32],
        layout: Layout,
        segments: IntArray,
        n_segments: int,
    ) -> None:
        self._order = np.argsort(queries, kind="stable")
        self._queries, self._items = queries[self._order], items[self._order]
        self._low, self._high = low[self._order], high[self._order]
        self._bounds, self._segments = layout.bounds, segments
        self._columns = ColumnPairs(self._items, self._queries, self._low, self._high, n_segments)
        self._rows = Counts.zeros(queries.size, layout.bounds.size - 1)

    def read(self, block: NDArray[np.float32], start: int) -> None:
        """Count a block of :class:`HalfProduct`, of which ``start`` is the first row; blocks may come in any order.

        Raises:
            ScoresTooAlike: for brackets to settle anything.
        """
        stop, left = start + len(block), left_edge(start)
        self._columns.read(block[:, stop - left :], start, self._segments[start:stop], left=stop)
        self._count(block, start, slice(*np.searchsorted(self._queries, [start, stop]).tolist()))

    def resolve(self) -> Counts:
        """Exact counts, in the order in which the pairs were given, after the last block."""
        back = np.empty_like(self._order)
        back[self._order] = np.arange(back.size)
        above = self._columns.resolve()
        n_segments = above.above.shape[1]
        return Counts(
            above.scores[back],
            (above.at_least + self._rows.at_least[:, :n_segments])[back],
            (above.above + self._rows.above[:, :n_segments])[back],
        )

    def _count(self, block: NDArray[np.float32], start: int, pairs: slice) -> None:
        """Count the rows of pairs: against the pair's own score where the block holds it, else against its bracket."""
        rows, left = self._queries[pairs] - start, left_edge(start)
        known = self._items[pairs] >= start
        scores = block[rows, np.where(known, self._items[pairs] - left, 0)]
        low, high = np.where(known, scores, self._low[pairs]), np.where(known, scores, self._high[pairs])
        first = int(np.searchsorted(self._bounds, left, side="right")) - 1
        found = row_counts(block, rows, low, high, np.maximum(self._bounds[first:] - left, 0))
        own = np.arange(pairs.start, pairs.stop)
        self._columns.record(own[known], scores[known])
        if not found.complete:
            raise ScoresTooAlike
        self._rows.above[pairs, first:] = found.above
        self._rows.at_least[pairs, first:] = np.where(known[:, None], found.at_least, found.above)
        self._columns.keep(self._segments[left + found.places], own[found.pairs], found.scores)
