"""Images as rows and captions as columns: one score matrix for both cross-modal directions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.brackets import brackets
from cxc_eccv.ranking.column_pairs import ColumnPairs
from cxc_eccv.ranking.counting import RowPairs
from cxc_eccv.ranking.demand import Demand
from cxc_eccv.ranking.product import Layout
from cxc_eccv.types import IntArray, positions_of

__all__ = ["CrossModal", "with_segments"]


@dataclass(frozen=True, slots=True, eq=False)
class CrossModal:
    """Which image is which row and which caption which column, and where the pairs of both directions stand.

    Attributes:
        images: (R,) image ids in row order.
        image_segments: (R,) ascending; -1 where an image is in no gallery.
        captions: (N,) caption ids.
        layout: columns of the captions; those in no gallery stand in a further segment at the end.
    """

    images: IntArray
    image_segments: IntArray
    captions: IntArray
    layout: Layout

    @classmethod
    def of(cls, i2t: Demand, t2i: Demand) -> CrossModal:
        """Place the items of both directions.

        Args:
            i2t: judgments of image queries.
            t2i: judgments of caption queries.
        """
        images, image_segments = with_segments(i2t.query_ids, t2i)
        captions, caption_segments = with_segments(t2i.query_ids, i2t)
        order = np.argsort(image_segments, kind="stable")
        layout = Layout.of(np.where(caption_segments < 0, i2t.n_segments, caption_segments))
        return cls(images[order], image_segments[order], captions, layout)

    def row_pairs(self, i2t: Demand) -> RowPairs:
        """The positive pairs of image queries."""
        rows = positions_of(i2t.query_ids, self.images)[0][i2t.queries]
        columns = self.layout.column[positions_of(i2t.gallery_ids, self.captions)[0][i2t.items]]
        return RowPairs(rows, columns, self.layout.bounds)

    def column_pairs(self, t2i: Demand, rows: NDArray[np.float32], columns: NDArray[np.float32]) -> ColumnPairs:
        """The positive pairs of caption queries, with brackets from the vectors of all rows and columns."""
        pair_rows = positions_of(t2i.gallery_ids, self.images)[0][t2i.items]
        pair_columns = self.layout.column[positions_of(t2i.query_ids, self.captions)[0][t2i.queries]]
        low, high = brackets(rows, columns, pair_rows, pair_columns)
        return ColumnPairs(pair_rows, pair_columns, low, high, t2i.n_segments)


def with_segments(query_ids: IntArray, opposite: Demand) -> tuple[IntArray, IntArray]:
    """All ids of a modality, queries and gallery, with their gallery segments or -1.

    Args:
        query_ids: (Q,) queries that belong to the modality.
        opposite: judgments whose gallery is of the modality.
    """
    ids = opposite.gallery_ids
    if not np.array_equal(query_ids, ids):
        ids = np.union1d(query_ids, ids)
    places, known = positions_of(ids, opposite.gallery_ids)
    return ids, np.where(known, opposite.segments[places], -1)
