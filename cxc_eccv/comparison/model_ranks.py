"""Ranks of all models under each metric, with the models that cannot be told apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cxc_eccv.comparison.pairing import Pair
from cxc_eccv.evaluation.best_ranks import label_tasks
from cxc_eccv.statistics import queries_to_detect, rank_intervals
from cxc_eccv.tables import MISSING, Table
from cxc_eccv.types import DIRECTIONS, FloatArray
from cxc_eccv.wording import list_names, task_name

SAMPLES_USED = 10_000
"""More samples do not sharpen the ranks."""


@dataclass(frozen=True, slots=True)
class ModelRank:
    """The rank of a model under one metric.

    Attributes:
        model: name.
        task, direction, metric: the key's parts.
        value: score, in the report's units.
        rank: 1 plus the number of models with a better score.
        low, high: best and worst rank; see :func:`cxc_eccv.statistics.rank_intervals`.
        groups: letters; two models share one if and only if they cannot be told apart.
        tied_with: each model that cannot be told apart, to the number of queries that would do it if the scores are the
            true ones, None for equal scores or too few samples.
    """

    model: str
    task: str
    direction: str
    metric: str
    value: float
    rank: int
    low: int
    high: int
    groups: str
    tied_with: Mapping[str, int | None]

    @property
    def key(self) -> str:
        """``task/direction/metric``, as in report.json."""
        return "/".join(part for part in (self.task, self.direction, self.metric) if part)

    @property
    def interval(self) -> str:
        """The ranks in words: ``3`` or ``3-7``."""
        return name_ranks(self.low, self.high)


def rank_models(joined: Pair, drawn: FloatArray, names: Sequence[str], confidence: float) -> list[ModelRank]:
    """A row per model, the best first, from (M, S) drawn scores."""
    result, values = joined.results[0], np.array([row.value for row in joined.results])
    higher = joined.spec.higher_is_better
    clusters = np.unique(joined.images).size
    intervals = rank_intervals(values, drawn[:, :SAMPLES_USED], clusters, confidence, higher_is_better=higher)
    groups, scores = intervals.groups, values if higher else -values
    order = np.lexsort((np.arange(values.size), -scores)).tolist()
    return [
        ModelRank(
            model=names[place],
            task=result.task,
            direction=result.direction,
            metric=result.metric,
            value=float(values[place]),
            rank=1 + int(np.count_nonzero(scores > scores[place])),
            low=int(intervals.low[place]),
            high=int(intervals.high[place]),
            groups=groups[place],
            tied_with={
                names[other]: queries_to_detect(
                    values[place] - values[other], intervals.detectable[place, other], result.n_queries
                )
                for other in order
                if other != place and intervals.tied[place, other]
            },
        )
        for place in order
    ]


def ranks_under_any_labels(ranks: Iterable[ModelRank]) -> dict[str, dict[str, tuple[int, int]]]:
    """Direction to model to its best and worst rank under any labels of the same gallery, if two or more rank it."""
    by_direction: dict[str, dict[str, list[ModelRank]]] = {}
    for row in ranks:
        if row.task in label_tasks():
            by_direction.setdefault(row.direction, {}).setdefault(row.model, []).append(row)
    placed = {}
    for direction, by_model in by_direction.items():
        n_tasks = len({row.task for rows in by_model.values() for row in rows})
        placed[direction] = {
            model: (min(row.low for row in rows), max(row.high for row in rows))
            for model, rows in by_model.items()
            if len(rows) == n_tasks > 1
        }
    return {direction: by_model for direction, by_model in placed.items() if by_model}


LONGEST_NAME = 30
"""Longer names of models stand below a table."""


def group_ranks(ranks: Iterable[ModelRank]) -> dict[str, dict[str, list[ModelRank]]]:
    """Direction to task to its rows, the directions of pairs of modalities first."""
    order = {direction: place for place, direction in enumerate(DIRECTIONS)}
    groups: dict[str, dict[str, list[ModelRank]]] = {}
    for row in sorted(ranks, key=lambda row: order.get(row.direction, len(order))):
        groups.setdefault(row.direction, {}).setdefault(row.task, []).append(row)
    return groups


def rank_tables(
    ranks: Sequence[ModelRank], confidence: float, any_labels: Mapping[str, Mapping[str, tuple[int, int]]]
) -> list[Table]:
    """A table per direction with a row per model and a column per task, and the ranks under any labels."""
    models = dict.fromkeys(row.model for row in ranks)
    shown = {model: model if len(model) <= LONGEST_NAME else f"model {place}" for place, model in enumerate(models, 1)}
    ranks = [replace(row, model=shown[row.model]) for row in ranks]
    legend = [f"{short}: {model}" for model, short in shown.items() if short != model]
    tables = [
        _rank_table(
            direction,
            by_task,
            {shown[model]: bounds for model, bounds in any_labels.get(direction, {}).items()},
        )
        for direction, by_task in group_ranks(ranks).items()
    ]
    if not tables:
        return []
    notes = [*legend, *explain_ranks(ranks, confidence, any_labels=bool(any_labels))]
    return [*tables[:-1], replace(tables[-1], notes=notes)]


def _rank_table(
    direction: str, by_task: Mapping[str, Sequence[ModelRank]], union: Mapping[str, tuple[int, int]]
) -> Table:
    columns = [{row.model: f"{row.interval} {row.groups}" for row in rows} for rows in by_task.values()]
    names = [task_name(task) for task in by_task]
    if union:
        columns.append({model: name_ranks(*bounds) for model, bounds in union.items()})
        names.append("any labels")
    models = dict.fromkeys(model for column in columns for model in column)
    rows = [[model, *(column.get(model, MISSING) for column in columns)] for model in models]
    return Table([(name,) for name in ("", *names)], rows, f"Ranks, {direction or 'all parts'}")


def explain_ranks(ranks: Sequence[ModelRank], confidence: float, *, any_labels: bool) -> list[str]:
    """What the ranks and their letters mean, in sentences."""
    labels = list_names(task_name(task) for task in label_tasks() if task in {row.task for row in ranks})
    return [
        f"Ranks by the main metric of each task; with {100 * confidence:g}% confidence, all of them hold together. Two "
        "models share a letter if and only if they cannot be told apart.",
        *([f"Any labels: the rank under any of {labels}."] if any_labels else []),
    ]


def name_ranks(low: int, high: int) -> str:
    """One rank, or a range of ranks."""
    return str(low) if low == high else f"{low}-{high}"
