"""Plausible matches at the top of every ranking, counted on whole rows of the score matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.judgments.plausible import CategoryMatches, Look, PlausibleHits
from cxc_eccv.ranking.counts import count_pushed_out
from cxc_eccv.ranking.kernels import SegmentCounter
from cxc_eccv.ranking.readers.reader import OwnRows, best_candidates, refuse_shallow, scores_at_depths
from cxc_eccv.types import IntArray

__all__ = ["PlausibleRows"]

FEW = 64
"""Of looks at no more than this fraction of the items, only the items looked at are compared."""

EXACT_IN_FLOAT32 = 2**24
"""Whole numbers up to this are exact in float32, whose matrix products are the quickest."""


class PlausibleRows:
    """Counts the matches among the top R of every query at several looks.

    A ranking is never sorted and its matches are never listed: a row's score at depth R is selected, and the matches
    that reach it are counted. Items that tie there fill the room that is left, those that are no matches first.

    Args:
        matches: plausible matches of the queries.
        looks: what to count.
    """

    without_self = False
    reason = "for its plausible matches"
    ended = False

    def __init__(self, matches: CategoryMatches, looks: Sequence[Look]) -> None:
        self.query_ids, self.gallery_ids = matches.query_ids, matches.gallery_ids
        self.looks, self._matches = tuple(looks), matches
        self._n_matches = np.stack([_n_matches(matches, zeta) for zeta, _ in self.looks], axis=1)
        self._hits = np.zeros_like(self._n_matches)
        self._ties = np.zeros(self.query_ids.size, dtype=np.int64)
        cuts = self._cuts
        self.deepest = max(cuts) if max(cuts) * FEW <= self.gallery_ids.size else None

    def attach(self, row_ids: IntArray, item_ids: IntArray, columns: IntArray, width: int) -> None:
        """Learn the layout, see :meth:`cxc_eccv.ranking.readers.reader.RowReader.attach`."""
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
            if self.deepest is not None:
                best, columns = best_candidates(scores, self.deepest)
                self.take(queries, best, self._own.items[columns])
                continue
            depths, lowest = self._ends(queries, scores)
            distances = self._distances[self._matches.query_classes[queries]].take(self._column_classes, axis=1)
            for look, (zeta, _) in enumerate(self.looks):
                matching = distances <= zeta
                self._hits[queries, look] = self._whole(queries, scores, lowest[:, look], matching, depths[:, look])

    def take(self, queries: IntArray, scores: NDArray[Any], items: IntArray) -> None:
        """Read the best items of queries, see :meth:`cxc_eccv.ranking.readers.reader.RowReader.take`.

        Raises:
            RunTooShallow: a query has too few items.
        """
        depths, lowest = self._ends(queries, scores)
        classes = self._matches.query_classes[queries]
        for look, (zeta, _) in enumerate(self.looks):
            found = np.flatnonzero(scores >= lowest[:, look, None])
            rows, own = found // scores.shape[1], items.ravel()[found]
            matching = self._matches.distances[classes[rows], self._matches.gallery_classes[own]] <= zeta
            surplus = np.bincount(rows, minlength=queries.size) - depths[:, look]
            hits = np.bincount(rows[matching], minlength=queries.size)
            for row in np.flatnonzero(surplus).tolist():
                tied = (rows == row) & (scores.ravel()[found] == lowest[row, look])
                hits[row] -= self._pushed_out(queries[row], int(surplus[row]), tied, matching)
            self._hits[queries, look] = hits

    def _ends(self, queries: IntArray, scores: NDArray[Any]) -> tuple[IntArray, NDArray[Any]]:
        """(B, L) items that each look takes, and (B, L) the score of the last one."""
        depths = np.minimum(self._n_matches[queries], self._cuts)
        lowest = scores_at_depths(scores, depths)
        deepest, worst = depths.max(axis=1), lowest.min(axis=1)
        refuse_shallow(self.query_ids[queries], scores, worst, deepest, self.reason)
        return depths, lowest

    @property
    def needs(self) -> IntArray:
        """(Q,) items that a ranking must hold."""
        return np.asarray(np.minimum(self._n_matches, self._cuts).max(axis=1))

    @property
    def _cuts(self) -> list[int]:
        return [self.gallery_ids.size if cut is None else cut for _, cut in self.looks]

    @property
    def result(self) -> PlausibleHits:
        """The counts, after all blocks were read."""
        return PlausibleHits(self.query_ids, self.looks, self._n_matches, self._hits, self._ties)

    def _whole(
        self,
        queries: IntArray,
        scores: NDArray[Any],
        lowest: NDArray[Any],
        matching: NDArray[np.bool_],
        depths: IntArray,
    ) -> IntArray:
        """(B,) matches among the top of a look, of whole rows."""
        reached = scores >= lowest[:, None]
        surplus = self._count(reached) - depths
        found = self._count(np.logical_and(reached, matching, out=reached))
        for row in np.flatnonzero(surplus).tolist():
            found[row] -= self._pushed_out(queries[row], int(surplus[row]), scores[row] == lowest[row], matching[row])
        return found

    def _pushed_out(self, query: int, surplus: int, tied: NDArray[np.bool_], matching: NDArray[np.bool_]) -> int:
        out, others = count_pushed_out(surplus, int(np.count_nonzero(tied)), int(np.count_nonzero(tied & matching)))
        self._ties[query] += others
        return out

    def _count(self, flags: NDArray[np.bool_]) -> IntArray:
        return self._counter.count(flags)[:, 0]


def _n_matches(matches: CategoryMatches, zeta: int) -> IntArray:
    """(Q,) gallery items that match each query."""
    sizes = np.bincount(matches.gallery_classes, minlength=len(matches.distances))
    kind = np.float32 if matches.gallery_ids.size < EXACT_IN_FLOAT32 else np.float64
    counts = (matches.distances <= zeta).astype(kind) @ sizes.astype(kind)
    return np.asarray(counts.astype(np.int64)[matches.query_classes])
