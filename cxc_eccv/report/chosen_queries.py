"""Which queries a report shows with their retrieved items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cxc_eccv.report.best_ranks import NOT_FOUND, BestRanks
from cxc_eccv.report.disagreement import COCO, aligned
from cxc_eccv.types import IntArray

__all__ = ["GROUPS", "SHOWN_ITEMS", "Chosen", "chosen_queries"]

GROUPS = {"label_dependent": 6, "worst": 4, "plain": 4}
"""Group to the number of queries shown of it, per direction."""

SHOWN_ITEMS = 10


@dataclass(frozen=True, slots=True)
class Chosen:
    """One query to show.

    Attributes:
        query_id: of the direction.
        group: one of ``GROUPS``.
        coco_rank: rank of its best positive under the original COCO links, or None where they do not judge it or
            it is not found.
        best_rank: rank of its best positive under all label tasks of the report, or None likewise.
    """

    query_id: int
    group: str
    coco_rank: int | None
    best_rank: int | None


def chosen_queries(ranks: Mapping[str, BestRanks], direction: str) -> list[Chosen]:
    """The queries shown of one direction, group by group.

    ``label_dependent``: a right item stands among the ten that are shown, and the gap between the best rank under COCO
    and the best rank under all labels is largest. ``worst``: the best rank under all labels is largest, so that no
    label excuses the model. ``plain``: spread evenly over the remaining queries, whatever their ranks.

    Args:
        ranks: ``task/direction`` to best ranks.
        direction: one that a label task ranks.

    Example:
        >>> coco, cxc = np.array([1, 70, 30, 90]), np.array([1, 2, 3, 90])
        >>> ranks = {"coco_5k/i2t": BestRanks(np.arange(4), coco), "cxc/i2t": BestRanks(np.arange(4), cxc)}
        >>> [(one.group, one.query_id, one.coco_rank, one.best_rank) for one in chosen_queries(ranks, "i2t")]
        [('label_dependent', 1, 70, 2), ('label_dependent', 2, 30, 3), ('worst', 3, 90, 90), ('plain', 0, 1, 1)]
    """
    queries, by_task = aligned(ranks, direction)
    best = np.min([np.where(one > 0, one, NOT_FOUND) for one in by_task.values()], axis=0)
    coco = by_task.get(COCO, np.zeros_like(best))
    gap = np.where((coco > 0) & (best <= SHOWN_ITEMS), coco - best, 0)
    taken = np.zeros(queries.size, dtype=bool)
    chosen = []
    for group, places in (
        ("label_dependent", _largest(gap, 0)),
        ("worst", _largest(best, 1)),
        ("plain", np.arange(queries.size)),
    ):
        free = places[~taken[places]]
        shown = _spread(free, GROUPS[group]) if group == "plain" else free[: GROUPS[group]]
        taken[shown] = True
        chosen += [Chosen(int(queries[q]), group, _known(coco[q]), _known(best[q])) for q in shown]
    return chosen


def _known(rank: int) -> int | None:
    return int(rank) if 0 < rank < NOT_FOUND else None


def _largest(values: IntArray, above: int) -> IntArray:
    """Positions of the values above a bound, the largest first, equal ones in their order."""
    order = np.argsort(-values, kind="stable")
    return order[values[order] > above]


def _spread(places: IntArray, number: int) -> IntArray:
    """So many of the positions, at even distances."""
    if places.size <= number:
        return places
    return places[(np.arange(number) * places.size) // number + places.size // (2 * number)]
