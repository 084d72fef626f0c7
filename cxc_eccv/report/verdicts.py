"""How the best ranks of queries are distributed, and how far the labels disagree about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.evaluation.best_ranks import COCO, BestRanks, align, directions_judged
from cxc_eccv.registry import tasks
from cxc_eccv.types import FloatArray
from cxc_eccv.wording import count, share, task_name

UPPER = (1, 5, 10, 50, 100, 500, 1_000)
LABELS = ("1", *(f"{low + 1} to {high:,}" for low, high in pairwise(UPPER)), "over 1,000", "not found")
"""The last range holds queries whose ranking ends before their best positive."""


def rank_bins(ranks: Mapping[str, BestRanks]) -> list[tuple[str, str, tuple[int, ...]]]:
    """Task, direction and the number of queries in each range of ``LABELS``."""
    rows = []
    for key, best in ranks.items():
        task, _, direction = key.partition("/")
        inside = np.bincount(np.searchsorted(UPPER, best.finite), minlength=len(UPPER) + 1)
        rows.append((task, direction, (*inside.tolist(), best.ranks.size - best.finite.size)))
    return rows


@dataclass(frozen=True, slots=True)
class Verdicts:
    """How many queries are right in their top k; ``added`` counts those that no earlier task calls right."""

    k: int
    added: Mapping[str, int]
    wrong: int
    judged: Mapping[str, int]

    @property
    def total(self) -> int:
        """Number of queries."""
        return sum(self.added.values()) + self.wrong

    @property
    def errors(self) -> int:
        """Number of queries that are wrong under COCO."""
        return self.total - self.added[COCO]


def verdicts(ranks: Mapping[str, BestRanks]) -> dict[str, list[Verdicts]]:
    """Direction to its verdicts at ranks 1, 5 and 10, if COCO 5K and another task rank it."""
    by_direction: dict[str, list[Verdicts]] = {}
    for direction in directions_judged(ranks):
        queries, by_task = align(ranks, direction)
        sources = {task: set(tasks()[task].label_sources) for task in by_task}
        for place, name in enumerate(sources):
            if any(sources[name] < sources[earlier] for earlier in list(sources)[:place]):
                del by_task[name]  # an earlier task has all its positives
        if COCO in by_task and len(by_task) > 1:
            depth = ranks[f"{COCO}/{direction}"].depth
            rows = [_at(k, queries.size, by_task) for k in (1, 5, 10) if depth is None or k <= depth]
            by_direction |= {direction: rows} if rows else {}
    return by_direction


def _at(k: int, n_queries: int, by_task: Mapping[str, FloatArray]) -> Verdicts:
    right: NDArray[np.bool_] = np.zeros(n_queries, dtype=bool)
    added = {}
    for task, best in by_task.items():
        added[task] = int(np.count_nonzero((best <= k) & ~right))
        right |= best <= k
    judged = {task: int(np.count_nonzero(~np.isnan(best))) for task, best in by_task.items()}
    return Verdicts(k, added, int(np.count_nonzero(~right)), judged)


def finding(row: Verdicts) -> str:
    """How other labels judge the errors under COCO, as a sentence."""
    others = [task_name(task) for task in row.added if task != COCO]
    errors = row.errors
    if not errors:
        return f"COCO calls the first item right for all {count(row.total, 'query')}."
    excused = errors - row.wrong
    says = f"{' or '.join(others)} {'call' if len(others) > 1 else 'calls'}"
    return (
        f"COCO calls the first item wrong for {errors:,} of {count(row.total, 'query')}; {says} it right for "
        f"{excused:,} of these ({share(excused, errors)})."
    )
