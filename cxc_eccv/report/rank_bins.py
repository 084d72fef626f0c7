"""Distribution of ranks: in which range the best positive of a query stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cxc_eccv.report.best_ranks import BestRanks

__all__ = ["LABELS", "RankBins", "rank_bins"]

UPPER = (1, 5, 10, 50, 100, 500, 1_000)
LABELS = (
    "1",
    "2 to 5",
    "6 to 10",
    "11 to 50",
    "51 to 100",
    "101 to 500",
    "501 to 1,000",
    "over 1,000",
    "not found",
)
"""The last holds queries whose given ranking ends before their best positive, or whose positives no run can find."""


@dataclass(frozen=True, slots=True)
class RankBins:
    """One direction of one task.

    Attributes:
        task, direction: what was ranked.
        counts: queries in each range of ``LABELS``.
    """

    task: str
    direction: str
    counts: tuple[int, ...]

    @property
    def total(self) -> int:
        """All queries."""
        return sum(self.counts)


def rank_bins(ranks: Mapping[str, BestRanks]) -> list[RankBins]:
    """One row per task and direction.

    Args:
        ranks: ``task/direction`` to best ranks.

    Example:
        >>> rank_bins({"cxc/i2t": BestRanks(np.array([1, 2, 3]), np.array([1, 5, 2000]))})[0].counts
        (1, 1, 0, 0, 0, 0, 0, 1, 0)
    """
    rows = []
    for key, one in ranks.items():
        task, _, direction = key.partition("/")
        inside = np.bincount(np.searchsorted(UPPER, one.found), minlength=len(UPPER) + 1)
        rows.append(RankBins(task, direction, (*inside.tolist(), one.ranks.size - one.found.size)))
    return rows
