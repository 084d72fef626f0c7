"""Ranks of models under a metric, with their intervals, and over all labels of a gallery."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cxc_eccv.comparison.pairing import Pair
from cxc_eccv.report.best_ranks import label_tasks
from cxc_eccv.statistics import NamedInterval, interval, mean_interval, queries_to_detect, rank_intervals
from cxc_eccv.types import FloatArray

SAMPLES_USED = 10_000
"""More samples do not sharpen the ranks."""


@dataclass(frozen=True, slots=True)
class ModelRank:
    """The rank of a model under one metric.

    Attributes:
        model: name.
        task, direction, metric: the key's parts.
        value: score, in the report's units.
        value_low, value_high: interval of the score, from the samples of the comparison.
        interval_method: how that interval was made; see :func:`cxc_eccv.statistics.mean_interval`.
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
    value_low: float
    value_high: float
    interval_method: str
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


def rank_models(
    joined: Pair, drawn: FloatArray, names: Sequence[str], confidence: float, score_confidence: float
) -> list[ModelRank]:
    """A row per model, the best first, from (M, S) drawn scores.

    ``confidence`` is that of the ranks under this metric, and ``score_confidence`` that of each score's interval.
    """
    result = joined.results[0]
    values = np.array([row.value for row in joined.results])
    higher = joined.spec.higher_is_better
    clusters = np.unique(joined.images).size
    intervals = rank_intervals(values, drawn[:, :SAMPLES_USED], clusters, confidence, higher_is_better=higher)
    groups = intervals.groups
    ends = [_find_interval(joined, place, of_model, score_confidence) for place, of_model in enumerate(drawn)]
    scores = values if higher else -values
    order = np.lexsort((np.arange(values.size), -scores)).tolist()
    return [
        ModelRank(
            model=names[place],
            task=result.task,
            direction=result.direction,
            metric=result.metric,
            value=float(values[place]),
            value_low=ends[place].low,
            value_high=ends[place].high,
            interval_method=ends[place].method,
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


def _find_interval(joined: Pair, place: int, samples: FloatArray, confidence: float) -> NamedInterval:
    """The interval of one model's score from its (S,) drawn scores, as a report has it."""
    spec = joined.spec
    if joined.parts or spec.aggregate != "mean":
        return NamedInterval(*interval(samples, confidence), "bootstrap")
    values = joined.values[:, place]
    return mean_interval(values, joined.images, samples, confidence, is_binary=spec.binary, bounds=spec.bounds)


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


def name_ranks(low: int, high: int) -> str:
    """One rank, or a range of ranks."""
    return str(low) if low == high else f"{low}-{high}"
