"""Ranks in a gallery too large to copy: counts are made tile by tile and shard by shard, and added."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, MalformedRun, MissingIds, UnknownName
from cxc_eccv.kernels import row_counts
from cxc_eccv.ranking.counts import Counts, MergedJudgments
from cxc_eccv.ranking.scores import (
    ALIGNMENT,
    ROWS_PREPARED_AT_ONCE,
    find_leaders,
    one_blas_thread,
    prepare,
    refuse_extremes,
    refuse_zero_vectors,
    workers,
)
from cxc_eccv.ranking.ties import rank_positives
from cxc_eccv.runs.run import SIMILARITIES
from cxc_eccv.types import Embeddings, IntArray, Judgments, PositiveRanks, find_positions
from cxc_eccv.types.ids import check_vector_type

TILE_ROWS_AT_ONCE = 512
TILE_WIDTH = 8192


class LargeGallery:
    """Exact ranks of all positives without the gallery in memory.

    Positives, and items with the same bytes as a positive, are scored in a separate small product, so that a positive
    ties with its twins in any shard; other items are scored in their tile. Memory holds the queries, Q x R scores for R
    distinct positives, and per thread two tiles of about 25 MB and the positives. With folds, queries rank only items
    of their fold.

    Args:
        queries: vectors of the queries.
        judgments: positives of every query.
        positives: vectors of all positives; vectors of other items are ignored.
        similarity: ``cosine`` or ``dot``.

    Raises:
        MissingIds: a query or a positive has no vector.
        MalformedRun: a vector is zero under ``cosine``, or dot products exceed float32.
        UnknownName: the similarity is unknown.

    Example:
        >>> ids, vectors = np.array([7, 8, 9]), np.array([[3, 4], [4, 3], [3, 4]], dtype=np.float16)
        >>> qrels = Judgments.from_pairs([1], ids, [1], [7])
        >>> gallery = LargeGallery(Embeddings([1], [[1.0, 0.0]]), qrels, Embeddings(ids[:1], vectors[:1]))
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
        self._merged = MergedJudgments.of({"": judgments})
        items, pair_items = np.unique(self._merged.items, return_inverse=True)
        item_ids = self._merged.gallery_ids[items]
        columns = self._prepare(positives, item_ids, "positives")
        rows = self._prepare(queries, self._merged.query_ids, "queries")
        refuse_extremes(similarity, rows, columns, self._merged.query_ids, item_ids)
        leaders, of_item = np.unique(find_leaders(columns), return_inverse=True)
        self._rows = rows
        self._distinct = np.ascontiguousarray(columns[leaders])
        self._scores = rows @ self._distinct.T
        self._pair_scores = self._scores[self._merged.queries, of_item[pair_items]]

    def count(self, ids: IntArray, vectors: NDArray[Any]) -> ShardCounts:
        """Count a shard of the gallery.

        Args:
            ids: (C,) gallery ids.
            vectors: (C, D) float16, float32 or float64, in memory or memory-mapped; read tile by tile.

        Raises:
            DataError: an id is not in the gallery, or occurs twice.
            MalformedRun: wrong shapes or types, NaN or infinite values, values too large or too small for float32, or a
                zero vector under ``cosine``.
        """
        covered = self._cover(ids, vectors)
        segments = self._merged.segments[find_positions(ids, self._merged.gallery_ids)[0]]
        starts = range(0, ids.size, TILE_WIDTH)
        totals = np.zeros((2, self._pair_scores.size), dtype=np.int64)
        with one_blas_thread(), ThreadPoolExecutor(workers()) as pool:
            for counts in pool.map(lambda start: self._count_tile(ids, vectors, segments, start), starts):
                totals += counts
        return ShardCounts(totals[0], totals[1], covered)

    def ranks(self, counts: ShardCounts) -> PositiveRanks:
        """Ranks from the counts of all shards; raises MissingIds unless these cover the gallery."""
        covered = np.unpackbits(counts.covered, count=self._merged.gallery_ids.size).astype(bool)
        if not covered.all():
            raise MissingIds(
                f"{np.count_nonzero(~covered)} of {covered.size} gallery items are in no shard, the first: "
                f"{self._merged.gallery_ids[~covered][0]}. Count the remaining shards and add them."
            )
        segments = self._merged.segments[self._merged.items][:, None]
        in_segment = segments == np.arange(self._merged.n_segments)
        at_least, above = (np.where(in_segment, column[:, None], 0) for column in (counts.at_least, counts.above))
        return rank_positives(self._merged.shares[""], Counts(self._pair_scores, at_least, above))

    def _cover(self, ids: IntArray, vectors: NDArray[Any]) -> NDArray[np.uint8]:
        """Which gallery items a shard holds, eight per byte."""
        gallery_ids = self._merged.gallery_ids
        width = self._rows.shape[1]
        check_vector_type("a shard's vectors", vectors.dtype)
        if vectors.shape != (ids.size, width):
            raise MalformedRun(
                f"a shard of {ids.size} ids has vectors of shape {vectors.shape}; need {(ids.size, width)}"
            )
        indices, present = find_positions(ids, gallery_ids)
        if not present.all():
            raise DataError(
                f"the shard has {np.count_nonzero(~present)} items outside the gallery, the first: {ids[~present][0]}"
            )
        covered = np.zeros(gallery_ids.size, dtype=bool)
        covered[indices] = True
        if np.count_nonzero(covered) != ids.size:
            raise DataError("the shard repeats an id; every item must be counted once")
        return np.packbits(covered)

    def _prepare(self, embeddings: Embeddings, ids: IntArray, kind: str) -> NDArray[np.float32]:
        indices, present = find_positions(ids, embeddings.ids)
        if not present.all():
            raise MissingIds(
                f"{np.count_nonzero(~present)} of {ids.size} {kind} have no vector, the first: {ids[~present][0]}. "
                "Encode these items too."
            )
        out = np.empty((ids.size, embeddings.vectors.shape[1]), dtype=np.float32)
        zero = prepare(embeddings.vectors, self._similarity, indices, np.arange(ids.size), out)
        refuse_zero_vectors(embeddings.ids[zero], ids.size, kind)
        return out

    def _count_tile(self, ids: IntArray, vectors: NDArray[Any], segments: IntArray, left: int) -> IntArray:
        """(2, P) items of a tile at least as high as each positive, and above it."""
        part = slice(left, left + TILE_WIDTH)
        ids = ids[part]
        segments = segments[part]
        tile = _prepare_tile(ids, vectors[part], self._similarity)
        refuse_extremes(self._similarity, self._rows, tile[: ids.size], self._merged.query_ids, ids)
        first = find_leaders(np.concatenate([self._distinct, tile[: ids.size]]))[len(self._distinct) :]
        twins = np.flatnonzero(first < len(self._distinct))
        counts = np.zeros((2, self._pair_scores.size), dtype=np.int64)
        whole = np.array([0, len(tile)])
        room = np.empty((TILE_ROWS_AT_ONCE, len(tile)), dtype=np.float32)
        for start in range(0, len(self._rows), TILE_ROWS_AT_ONCE):
            rows = slice(start, min(start + TILE_ROWS_AT_ONCE, len(self._rows)))
            block = np.matmul(self._rows[rows], tile.T, out=room[: rows.stop - start])
            block[:, twins] = self._scores[rows][:, first[twins]]
            block[:, ids.size :] = -np.inf
            if self._merged.n_segments > 1:
                np.copyto(block[:, : ids.size], -np.inf, where=~self._merged.shares[""].competes[rows][:, segments])
            if self._merged.without_self:
                columns, present = find_positions(self._merged.query_ids[rows], ids)
                block[np.flatnonzero(present), columns[present]] = -np.inf
            pairs = slice(*np.searchsorted(self._merged.queries, [start, rows.stop]).tolist())
            scores = self._pair_scores[pairs]
            reached = row_counts(block, self._merged.queries[pairs] - start, scores, scores, whole)
            counts[:, pairs] += reached.at_least[:, 0], reached.above[:, 0]
        return counts


