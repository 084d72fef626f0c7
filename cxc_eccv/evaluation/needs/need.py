"""The base class of needs, and the metrics and values that they handle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import CxcEccvError, InvalidOption, RunTooShallow
from cxc_eccv.evaluation.settings import Settings
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.ranking.lists import GivenRanks
from cxc_eccv.ranking.readers import RowReader
from cxc_eccv.runs import RankingsRun, Run
from cxc_eccv.tasks.task import Task, direction_of
from cxc_eccv.types import FloatArray, IntArray, Judgments, PositiveRanks, Result

AnyRanks = PositiveRanks | GivenRanks
"""Ranks of the positives of every query; those from rankings may be incomplete."""

Judged = TypeVar("Judged")


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """A metric with the parameters of one call."""

    spec: Spec
    parameters: dict[str, Any]
    shown: bool = True  # False if it is computed only for another metric

    @property
    def label(self) -> str:
        """The name in report keys."""
        return self.spec.label(**self.parameters)


@dataclass(frozen=True, slots=True, eq=False)
class QueryValues:
    """One metric's value for each query."""

    ids: IntArray
    values: FloatArray
    best_ranks: pa.Array | None = None  # null where no positive is ranked
    images: IntArray | None = None  # image of each query; None if it follows from the query id
    among: IntArray | None = None  # images from which intervals draw; None for the images of the queries


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """One result of a report with the values behind it."""

    variant: Variant
    result: Result
    queries: QueryValues | None = None
    images: IntArray | None = None  # image of each query
    samples: FloatArray | None = None  # resampled numbers


class Need(Generic[Judged]):
    """The input of some metrics of one part of a task; a run must hold its queries and gallery."""

    query_ids: IntArray
    gallery_ids: IntArray

    def __init__(self, task: Task, part: str, judged: Judged, variants: Sequence[Variant]) -> None:
        self.task, self.part, self.judged, self.variants = task, part, judged, tuple(variants)
        self.direction = direction_of(part)
        self.requests: Mapping[str, Judgments] = {}  # name of ranks to the judgments whose positives to rank
        self.readers: Sequence[RowReader] = ()
        self.errors: dict[str, CxcEccvError] = {}  # by label, for metrics that cannot be computed

    @classmethod
    def build(cls, task: Task, part: str, judged: Judged, variants: Sequence[Variant], run: Run) -> list[Need[Judged]]:
        """One need for all metrics, or several if the kind of run requires it."""
        return [cls(task, part, judged, variants)]

    @classmethod
    def fits(cls, spec: Spec, task: Task) -> bool:
        """Whether the task offers the kind of input that the metric expects."""
        return True

    @classmethod
    def why_not(cls, run: Run, direction: str) -> str | None:
        """Why the run cannot provide it, or None."""
        return run.why_not(direction)

    @property
    def key(self) -> str:
        """``task/part``, or the task alone."""
        return f"{self.task.name}/{self.part}" if self.part else self.task.name

    @property
    def caution(self) -> str:
        """A warning for the user, or an empty string."""
        return ""

    def find_too_short(self, run: RankingsRun) -> dict[str, RunTooShallow]:
        """Label to error, for metrics that need longer rankings, as far as the lengths alone show."""
        return {}

    def learn(self, run: Run, ranks: Mapping[str, AnyRanks], similarity: str | None) -> None:
        """Take the results of the pass over the run."""

    def score(self, variant: Variant, settings: Settings) -> list[Scored]:
        """The results of one metric, without intervals and bounds."""
        raise NotImplementedError

    def aggregate(
        self,
        variant: Variant,
        queries: QueryValues,
        *,
        ties: int,
        coverage: float | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> list[Scored]:
        """The result of a metric with a value for each query: their mean or median."""
        values = queries.values
        row = Result(
            self.task.name,
            self.part,
            variant.label,
            variant.spec.average(values),
            values.size,
            ties=ties,
            coverage=coverage,
            parameters=dict(variant.parameters) if parameters is None else parameters,
        )
        return [Scored(variant, row, queries)]


class OtherScores(Need[Mapping[str, Sequence[Scored]]]):
    """Scores of all directions of one task, for example for RSUM; their samples share the draws."""

    def __init__(
        self, task: Task, part: str, judged: Mapping[str, Sequence[Scored]], variants: Sequence[Variant]
    ) -> None:
        super().__init__(task, part, judged, variants)
        for variant in variants:
            if lacking := self._find_lacking(variant.spec):
                self.errors[variant.label] = InvalidOption(f"needs {' and '.join(lacking)} too")

    def score(self, variant: Variant, settings: Settings) -> list[Scored]:
        """One result."""
        spec, directions = variant.spec, list(self.judged.values())
        inputs = [row for rows in self.inputs(spec) for row in rows]
        value = float(spec.function(np.array([row.result.value for row in inputs])))
        n_queries, ties = (sum(getattr(rows[0].result, name) for rows in directions) for name in ("n_queries", "ties"))
        samples = [row.samples for row in inputs if row.samples is not None]
        row = Result(self.task.name, self.part, variant.label, value, n_queries, ties=ties)
        return [Scored(variant, row, samples=spec.function(np.stack(samples, axis=-1)) if samples else None)]

    def inputs(self, spec: Spec) -> list[list[Scored]]:
        """The scores of each direction that a metric uses."""
        return [[row for row in rows if row.variant.label in spec.inputs] for rows in self.judged.values()]

    def _find_lacking(self, spec: Spec) -> list[str]:
        """Missing directions, or scores of a direction."""
        labels = {direction: [row.variant.label for row in rows] for direction, rows in self.judged.items()}
        lacking: list[str] = []
        for direction in self.task.directions:
            if direction in labels:
                lacking += [f"{direction}/{label}" for label in spec.inputs if label not in labels[direction]]
            else:
                lacking.append(direction)
        return lacking
