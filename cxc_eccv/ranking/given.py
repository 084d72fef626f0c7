"""Ranks of positives as far as given rankings tell them, and the metrics that can be computed from those."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import MalformedRun
from cxc_eccv.types import IntArray, PositiveRanks

__all__ = ["GivenRanks", "given_ranks", "whole_numbers"]


class RowError(Protocol):
    """Makes the error of one row from its message."""

    def __call__(self, message: str, /) -> Exception: ...


@dataclass(frozen=True, slots=True, eq=False)
class GivenRanks:
    """What rankings say about the positives of Q queries.

    Attributes:
        ranks: ranks of the positives that the rankings hold; ``n_positives`` counts the others too. ``n_gallery`` is
            the depth where the size of the gallery is unknown. The order is trusted, so there are no ties.
        depths: (Q,) items known of each query's ranking.
        complete: (Q,) whether a ranking holds the whole gallery, so that a positive it lacks is outside the gallery.
    """

    ranks: PositiveRanks
    depths: IntArray
    complete: NDArray[np.bool_]

    @property
    def n_found(self) -> IntArray:
        """(Q,) positives in the ranking."""
        return np.diff(self.ranks.indptr)


def given_ranks(
    rankings: Sequence[ArrayLike] | IntArray,
    positives: Sequence[ArrayLike],
    *,
    query_ids: ArrayLike | None = None,
    gallery_size: ArrayLike | None = None,
    unreachable: ArrayLike = 0,
) -> GivenRanks:
    """Ranks of the positives in rankings that may be cut short.

    Args:
        rankings: Q sequences of gallery ids, best first, of any lengths; the query itself left out where it is in its
            gallery.
        positives: Q sequences of positive ids, in any order.
        query_ids: (Q,) names of the queries in messages; positions by default.
        gallery_size: items that each query ranks, one number or (Q,); None where unknown. Without it no ranking counts
            as complete.
        unreachable: further positives that are outside the gallery, one number or (Q,); they count towards R.

    Raises:
        MalformedRun: no query; ids that are not whole numbers; an id twice in a ranking; a ranking longer than its
            gallery; not one ranking per query.
        DataError: a query without a positive, or with one listed twice.
        InvalidOption: a gallery size under 1 or a negative number of unreachable positives.

    Example:
        >>> given = given_ranks([[30, 10, 20], [10]], [[20, 30], [30]])
        >>> given.ranks.ranks.tolist(), given.ranks.n_positives.tolist(), given.depths.tolist()
        ([1, 3], [2, 1], [3, 1])
    """
    names = _names(rankings, positives, query_ids)
    ranked = [
        whole_numbers(row, lambda why, q=q: MalformedRun(f"ranking of query {q}: {why}")) for q, row in names(rankings)
    ]
    return ranked