@dataclass(frozen=True, slots=True, eq=False)
class ShardCounts:
    """Counts of a shard of the gallery for P positive pairs; ``+`` adds disjoint shards.

    Plain arrays that can be saved and sent between processes: (P,) items that score at least as high, including the
    positive if it is in the shard; (P,) items that score higher; and the gallery items it covers, eight per byte.
    """

    at_least: IntArray
    above: IntArray
    covered: NDArray[np.uint8]

    def __add__(self, other: ShardCounts) -> ShardCounts:
        """Counts of both shards, which must have no items in common."""
        common = int(np.unpackbits(self.covered & other.covered).sum())
        if common:
            raise DataError(f"two shards have {common} items in common; every item must be counted once")
        return ShardCounts(self.at_least + other.at_least, self.above + other.above, self.covered | other.covered)


def _prepare_tile(ids: IntArray, vectors: NDArray[Any], similarity: str) -> NDArray[np.float32]:
    """Prepared gallery vectors, padded with zeros to a multiple of eight."""
    single = Embeddings(ids, vectors).vectors
    out = np.zeros((-(-ids.size // ALIGNMENT) * ALIGNMENT, single.shape[1]), dtype=np.float32)
    for start in range(0, ids.size, ROWS_PREPARED_AT_ONCE):
        rows = np.arange(start, min(start + ROWS_PREPARED_AT_ONCE, ids.size))
        refuse_zero_vectors(ids[prepare(single, similarity, rows, rows, out)], ids.size, "items of a tile")
    return out
