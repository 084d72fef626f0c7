"""Best ranks of queries under the labels of each task that ranks the same galleries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow.compute as pc

from cxc_eccv.judgments.evidence.source import label_sources
from cxc_eccv.registry import tasks
from cxc_eccv.report.report_data import ReportData
from cxc_eccv.types import FloatArray, IntArray, find_positions

COCO = "coco_5k"


@cache
def label_tasks() -> tuple[str, ...]:
    """Tasks that rank the same galleries under different labels, COCO 5K first, then in the order of their sources.

    Other tasks under the original links rank something else: folds or other pairs.
    """
    order = list(label_sources())
    coco = [task for task in tasks().values() if task.collection.is_default]
    ranking = [task for task in coco if task.parts_with("ranks") and not task.of_label_files]
    labelled = [task for task in ranking if set(task.label_sources) - set(tasks()[COCO].label_sources)]
    labelled.sort(key=lambda task: max(order.index(source) for source in task.label_sources))
    return (COCO, *(task.name for task in labelled))


@dataclass(frozen=True, slots=True, eq=False)
class BestRanks:
    """Queries (Q,) and the 1-based ranks (Q,) of their best positives, infinite if none is within ``depth``."""

    query_ids: IntArray
    ranks: FloatArray
    depth: int | None = None

    @property
    def finite(self) -> IntArray:
        """The finite ranks."""
        return self.ranks[np.isfinite(self.ranks)].astype(np.int64)


def best_ranks(report: ReportData) -> dict[str, BestRanks]:
    """``task/direction`` to the best ranks of its queries, for tasks that rank positives."""
    if report.per_query is None:
        return {}
    table = report.per_query
    lists = report.provenance.run.directions
    keys = pc.binary_join_element_wise(table["task"].cast("string"), table["direction"].cast("string"), "/")
    encoded = keys.combine_chunks().dictionary_encode()
    codes = encoded.indices.to_numpy()
    metrics = np.asarray(table["metric"].cast("string"))
    queries = np.asarray(table["query_id"])
    ranks = np.asarray(pc.fill_null(table["best_rank"].cast("double"), np.inf))
    by_key = {}
    for code, key in enumerate(encoded.dictionary.to_pylist()):
        rows = np.flatnonzero(codes == code)
        rows = rows[metrics[rows] == metrics[rows[0]]]  # every metric repeats the rank
        if np.isfinite(ranks[rows]).any():
            depth = lists[name].shallowest if (name := key.partition("/")[2]) in lists else None
            by_key[key] = BestRanks(queries[rows], ranks[rows], depth)
    return by_key


def directions_judged(ranks: Mapping[str, BestRanks]) -> list[str]:
    """Directions that at least one of the label tasks ranks, in the order of the report."""
    return list(dict.fromkeys(key.partition("/")[2] for key in ranks if key.partition("/")[0] in label_tasks()))


def align(ranks: Mapping[str, BestRanks], direction: str) -> tuple[IntArray, dict[str, FloatArray]]:
    """All (Q,) queries of a direction, and task to (Q,) best ranks, NaN for queries that the task does not judge."""
    ranked = {task: ranks[f"{task}/{direction}"] for task in label_tasks() if f"{task}/{direction}" in ranks}
    ids = np.concatenate([best.query_ids for best in ranked.values()])
    queries = ids[np.sort(np.unique(ids, return_index=True)[1])]
    by_task = {}
    for task, best in ranked.items():
        places, known = find_positions(queries, best.query_ids)
        by_task[task] = np.where(known, best.ranks[places], np.nan)
    return queries, by_task
