"""A reader that ranks judged items under several labellings: it keeps how many items reach the score of each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.readers.rows import BestRows
from cxc_eccv.ranking.ties import count_reaching
from cxc_eccv.types import IntArray, Judgments, find_positions


class ReachedRows(BestRows):
    """Counts the items that score at least as high as each judged item, as far as the top K and its last tie go.

    A judged item below counts as reached by the whole gallery. :func:`cxc_eccv.ranking.ties.rank_labelled` ranks any of
    the items by these counts, under the tie rule of their own labels.
    """

    def __init__(self, judgments: Judgments, depth: int) -> None:
        super().__init__(judgments, depth)
        self._reached = np.full(judgments.indices.size, judgments.gallery_ids.size)

    @property
    def result(self) -> IntArray:
        """(P,) the counts in the order of ``judgments.indices``, after all blocks."""
        self._refuse_too_short()
        return self._reached

    def _keep(
        self, queries: IntArray, lowest: NDArray[Any], rows: IntArray, items: IntArray, scores: NDArray[Any]
    ) -> None:
        """Store the counts of the candidates that are judged."""
        places, is_judged = find_positions(queries[rows] * self.gallery_ids.size + items, self._judged)
        self._reached[places[is_judged]] = count_reaching(rows, scores)[is_judged]
