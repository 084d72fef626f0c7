"""PlausibleHits: how many plausible matches stand at the top of each query's ranking."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cxc_eccv.errors import InvalidOption, MalformedRun
from cxc_eccv.types import FloatArray, IntArray

__all__ = ["Look", "PlausibleHits"]

Look = tuple[int, int | None]
"""Zeta, the most categories in which a match differs from its query; and the most items looked at, or None."""


@dataclass(frozen=True, slots=True, eq=False)
class PlausibleHits:
    """Plausible matches among the top of each query's ranking, under the pessimistic tie rule.

    A look (zeta, cut) counts the matches among the top min(R, cut) items, R being the number of gallery items whose
    category set differs from the query's in at most zeta categories; a cut of None looks at R items.

    Attributes:
        query_ids: (Q,) int64.
        looks: L looks.
        n_matches: (Q, L) R, at least 1.
        hits: (Q, L) matches among the top.
        ties: (Q,) items at the end of some look that tie with a match, where the tie rule decided.

    Raises:
        MalformedRun: no query, or counts that cannot be: no match in the gallery, other than 0 to R hits.

    Example:
        >>> hits = PlausibleHits(np.array([5]), ((0, 50),), np.array([[60]]), np.array([[20]]), np.array([0]))
        >>> hits.precision(0, 50).tolist()
        [0.4]
    """

    query_ids: IntArray
    looks: tuple[Look, ...]
    n_matches: IntArray
    hits: IntArray
    ties: IntArray

    def __post_init__(self) -> None:
        possible = (self.n_matches >= 1) & (self.hits >= 0) & (self.hits <= self.n_matches)
        bad = np.flatnonzero(~possible.all(axis=1))
        if not self.query_ids.size:
            raise MalformedRun("plausible hits of no query")
        if bad.size:
            raise MalformedRun(
                f"query {self.query_ids[bad[0]]} has {self.hits[bad[0]].tolist()} hits of "
                f"{self.n_matches[bad[0]].tolist()} matches; need at least one match, and 0 to as many hits"
            )

    def precision(self, zeta: int, cut: int | None = None) -> FloatArray:
        """(Q,) fraction of the items of one look that match.

        Raises:
            InvalidOption: it is not among the looks.
        """
        if (zeta, cut) not in self.looks:
            raise InvalidOption(f"matches at zeta {zeta}, cut {cut} were not counted, only {self.looks}")
        column = self.looks.index((zeta, cut))
        depths = self.n_matches[:, column] if cut is None else np.minimum(self.n_matches[:, column], cut)
        return np.asarray(self.hits[:, column] / depths)
