"""The base of all needs, and the metrics and values that pass through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa

from cxc_eccv.errors import CxcEccvError, RunTooShallow
from cxc_eccv.evaluation.settings import Settings
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.ranking.lists import GivenRanks
from cxc_eccv.ranking.readers import RowReader
from cxc_eccv.runs import RankingsRun, Run
from cxc_eccv.tasks.task import Task, direction_of
from cxc_eccv.types import FloatArray, IntArray, Judgments, PositiveRanks, Result

__all__ = ["AnyRanks", "Judged", "Need", "QueryValues", "Scored", "Variant"]

AnyRanks = PositiveRanks | GivenRanks
"""Ranks of the positives of every query; those of given rankings as far as these tell them."""

Judged = TypeVar("Judged")


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """A metric with the parameters of one call."""

    spec: Spec
    parameters: dict[str, Any]
    shown: bool = True

    @property
    def label(self) -> str:
        """The name in report keys."""
        return self.spec.label(**self.parameters)


@dataclass(frozen=True, slots=True, eq=False)
class QueryValues:
    """One metric's value for each query."""

    ids: IntArray
    values: FloatArray
    best_ranks: pa.Array | None = None
    images: IntArray | None = None
    among: IntArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """One number of a report, in full."""

    variant: Variant
    result: Result
    queries: QueryValues | None = None
    images: IntArray | None = None
    samples: FloatArray | None = None


class Need(Generic[Judged]):
    """What some metrics of one part of a task are computed from."""

    query_ids: IntArray
    gallery_ids: IntArray

    def __init__(self, task: Task, part: str, judged: Judged, variants: Sequence[Variant]) -> None:
        self.task, self.part, self.judged, self.variants = task, part, judged, tuple(variants)
        self.direction = direction_of(part)
        self.requests: Mapping[str, Judgments] = {}
        self.readers: Sequence[RowReader] = ()
        self.errors: dict[str, CxcEccvError] = {}

    @classmethod
    def build(cls, task: Task, part: str, judged: Judged, variants: Sequence[Variant], run: Run) -> list[Need[Judged]]:
        """One for all the metrics, or several where they must be told apart in this kind of run."""
        return [cls(task, part, judged, variants)]

    @classmethod
    def fits(cls, spec: Spec, task: Task) -> bool:
        """Whether what a task offers under this name is what the metric means by it."""
        return True

    @classmethod
    def why_not(cls, run: Run, direction: str) -> str | None:
        """Why a run can never give it, or None."""
        return run.why_not(direction)

    @property
    def key(self) -> str:
        """``task/part``, or the task alone."""
        return f"{self.task.name}/{self.part}" if self.part else self.task.name

    @property
    def caution(self) -> str:
        """What a user is warned of, or nothing."""
        return ""

    def find_too_short(self, run: RankingsRun) -> dict[str, RunTooShallow]:
        """Label of each metric that the mere lengths of rankings rule out, and the error that says where."""
        return {}

    def learn(self, run: Run, ranks: Mapping[str, AnyRanks], similarity: str | None) -> None:
        """Take what the pass over the run gave."""

    def score(self, variant: Variant, settings: Settings) -> list[Scored]:
        """The numbers of one metric, without intervals and bounds."""
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
        """The one number of a metric that has a value for each query: their mean or median."""
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
