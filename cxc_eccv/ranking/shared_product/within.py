"""A pass over half of the score matrix of one modality."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.by_row import count_by_row
from cxc_eccv.ranking.counts import Counts, ScoresTooAlike
from cxc_eccv.ranking.merged_judgments import MergedJudgments
from cxc_eccv.ranking.readers.brackets import brackets
from cxc_eccv.ranking.readers.mutual_pairs import MutualPairs
from cxc_eccv.ranking.readers.reader import RowReader
from cxc_eccv.ranking.scan import BLOCK_BYTES, Options, scan
from cxc_eccv.ranking.scores.half_product import HalfProduct
from cxc_eccv.ranking.scores.product import Layout
from cxc_eccv.ranking.scores.vectors import prepare_side, refuse_overflow
from cxc_eccv.ranking.shared_product.cross_modal import with_segments
from cxc_eccv.runs.embeddings import EmbeddingsRun
from cxc_eccv.runs.sides import sides_of
from cxc_eccv.types import IntArray, positions_of

__all__ = ["count_within"]

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
        refuse_overflow(vectors, vectors)
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
    by_place = np.full(layout.width, -1)
    by_place[layout.column] = segments
    return MutualPairs(queries, items, low[occurrence], high[occurrence], layout, by_place, merged.n_segments)
