"""Plausible matches at the top of every ranking, counted on whole rows of the score matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.judgments.plausible import CategoryMatches
from cxc_eccv.judgments.plausible_hits import Look, PlausibleHits
from cxc_eccv.ranking.counting import SegmentCounter
from cxc_eccv.ranking.row_readers import OwnRows, refuse_shallow
from cxc_eccv.ranking.thresholds import scores_at_depths
from cxc_eccv.types import IntArray

__all__ = ["PlausibleRows"]


class PlausibleRows:
    """Counts the matches among the top R of every query at several looks.

    A ranking is never sorted and its matches are never listed: a row's score at depth R is selected, and the matches
    that reach it are counted. Items that tie there fill the room that is left, those that are no matches first.

    Args:
        matches: plausible matches of the queries.
        looks: what to count.
    """

    without_self = False

    def __init__(self, matches: CategoryMatches, looks: Sequence[Look]) -> None:
        self.query_ids, self.gallery_ids = matches.query_ids, matches.gallery_ids
        self.looks, self._matches = tuple(looks), matches
        self._n_matches, self._hits = np.zeros((2, self.query_ids.size, len(self.looks)), dtype=np.int64)
        self._ties = np.zeros(self.query_ids.size, dtype=np.int64)

    def attach(self, row_ids: IntArray, item_ids: IntArray, columns: IntArray, width: int) -> None:
        """Learn the layout, see :meth:`cxc_eccv.ranking.row_readers.RowReader.attach`."""
        self._own = OwnRows(self.query_ids, self.gallery_ids, row_ids, item_ids, columns, width)
        # A further class, far from all others, stands for columns that are none of ours.
        classes = np.append(self._matches.gallery_classes, len(self._matches.distances))
        self._column_classes = classes[self._own.items]
        far = np.iinfo(self._matches.distances.dtype).max
        self._distances = np.pad(self._matches.distances, ((0, 0), (0, 1)), constant_values=far)
        self._counter = SegmentCounter(np.array([0, width]))

    def read(self, block: NDArray[Any], start: int) -> None:
        """Read a block of rows, of which ``start`` is the first.

        Raises:
            RunTooShallow: a row holds too few items.
        """
        for queries, scores in self._own.strips(block, start):
            distances = self._distances[self._matches.query_classes[queries]].take(self._column_classes, axis=1)
            zetas = dict.fromkeys(zeta for zeta, _ in self.looks)
            matching = {zeta: distances <= zeta for zeta in zetas}
            n_matches = {zeta: self._count(flags) for zeta, flags in matching.items()}
            depths = [n_matches[zeta] if cut is None else np.minimum(n_matches[zeta], cut) for zeta, cut in self.looks]
            lowest = scores_at_depths(scores, np.stack(depths, axis=1))
            refuse_shallow(
                self.query_ids[queries], scores, lowest.min(axis=1), np.max(depths, axis=0), "for its plausible matches"
            )
            for look, (zeta, _) in enumerate(self.looks):
                self._n_matches[queries, look] = n_matches[zeta]
                self._hits[queries, look] = self._found(
                    queries, scores, lowest[:, look, None], matching[zeta], depths[look]
                )

    @property
    def result(self) -> PlausibleHits:
        """The counts, after all blocks were read."""
        return PlausibleHits(self.query_ids, self.looks, self._n_matches, self._hits, self._ties)

    def _count(self, flags: NDArray[np.bool_]) -> IntArray:
        return self._counter.count(flags)[:, 0]

    def _found(
        self,
        queries: IntArray,
        scores: NDArray[Any],
        lowest: NDArray[Any],
        matching: NDArray[np.bool_],
        depths: IntArray,
    ) -> IntArray:
        """(B,) matches among the top, less those that ties at its end push out."""
        reached = scores >= lowest
        surplus = self._count(reached) - depths
        found = self._count(np.logical_and(reached, matching, out=reached))
        for row in np.flatnonzero(surplus).tolist():
            tied = scores[row] == lowest[row]
            tied_matches = np.count_nonzero(tied & matching[row])
            found[row] -= min(tied_matches, surplus[row])
            if tied_matches:
                self._ties[queries[row]] += np.count_nonzero(tied) - tied_matches
        return found
