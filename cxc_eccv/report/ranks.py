"""What the best ranks of queries show: where they stand, and where the labels disagree about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from cxc_eccv.comparison.labels import task_name
from cxc_eccv.judgments.evidence import label_sources
from cxc_eccv.registry import tasks
from cxc_eccv.report.wording import count, share
from cxc_eccv.tasks.task import COCO as COCO_COLLECTION
from cxc_eccv.types import FloatArray, IntArray, Report, positions_of

__all__ = [
    "COCO",
    "LABELS",
    "BestRanks",
    "Verdicts",
    "align",
    "best_ranks",
    "directions_judged",
    "finding",
    "label_tasks",
    "rank_bins",
    "verdicts",
]

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


@dataclass(frozen=True, slots=True, eq=False)
class BestRanks:
    """One direction of one task.

    Attributes:
        query_ids: (Q,) int64.
        ranks: (Q,) 1-based rank of the best positive, infinite where no ranking holds one.
        depth: ranks beyond it are not known, because rankings were given cut short; None where all are known.
    """

    query_ids: IntArray
    ranks: FloatArray
    depth: int | None = None

    @property
    def found(self) -> IntArray:
        """The ranks of those that were found."""
        return self.ranks[np.isfinite(self.ranks)].astype(np.int64)


def best_ranks(report: Report) -> dict[str, BestRanks]:
    """``task/direction`` to the best ranks of its queries, from the per-query values.

    Tasks that rank no positives are not in it; without per-query values none is.
    """
    if report.per_query is None:
        return {}
    table, run = report.per_query, report.provenance.get("run") or {}
    keys = pc.binary_join_element_wise(table["task"].cast("string"), table["direction"].cast("string"), "/")
    encoded = keys.combine_chunks().dictionary_encode()
    codes, metrics = encoded.indices.to_numpy(), np.asarray(table["metric"].cast("string"))
    queries, ranks = np.asarray(table["query_id"]), np.asarray(pc.fill_null(table["best_rank"].cast("double"), np.inf))
    found = {}
    for code, key in enumerate(encoded.dictionary.to_pylist()):
        rows = np.flatnonzero(codes == code)
        rows = rows[metrics[rows] == metrics[rows[0]]]  # every metric repeats the rank
        if np.isfinite(ranks[rows]).any():
            depth = run.get("directions", {}).get(key.partition("/")[2], {}).get("shallowest")
            found[key] = BestRanks(queries[rows], ranks[rows], None if depth is None else int(depth))
    return found


def rank_bins(ranks: Mapping[str, BestRanks]) -> list[tuple[str, str, tuple[int, ...]]]:
    """Task, direction and the number of queries in each range of ``LABELS``.

    Example:
        >>> rank_bins({"cxc/i2t": BestRanks(np.array([1, 2, 3]), np.array([1, 5, 2000]))})
        [('cxc', 'i2t', (1, 1, 0, 0, 0, 0, 0, 1, 0))]
    """
    rows = []
    for key, best in ranks.items():
        task, _, direction = key.partition("/")
        inside = np.bincount(np.searchsorted(UPPER, best.found), minlength=len(UPPER) + 1)
        rows.append((task, direction, (*inside.tolist(), best.ranks.size - best.found.size)))
    return rows


COCO = "coco_5k"
DEPTHS = (1, 5, 10)


@cache
def label_tasks() -> tuple[str, ...]:
    """Tasks that rank the same galleries under different labels, COCO 5K first; a task adds to those before it.

    They come in the order of their latest source of labels. Further tasks of the original links alone rank something
    else: folds of the galleries (COCO 1K), other pairs (co-captions); and so do those with altered captions.

    Example:
        >>> label_tasks()
        ('coco_5k', 'cxc', 'cxc_rated', 'eccv_caption')
    """
    order = list(label_sources())
    coco = [task for task in tasks().values() if task.collection is COCO_COLLECTION]
    own = [task for task in coco if task.serves == "ranks" and not task.altered]
    labelled = [task for task in own if set(task.label_sources) - set(tasks()[COCO].label_sources)]
    labelled.sort(key=lambda task: max(order.index(source) for source in task.label_sources))
    return (COCO, *(task.name for task in labelled))


@dataclass(frozen=True, slots=True)
class Verdicts:
    """How many queries of one direction have a right item in their top k, and under which labels.

    Attributes:
        k: depth.
        added: task to the queries that it calls right and no task before it does, in the order of the label tasks.
        wrong: queries that are wrong under all of them.
        judged: task to the number of queries that it judges at all.
    """

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
    """Directions that at least one of the label tasks ranks, in the order of the report."""
    return list(dict.fromkeys(key.partition("/")[2] for key in ranks if key.partition("/")[0] in label_tasks()))


def verdicts(ranks: Mapping[str, BestRanks]) -> dict[str, list[Verdicts]]:
    """Every direction that COCO 5K and another task rank, to the verdicts at ranks 1, 5 and 10.

    Example:
        >>> coco, cxc = np.array([1, 7, 9]), np.array([1, 1, 9])
        >>> ranks = {"coco_5k/i2t": BestRanks(np.arange(3), coco), "cxc/i2t": BestRanks(np.arange(3), cxc)}
        >>> first = verdicts(ranks)["i2t"][0]
        >>> first.added, first.wrong
        ({'coco_5k': 1, 'cxc': 1}, 1)
    """
    found = {}
    for direction in directions_judged(ranks):
        queries, by_task = align(ranks, direction)
        sources = {task: set(tasks()[task].label_sources) for task in by_task}
        names = list(by_task)
        for place, name in enumerate(names):
            if any(sources[name] < sources[earlier] for earlier in names[:place]):
                del by_task[name]  # its positives are among those of an earlier one
        if COCO in by_task and len(by_task) > 1:
            depth = ranks[f"{COCO}/{direction}"].depth
            found[direction] = [_at(k, queries.size, by_task) for k in DEPTHS if depth is None or k <= depth]
    return {direction: rows for direction, rows in found.items() if rows}


def align(ranks: Mapping[str, BestRanks], direction: str) -> tuple[IntArray, dict[str, FloatArray]]:
    """All (Q,) queries of a direction, and each label task to its (Q,) best ranks for them.

    Queries come in the order of the first task that has them; a rank is NaN where a task does not judge the query.

    Example:
        >>> one, other = BestRanks(np.array([5, 6]), np.array([2, 3])), BestRanks(np.array([6]), np.array([1]))
        >>> queries, by_task = align({"coco_5k/i2t": one, "eccv_caption/i2t": other}, "i2t")
        >>> queries.tolist(), by_task["eccv_caption"].tolist()
        ([5, 6], [nan, 1.0])
    """
    own = {task: ranks[f"{task}/{direction}"] for task in label_tasks() if f"{task}/{direction}" in ranks}
    ids = np.concatenate([best.query_ids for best in own.values()])
    queries = ids[np.sort(np.unique(ids, return_index=True)[1])]
    by_task = {}
    for task, best in own.items():
        places, known = positions_of(queries, best.query_ids)
        by_task[task] = np.where(known, best.ranks[places], np.nan)
    return queries, by_task


def _at(k: int, n_queries: int, by_task: Mapping[str, FloatArray]) -> Verdicts:
    right: NDArray[np.bool_] = np.zeros(n_queries, dtype=bool)
    added = {}
    for task, best in by_task.items():
        now = right | (best <= k)
        added[task] = int(now.sum() - right.sum())
        right = now
    judged = {task: int(np.count_nonzero(~np.isnan(best))) for task, best in by_task.items()}
    return Verdicts(k, added, int(np.count_nonzero(~right)), judged)


def finding(row: Verdicts) -> str:
    """What the other labels say of the errors under COCO, in a sentence.

    Example:
        >>> finding(Verdicts(1, {"coco_5k": 6, "cxc": 1}, 3, {}))
        'COCO calls the first item wrong for 4 of 10 queries; CxC calls it right for 1 of these (25.0%).'
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
