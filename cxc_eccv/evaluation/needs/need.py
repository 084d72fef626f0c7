"""The base class of needs, the metrics and values that they handle; needs of ranks, and of other scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import CxcEccvError, InvalidOption, RunTooShallow
from cxc_eccv.evaluation.request import Request, Sides
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.ranking import Ranked
from cxc_eccv.ranking.known_depth import GivenRanks, values_at_known_depth
from cxc_eccv.ranking.readers import RowReader
from cxc_eccv.tasks.task import Task, direction_of
from cxc_eccv.types import FloatArray, IntArray, Judgments, PositiveRanks, Result
from cxc_eccv.types.ids import make_indptr

Judged = TypeVar("Judged")

TIED_SHARE = 0.1


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
    def build(
        cls, task: Task, part: str, judged: Judged, variants: Sequence[Variant], sides: Sides
    ) -> list[Need[Judged]]:
        """One need for all metrics, or several if the kind of run requires it."""
        return [cls(task, part, judged, variants)]

    @classmethod
    def fits(cls, spec: Spec, task: Task) -> bool:
        """Whether the task offers the kind of input that the metric expects."""
        return True

    @classmethod
    def why_not(cls, sides: Sides, direction: str) -> str | None:
        """Why the run cannot provide it, or None."""
        return sides.why_not(direction)

    @property
    def key(self) -> str:
        """``task/part``, or the task alone."""
        return f"{self.task.name}/{self.part}" if self.part else self.task.name

    @property
    def caution(self) -> str:
        """A warning for the user, or an empty string."""
        return ""

    def learn(self, ranker: Ranked, ranks: Mapping[str, PositiveRanks]) -> None:
        """Take the results of the pass over the run."""

    def score(self, variant: Variant, request: Request) -> list[Scored]:
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

    def score(self, variant: Variant, request: Request) -> list[Scored]:
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


def describe_cut(number: int, total: int) -> str:
    """A warning about rankings that end within a tie; empty if none does."""
    if not number:
        return ""
    return (
        f"{number:,} of {total:,} rankings end within a tie that the scores depend on: items that they leave out may "
        "tie too, so the scores may be too high. Rank more items"
    )


class Ranks(Need[Judgments]):
    """Ranks of the positives of every query."""

    ranks: PositiveRanks  # GivenRanks of rankings

    def __init__(self, task: Task, part: str, judged: Judgments, variants: Sequence[Variant]) -> None:
        super().__init__(task, part, judged, variants)
        self.query_ids, self.gallery_ids = judged.query_ids, judged.gallery_ids
        self.requests = {self.key: judged}

    def learn(self, ranker: Ranked, ranks: Mapping[str, PositiveRanks]) -> None:
        """Take the ranks."""
        self.settle(ranks[self.key])

    def settle(self, ranks: PositiveRanks) -> None:
        """Take ranks, and find the metrics that need deeper rankings."""
        self.ranks = ranks
        if isinstance(ranks, GivenRanks):
            self.errors |= self._find_unsettled(ranks)

    @property
    def caution(self) -> str:
        """A warning about rankings that end within a tie, or if many items tie with a positive in many queries."""
        computed = [variant for variant in self.variants if variant.label not in self.errors]
        if n_cut := self._count_cut(computed):
            return describe_cut(n_cut, self.query_ids.size)
        if not computed:
            return ""
        ties, sizes = self.ranks.ties, self.ranks.n_gallery
        decided = int(np.count_nonzero(ties > TIED_SHARE * sizes))
        if decided <= TIED_SHARE * ties.size:
            return ""
        return (
            f"{decided} of {ties.size} queries are decided by ties: more than {TIED_SHARE:.0%} of the gallery scores "
            "exactly as high as a positive, and these items rank above it"
        )

    def _count_cut(self, variants: Sequence[Variant]) -> int:
        """Number of rankings with a score that rests on positives tied with the last item."""
        ranks = self.ranks
        if not isinstance(ranks, GivenRanks) or not ranks.cut.any():
            return 0
        kept = np.arange(ranks.ranks.size) < np.repeat(ranks.indptr[1:] - ranks.cut, ranks.n_found)
        without = replace(ranks, ranks=ranks.ranks[kept], indptr=make_indptr(ranks.n_found - ranks.cut))
        values = ([each.spec.function(given, **each.parameters) for given in (ranks, without)] for each in variants)
        return int(np.count_nonzero(np.any([left != right for left, right in values], axis=0)))

    def score(self, variant: Variant, request: Request) -> list[Scored]:
        """One result, with the best rank of every query."""
        ranks = self.ranks
        values = variant.spec.function(ranks, **variant.parameters)
        best = pa.array(ranks.best, mask=np.diff(ranks.indptr) == 0)
        return self.aggregate(
            variant, QueryValues(ranks.query_ids, values, best), ties=int(np.count_nonzero(ranks.ties))
        )

    def _find_unsettled(self, ranks: GivenRanks) -> dict[str, RunTooShallow]:
        """Label to error, for metrics that need deeper rankings; with folds (COCO 1K) rankings must be whole."""
        if self.judged.gallery_folds is not None and not ranks.complete.all():
            query = np.flatnonzero(~ranks.complete)[0]
            error = RunTooShallow(
                f"folds are cut out of rankings of the whole gallery of {self.gallery_ids.size} items, but that of "
                f"query {self.query_ids[query]} holds {ranks.depths[query]} of the "
                f"{ranks.n_gallery[query]} items of its fold. Rank the whole gallery."
            )
            return dict.fromkeys((variant.label for variant in self.variants), error)
        errors: dict[str, RunTooShallow] = {}
        for variant in self.variants:
            try:
                values_at_known_depth(variant.spec.function, ranks, **variant.parameters)
            except RunTooShallow as error:
                errors[variant.label] = error
        return errors
