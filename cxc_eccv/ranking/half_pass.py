"""A pass over half of the score matrix of one modality."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.alignment import sides_of
from cxc_eccv.ranking.blocks import BLOCK_BYTES, Options, for_every_block
from cxc_eccv.ranking.brackets import brackets, refuse_extremes
from cxc_eccv.ranking.counting import Counts
from cxc_eccv.ranking.cross_modal import with_segments
from cxc_eccv.ranking.demand import Demand
from cxc_eccv.ranking.half_product import HalfBlocks
from cxc_eccv.ranking.mutual_pairs import MutualPairs
from cxc_eccv.ranking.passes import count_one, prepared
from cxc_eccv.ranking.product import Layout
from cxc_eccv.ranking.row_readers import RowReader
from cxc_eccv.runs.embeddings import EmbeddingsRun
from cxc_eccv.types import IntArray, positions_of

__all__ = ["count_within"]

WORTHWHILE = 0.6


def count_within(
    run: EmbeddingsRun, direction: str, demand: Demand, options: Options, readers: Sequence[RowReader] = ()
) -> Counts:
    """Count text-text or image-image with half a product where that suffices, else with a whole one.

    A whole one is needed by readers of whole rows, by few queries on a large gallery, and where scores are too much
    alike.

    Raises:
        MissingIds: the run lacks queries or gallery items.
    """
    ids, segments = with_segments(demand.query_ids, demand)
    asked = demand.query_ids.size * demand.gallery_ids.size
    counts = None
    if not readers and WORTHWHILE * ids.size**2 <= asked:
        counts = _count_half(run, direction, demand, options, ids, segments)
    return count_one(run, direction, demand, options, readers) if counts is None else counts


def _count_half(
    run: EmbeddingsRun, direction: str, demand: Demand, options: Options, ids: IntArray, segments: IntArray
) -> Counts | None:
    """Counts, or None where scores are too much alike."""
    order = _positives_together(demand, ids)
    ids, segments = ids[order], segments[order]
    layout = Layout.of(np.where(segments < 0, demand.n_segments, segments))
    vectors = prepared(run, sides_of(direction)[0], ids, options, layout)
    if options.similarity == "dot":
        refuse_extremes(vectors, vectors, layout.spread(ids), layout.spread(ids))
    blocks = HalfBlocks(vectors, layout.padding, without_self=demand.without_self, shared_bytes=BLOCK_BYTES)
    if not blocks.affordable:
        return None
    pairs = _mutual_pairs(demand, ids, segments, layout, vectors)
    for_every_block(blocks, pairs.count, options, direction, backwards=True)
    return pairs.resolve() if pairs.settled else None


def _positives_together(demand: Demand, ids: IntArray) -> IntArray:
    """(N,) order in which positives mostly stand in one block of rows: their score is known when they are counted."""
    queries = positions_of(demand.query_ids, ids)[0][demand.queries]
    items = positions_of(demand.gallery_ids, ids)[0][demand.items]
    first = np.arange(ids.size)
    np.minimum.at(first, queries, items)
    return np.argsort(first, kind="stable")


def _mutual_pairs(
    demand: Demand, ids: IntArray, segments: IntArray, layout: Layout, vectors: NDArray[np.float32]
) -> MutualPairs:
    queries = layout.column[positions_of(demand.query_ids, ids)[0][demand.queries]]
    items = layout.column[positions_of(demand.gallery_ids, ids)[0][demand.items]]
    # Most pairs are positive in both orders, and one bracket holds for both.
    pairs, occurrence = np.unique(
        np.minimum(queries, items) * layout.width + np.maximum(queries, items), return_inverse=True
    )
    low, high = brackets(vectors, vectors, *np.divmod(pairs, layout.width))
    by_place = layout.spread(segments)
    return MutualPairs(queries, items, low[occurrence], high[occurrence], layout, by_place, demand.n_segments)
