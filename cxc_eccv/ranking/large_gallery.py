"""Ranks in a gallery too large to copy: counted tile by tile and shard by shard, and added."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from cxc_eccv.errors import MissingIds, UnknownName
from cxc_eccv.ranking.assembly import ranks_of_part
from cxc_eccv.ranking.blocks import workers
from cxc_eccv.ranking.brackets import refuse_extremes
from cxc_eccv.ranking.counting import Counts
from cxc_eccv.ranking.demand import Demand
from cxc_eccv.ranking.gallery_tiles import Positives, tile_of
from cxc_eccv.ranking.kernels import row_counts
from cxc_eccv.ranking.shard_counts import ShardCounts
from cxc_eccv.ranking.vectors import SIMILARITIES, prepare, refuse_zero_vectors
from cxc_eccv.types import Embeddings, IntArray, Judgments, PositiveRanks, positions_of

__all__ = ["LargeGallery"]

ROWS_AT_ONCE = 512
TILE_WIDTH = 8192


class LargeGallery:
    """Exact ranks of all positives without the gallery in memory.

    Every item's score comes from one product. Positives, and items with the bytes of a positive, are scored in a small
    product of their own, so that a positive ties with its twins wherever these stand; all other items are scored in
    their tile. Memory holds the queries, Q x R scores for R distinct positives, and two tiles of about 25 MB per
    thread. With folds, items of another fold than the query's do not compete.

    Args:
        queries: vectors of the queries.
        judgments: positives of every query.
        positives: vectors of the items that are a positive of some query; further ones are ignored.
        similarity: ``cosine`` or ``dot``.

    Raises:
        MissingIds: a query or a positive has no vector.
        MalformedRun: a vector is zero, which has no cosine.
        UnknownName: no such similarity.

    Example:
        >>> ids, vectors = np.array([7, 8, 9]), np.array([[3, 4], [4, 3], [3, 4]], dtype=np.float16)
        >>> qrels = Judgments.from_pairs([1], ids, [1], [7])
        >>> gallery = LargeGallery(Embeddings([1], [[1, 0]]), qrels, Embeddings(ids[:1], vectors[:1]))
        >>> counts = gallery.count(ids[:2], vectors[:2]) + gallery.count(ids[2:], vectors[2:])
        >>> gallery.ranks(counts).ranks.tolist()
        [3]
    """

    def __init__(
        self, queries: Embeddings, judgments: Judgments, positives: Embeddings, *, similarity: str = "cosine"
    ) -> None:
        if similarity not in SIMILARITIES:
            raise UnknownName("similarity", similarity, SIMILARITIES)
        self._similarity = similarity
        self._demand = Demand.of({"": judgments})
        items, pair_items = np.unique(self._demand.items, return_inverse=True)
        self._positives = Positives(self._vectors(positives, self._demand.gallery_ids[items], "positives"))
        rows = self._vectors(queries, self._demand.query_ids, "queries")
        scores = rows @ self._positives.distinct.T
        self._pair_scores = scores[self._demand.queries, self._positives.of_item[pair_items]]
        self._rows, self._scores = rows, scores
        self._competes = self._demand.parts[""].competes

    def count(self, ids: IntArray, vectors: NDArray[Any]) -> ShardCounts:
        """Count a shard of the gallery.

        Args:
            ids: (C,) gallery ids.
            vectors: (C, D) of any floating type, in memory or memory-mapped; read tile by tile, never copied whole.

        Raises:
            DataError: an id that is not of the gallery, or occurs twice.
            MalformedRun: other shapes, NaN, infinite values, values too large or too small for float32, or a zero
                vector, which has no cosine.
        """
        covered = ShardCounts.coverage(ids, vectors, self._demand.gallery_ids, self._rows.shape[1])
        segments = self._demand.segments[positions_of(ids, self._demand.gallery_ids)[0]]
        starts, totals = range(0, ids.size, TILE_WIDTH), self._zeros()
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(workers()) as pool:
            for counts in pool.map(lambda start: self._tile(ids, vectors, segments, start), starts):
                totals += counts
        return ShardCounts(totals[0], totals[1], covered)

    def ranks(self, counts: ShardCounts) -> PositiveRanks:
        """Ranks, once the shards that were counted make up the gallery.

        Raises:
            MissingIds: some of the gallery was not counted.
        """
        counts.refuse_gaps(self._demand.gallery_ids)
        of_item = self._demand.segments[self._demand.items][:, None]
        own = of_item == np.arange(self._demand.n_segments)
        at_least, above = (np.where(own, column[:, None], 0) for column in (counts.at_least, counts.above))
        return ranks_of_part(self._demand, self._demand.parts[""], Counts(self._pair_scores, at_least, above))

    def _vectors(self, embeddings: Embeddings, ids: IntArray, kind: str) -> NDArray[np.float32]:
        places, known = positions_of(ids, embeddings.ids)
        if not known.all():
            raise MissingIds(
                f"{np.count_nonzero(~known)} of {ids.size} {kind} have no vector, the first: {ids[~known][0]}. "
                "Encode these items too."
            )
        out = np.empty((ids.size, embeddings.vectors.shape[1]), dtype=np.float32)
        nowhere = prepare(embeddings.vectors, self._similarity, places, np.arange(ids.size), out)
        refuse_zero_vectors(embeddings.ids[nowhere], ids.size, kind)
        return out

    def _tile(self, ids: IntArray, vectors: NDArray[Any], segments: IntArray, start: int) -> IntArray:
        own = slice(start, start + TILE_WIDTH)
        tile = tile_of(ids[own], vectors[own], self._similarity, self._positives)
        if self._similarity == "dot":
            refuse_extremes(self._rows, tile.vectors[: ids[own].size], self._demand.query_ids, ids[own])
        counts = self._zeros()
        out = np.empty((ROWS_AT_ONCE, len(tile.vectors)), dtype=np.float32)
        for first in range(0, len(self._rows), ROWS_AT_ONCE):
            rows = self._rows[first : first + ROWS_AT_ONCE]
            block = np.matmul(rows, tile.vectors.T, out=out[: len(rows)])
            block[:, tile.twins] = self._scores[first : first + len(rows)][:, tile.places]
            block[:, tile.padding] = -np.inf
            self._leave_out_other_folds(block, segments[own], first)
            if self._demand.without_self:
                self._leave_out_self(block, ids[own], first)
            pairs = slice(*np.searchsorted(self._demand.queries, [first, first + len(block)]).tolist())
            own_scores, whole = self._pair_scores[pairs], np.array([0, block.shape[1]])
            found = row_counts(block, self._demand.queries[pairs] - first, own_scores, own_scores, whole)
            counts[:, pairs] += found.low[:, 0], found.high[:, 0]
        return counts

    def _zeros(self) -> IntArray:
        """(2, P) no items at least as high as each positive, and none above."""
        return np.zeros((2, self._pair_scores.size), dtype=np.int64)

    def _leave_out_other_folds(self, block: NDArray[np.float32], segments: IntArray, first: int) -> None:
        if self._demand.n_segments > 1:
            competes = self._competes[first : first + len(block)]
            np.copyto(block[:, : segments.size], -np.inf, where=~competes[:, segments])

    def _leave_out_self(self, block: NDArray[np.float32], ids: IntArray, first: int) -> None:
        query_ids = self._demand.query_ids[first : first + len(block)]
        columns, known = positions_of(query_ids, ids)
        block[np.flatnonzero(known), columns[known]] = -np.inf
