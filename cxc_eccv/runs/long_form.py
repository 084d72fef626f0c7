"""Rankings with one row per query and item: sorted, checked for gaps, and made into lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cxc_eccv.errors import MalformedRun
from cxc_eccv.runs.ranked_lists import RankedLists, narrowed
from cxc_eccv.types import FloatArray, IntArray

__all__ = ["LongForm"]


@dataclass(frozen=True, slots=True, eq=False)
class LongForm:
    """The columns of one direction's rankings, rows in any order.

    Attributes:
        queries: (P,) query ids.
        items: (P,) item ids.
        ranks: (P,) from 1, or from 0, without gaps for every query.
        scores: (P,) or None.
    """

    queries: IntArray
    items: IntArray
    ranks: IntArray
    scores: FloatArray | None = None

    def lists(self, place: str, **origin: Any) -> RankedLists:  # noqa: ANN401 - path and sha256
        """The lists, queries ascending.

        Args:
            place: what messages call the rankings.
            **origin: ``path`` and ``sha256``.

        Raises:
            MalformedRun: ranks with a gap or given twice, or as :class:`RankedLists` says.

        Example:
            >>> rows = LongForm(np.array([6, 5, 6]), np.array([10, 20, 30]), np.array([2, 1, 1]))
            >>> lists = rows.lists("run")
            >>> lists.query_ids.tolist(), lists.items.tolist()
            ([5, 6], [20, 30, 10])
        """
        order: IntArray | slice = slice(None)
        if not _ascending(self.queries, self.ranks):
            order = np.lexsort((self.ranks, self.queries))
        queries, items, ranks = self.queries[order], self.items[order], self.ranks[order]
        scores = None if self.scores is None else self.scores[order]
        starts = np.flatnonzero(np.append(True, queries[1:] != queries[:-1]))
        indptr = np.append(starts, queries.size)
        _refuse_gaps(place, queries, ranks, indptr)
        return RankedLists(queries[starts], indptr, narrowed(items), scores, place=place, **origin)


def _ascending(queries: IntArray, ranks: IntArray) -> bool:
    later = queries[1:] > queries[:-1]
    return bool(np.all(later | ((queries[1:] == queries[:-1]) & (ranks[1:] > ranks[:-1]))))


def _refuse_gaps(place: str, queries: IntArray, ranks: IntArray, indptr: IntArray) -> None:
    first = np.repeat(ranks[indptr[:-1]], np.diff(indptr))
    expected = np.arange(ranks.size) - np.repeat(indptr[:-1], np.diff(indptr)) + first
    bad = np.flatnonzero((ranks != expected) | ~np.isin(first, (0, 1)))
    if bad.size:
        own = ranks[queries == queries[bad[0]]][:5].tolist()
        raise MalformedRun(
            f"{place}: the ranks of query {queries[bad[0]]} begin {own}; need 1, 2, 3 and so on, each once. "
            "A rank that is missing or given twice leaves the order open; number the items of each query anew."
        )
