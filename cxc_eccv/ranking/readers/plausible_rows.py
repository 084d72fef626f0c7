"""Plausible matches at the top of every ranking, counted on whole rows of the score matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.judgments.plausible import CategoryMatches, Look, PlausibleHits
from cxc_eccv.ranking import kernels
from cxc_eccv.ranking.counts import count_pushed_out
from cxc_eccv.ranking.readers.reader import OwnRows, best_candidates, refuse_shallow
from cxc_eccv.types import IntArray

__all__ = ["PlausibleRows"]

FEW = 64
"""Of looks at no more than this fraction of the items, only the items looked at are compared."""


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
        self._n_matches = _count_matching(matches, [zeta for zeta, _ in self.looks])
        self._hits = np.zeros_like(self._n_matches)
        self._ties = np.zeros(self.query_ids.size, dtype=np.int64)
        cuts = self._cuts
        self.deepest = max(cuts) if max(cuts) * FEW <= self.gallery_ids.size else None

    def attach(self, row_ids: IntArray, item_ids: IntArray, columns: IntArray, width: int) -> None:
        """Learn the layout, see :meth:`cxc_eccv.ranking.readers.reader.RowReader.attach`."""
        self._own = OwnRows(self.query_ids, self.gallery_ids, row_ids, item_ids, columns, width)

    def read(self, block: NDArray[Any], start: int) -> None:
        """Read a block of rows, of which ``start`` is the first.

        Raises:
            RunTooShallow: a row holds too few items.
        """
        if self.deepest is None or (kernels.COMPILED and block.dtype == np.float32):
            for queries, scores in self._own.strips(block, start, blank=False):
                self.take(queries, scores, self._own.items)
            return
        for queries, scores in self._own.strips(block, start):
            best, columns = best_candidates(scores, self.deepest)
            self.take(queries, best, self._own.items[columns])

    def take(self, queries: IntArray, scores: NDArray[Any], items: IntArray) -> None:
        """Read the best items of queries, see :meth:`cxc_eccv.ranking.readers.reader.RowReader.take`.

        Raises:
            RunTooShallow: a query has too few items.
        """
        matches, zetas = self._matches, [zeta for zeta, _ in self.looks]
        depths, classes = np.minimum(self._n_matches[queries], self._cuts), matches.query_classes[queries]
        found = kernels.match_counts(scores, items, matches.gallery_classes, matches.distances, classes, zetas, depths)
        worst = found.lowest.min(axis=1)
        refuse_shallow(self.query_ids[queries], scores, worst, depths.max(axis=1), self.reason)
        out, others = count_pushed_out(found.at_least - depths, found.tied, found.tied_matches)
        self._hits[queries] = found.matches - out
        self._ties[queries] = others.sum(axis=1)

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


def _count_matching(matches: CategoryMatches, zetas: Sequence[int]) -> IntArray:
    """(Q, L) gallery items that match each query at each zeta."""
    sizes = np.bincount(matches.gallery_classes, minlength=len(matches.distances))
    near = np.flatnonzero(matches.distances <= max(zetas))  # few pairs of classes
    of_queries, of_items = np.divmod(near, len(sizes))
    apart = matches.distances.ravel()[near]
    counts = [
        np.bincount(of_queries[apart <= zeta], sizes[of_items[apart <= zeta]], len(sizes)).astype(np.int64)
        for zeta in zetas
    ]
    return np.stack(counts, axis=1)[matches.query_classes]
