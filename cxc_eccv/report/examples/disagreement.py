"""Where the labels disagree: errors under the original COCO links that other labels call right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.report.charts import BestRanks
from cxc_eccv.report.wording import count, share, task_name
from cxc_eccv.types import FloatArray, IntArray, positions_of

__all__ = ["COCO", "LABEL_TASKS", "Verdicts", "aligned", "directions_judged", "finding", "verdicts"]

COCO = "coco_5k"
LABEL_TASKS = (COCO, "cxc", "cxc_rated", "eccv_caption")
"""Tasks that rank the same galleries under different labels; a task adds to those before it."""

DEPTHS = (1, 5, 10)


@dataclass(frozen=True, slots=True)
class Verdicts:
    """How many queries of one direction have a right item in their top k, and under which labels.

    Attributes:
        direction: ``i2t`` or ``t2i``.
        k: depth.
        added: task to the queries that it calls right and no task before it does, in the order of ``LABEL_TASKS``.
        wrong: queries that are wrong under all of them.
        judged: task to the number of queries that it judges at all.
    """

    direction: str
    k: int
    added: Mapping[str, int]
    wrong: int
    judged: Mapping[str, int]

    @property
    def total(self) -> int:
        """All queries."""
        return sum(self.added.values()) + self.wrong

    @property
    def errors(self) -> int:
        """Queries that are wrong under COCO."""
        return self.total - self.added[COCO]


def directions_judged(ranks: Mapping[str, BestRanks]) -> list[str]:
    """Directions that at least one of ``LABEL_TASKS`` ranks, in the order of the report."""
    return list(dict.fromkeys(key.partition("/")[2] for key in ranks if key.partition("/")[0] in LABEL_TASKS))


def verdicts(ranks: Mapping[str, BestRanks]) -> list[Verdicts]:
    """For every direction that COCO 5K and another task rank, at ranks 1, 5 and 10.

    Example:
        >>> coco, cxc = np.array([1, 7, 9]), np.array([1, 1, 9])
        >>> ranks = {"coco_5k/i2t": BestRanks(np.arange(3), coco), "cxc/i2t": BestRanks(np.arange(3), cxc)}
        >>> first = verdicts(ranks)[0]
        >>> first.added, first.wrong
        ({'coco_5k': 1, 'cxc': 1}, 1)
    """
    found = []
    for direction in directions_judged(ranks):
        queries, by_task = aligned(ranks, direction)
        if "cxc" in by_task:
            by_task.pop("cxc_rated", None)  # its positives are among those of cxc
        if COCO in by_task and len(by_task) > 1:
            depth = ranks[f"{COCO}/{direction}"].depth
            found += [_at(k, direction, queries, by_task) for k in DEPTHS if depth is None or k <= depth]
    return found


def aligned(ranks: Mapping[str, BestRanks], direction: str) -> tuple[IntArray, dict[str, FloatArray]]:
    """All queries of a direction, and each label task's best ranks for them; NaN where a task does not judge a query.

    Returns:
        (Q,) query ids in the order of the first task that has them, and task to (Q,) ranks.

    Example:
        >>> one, other = BestRanks(np.array([5, 6]), np.array([2, 3])), BestRanks(np.array([6]), np.array([1]))
        >>> queries, by_task = aligned({"coco_5k/i2t": one, "eccv_caption/i2t": other}, "i2t")
        >>> queries.tolist(), by_task["eccv_caption"].tolist()
        ([5, 6], [nan, 1.0])
    """
    own = {task: ranks[f"{task}/{direction}"] for task in LABEL_TASKS if f"{task}/{direction}" in ranks}
    ids = np.concatenate([one.query_ids for one in own.values()])
    queries = ids[np.sort(np.unique(ids, return_index=True)[1])]
    by_task = {}
    for task, one in own.items():
        places, known = positions_of(queries, one.query_ids)
        by_task[task] = np.where(known, one.ranks[places], np.nan)
    return queries, by_task


def _at(k: int, direction: str, queries: IntArray, by_task: Mapping[str, FloatArray]) -> Verdicts:
    right: NDArray[np.bool_] = np.zeros(queries.size, dtype=bool)
    added = {}
    for task, best in by_task.items():
        now = right | (best <= k)
        added[task] = int(now.sum() - right.sum())
        right = now
    judged = {task: int(np.count_nonzero(~np.isnan(best))) for task, best in by_task.items()}
    return Verdicts(direction, k, added, int(np.count_nonzero(~right)), judged)


def finding(row: Verdicts) -> str:
    """What the other labels say of the errors under COCO, in a sentence.

    Example:
        >>> finding(Verdicts("i2t", 1, {"coco_5k": 6, "cxc": 1}, 3, {}))
        'COCO calls the first item wrong for 4 of 10 queries; CxC calls it right for 1 of these (25.0 %).'
    """
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
