"""MetricInput, PassRequest and PassResult: what metrics are computed from, what a pass reads for it, what it found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import CxcEccvError, DataError, InvalidOption
from cxc_eccv.evaluation.bounds import ProbabilitiesOf, SamplingUnits
from cxc_eccv.evaluation.request import Rankable, Request
from cxc_eccv.metrics.kinds import Kind, Spec, Variant
from cxc_eccv.ranking import Ranked
from cxc_eccv.ranking.readers import RowReader, TopRows
from cxc_eccv.sources.library import Library
from cxc_eccv.statistics import Draws
from cxc_eccv.tasks.task import Task
from cxc_eccv.types import (
    CROSS_MODAL,
    Bounds,
    FloatArray,
    IntArray,
    Judgments,
    PositiveRanks,
    RatedPairs,
    RatingBin,
    Result,
    find_positions,
)
from cxc_eccv.types.result import WITHOUT_RESULTS
from cxc_eccv.types.strict_json import Json
from cxc_eccv.unjudged.policies import Classifier


class _Ids(Protocol):
    """What the judgments of every metric input have."""

    @property
    def query_ids(self) -> IntArray: ...
    @property
    def gallery_ids(self) -> IntArray: ...
    def without(self, query_ids: IntArray, gallery_ids: IntArray, /) -> Self: ...


Judged = TypeVar("Judged", bound=_Ids)


class UndefinedMetric(DataError):
    """A metric has no value on this data, which leaves only this metric out of the report."""


@dataclass(frozen=True, slots=True, eq=False)
class QueryValues:
    """One metric's value for each query."""

    ids: IntArray
    values: FloatArray
    best_ranks: pa.Array | None = None  # null where no positive is ranked
    folds: IntArray | None = None  # fold of each query, in a task that averages over folds


@dataclass(frozen=True, slots=True, eq=False)
class MetricValues:
    """The number of one metric, and what it was computed from."""

    number: float
    n_queries: int
    ties: int = 0
    if_ties_help: FloatArray | None = None  # (Q,) values with equal scores in reverse order; None if unknown
    coverage: float | None = None
    facts: Mapping[str, Json] = field(default_factory=dict)  # further parameters of the result
    queries: QueryValues | None = None
    samples: FloatArray | None = None  # resampled numbers
    spread: float | None = None  # standard deviation of the samples, for a metric that is their mean

    @classmethod
    def of_queries(
        cls, variant: Variant[Spec], queries: QueryValues, ties: int, if_ties_help: FloatArray | None = None
    ) -> Self:
        """The mean or median over queries."""
        number = variant.spec.average(queries.values, queries.folds)
        return cls(number, queries.values.size, ties, if_ties_help, queries=queries)

    def with_zeros(self, variant: Variant[Spec], ids: IntArray, folds: IntArray | None, missing_ids: IntArray) -> Self:
        """The number with 0 for ``missing_ids`` too, which are among the ids (Q,) and folds (Q,) of all queries."""
        if self.queries is None:
            raise UndefinedMetric(f"{variant.label} has no value of each query, which could be 0")
        folds = None if self.queries.folds is None else folds
        is_counted = np.isin(ids, self.queries.ids) | np.isin(ids, missing_ids)
        if not is_counted.all():
            ids = ids[is_counted]
            folds = None if folds is None else folds[is_counted]
        places, has_results = find_positions(ids, self.queries.ids)
        best_ranks = self.queries.best_ranks
        if best_ranks is not None:
            best_ranks = best_ranks.take(pa.array(places, mask=~has_results))
        values = np.where(has_results, self.queries.values[places], 0.0)
        if_ties_help = self.if_ties_help
        if if_ties_help is not None:
            if_ties_help = np.where(has_results, if_ties_help[places], 0.0)
        return replace(
            self,
            number=variant.spec.average(values, folds),
            n_queries=ids.size,
            if_ties_help=if_ties_help,
            facts={**self.facts, WITHOUT_RESULTS: missing_ids.size},
            queries=QueryValues(ids, values, best_ranks, folds),
        )


@dataclass(frozen=True, slots=True, eq=False)
class ScoredMetric:
    """One result of a report with the values behind it."""

    variant: Variant[Spec]
    result: Result
    queries: QueryValues | None = None
    decided_by_ties: NDArray[np.bool_] | None = None  # (Q,) whether equal scores in reverse order change a value
    images: IntArray | None = None  # image of each query
    samples: FloatArray | None = None  # resampled numbers


@dataclass(frozen=True, slots=True, eq=False)
class PassRequest:
    """What one pass over a run computes for a metric input; the pass fills its readers, ranks and similarities.

    Attributes:
        judgments: the judgments whose positives are ranked.
        readers: label of a metric to the reader of its input; metrics may share one.
        bound_readers: the readers that bounds over unjudged pairs are computed from.
        pairs: the pairs whose similarities are computed.
        ranks: the ranks, once the pass has found them.
        similarities: the similarities, once the pass has computed them.
    """

    judgments: Judgments | None = None
    readers: Mapping[str, RowReader] = field(default_factory=dict)
    bound_readers: Sequence[TopRows] = ()
    pairs: RatedPairs | None = None
    ranks: PositiveRanks | None = None
    similarities: FloatArray | None = None

    @property
    def all_readers(self) -> list[RowReader]:
        """Every reader once."""
        return [*dict.fromkeys(self.readers.values()), *self.bound_readers]


@dataclass(frozen=True, slots=True, eq=False)
class MetricInput(ABC, Generic[Judged, Kind]):
    """The input of some metrics of one part of a task; a run must hold its queries and gallery.

    ``whole`` are the judgments with the queries without results too, if there are some and they count 0.
    """

    task: Task
    part: str
    judged: Judged
    variants: tuple[Variant[Kind], ...]
    depth: int | None = None  # items that count as retrieved in bounds of metrics without K; None for no bounds
    whole: Judged | None = None

    @classmethod
    def why_not(cls, rankable: Rankable, direction: str) -> str | None:
        """Why the run cannot provide it, or None."""
        return rankable.why_not(direction)

    @property
    def key(self) -> str:
        """``task/part``."""
        return f"{self.task.name}/{self.part}"

    @property
    def direction(self) -> str:
        """The direction of the part."""
        return self.task.part(self.part).direction

    @property
    def query_ids(self) -> IntArray:
        """(Q,) ids that the run must have on the side of queries."""
        return self.judged.query_ids

    @property
    def gallery_ids(self) -> IntArray:
        """(N,) ids that the run must have on the side of the gallery."""
        return self.judged.gallery_ids

    def count_zero(self, query_ids: IntArray) -> Self:
        """The input in which queries that are not among ``query_ids``, which have results, count 0.

        If none of its queries has results, nothing counts 0: the plan leaves its part out, or refuses the run.
        """
        without_results = np.setdiff1d(self.judged.query_ids, query_ids)
        if not without_results.size or without_results.size == self.judged.query_ids.size:
            return self
        nothing = np.empty(0, dtype=np.int64)
        return replace(self, judged=self.judged.without(without_results, nothing), whole=self.judged)

    @property
    def missing_ids(self) -> IntArray:
        """Ids of the queries that count 0, as they have no results."""
        none = np.empty(0, dtype=np.int64)
        return none if self.whole is None else np.setdiff1d(self.whole.query_ids, self.judged.query_ids)

    def find_metrics_without_zero(self) -> Mapping[str, CxcEccvError]:
        """Label to error, for metrics that queries without results cannot count 0 in, as 0 is not their worst value."""
        if self.whole is None:
            return {}
        fault = (
            f"{self.missing_ids.size:,} of the {self.whole.query_ids.size:,} queries have no results, which can count "
            "0 only where 0 is the worst value"
        )
        return {each.label: UndefinedMetric(fault) for each in self.variants if not each.spec.is_worst_at_zero}

    def with_bounds(self, request: Request, library: Library, sources: Sequence[str]) -> Self:
        """The input with bounds over unjudged pairs; ``sources`` replace those of the task."""
        return replace(self, depth=request.depth)

    @abstractmethod
    def make_request(self, ranker: Ranked) -> PassRequest:
        """What a pass over the run computes."""

    @abstractmethod
    def make_result(self, request: PassRequest) -> PassResult[Kind]:
        """What the pass found."""

    def find_bounds_depth(self, variant: Variant[Kind]) -> int:
        """Number of items of a query that count as retrieved in bounds of a metric."""
        return variant.k or self.depth or 0


@dataclass(frozen=True, slots=True, eq=False)
class PassResult(ABC, Generic[Kind]):
    """What a pass found for a metric input, from which the values and bounds of its metrics follow.

    Attributes:
        metric_input: the metric input.
        errors: label to error, for metrics that cannot be computed.
        unbounded: label to reason, for metrics whose bounds cannot be computed.
        n_cut: number of rankings that leave items out and end within a tie that a metric rests on.
    """

    metric_input: MetricInput[Any, Kind]
    errors: Mapping[str, CxcEccvError]
    unbounded: Mapping[str, str]
    n_cut: int

    @property
    def n_classified(self) -> int:
        """Number of pairs that a classifier labelled."""
        return 0

    def with_judge(self, policy: str | Classifier, probabilities: ProbabilitiesOf | None) -> Self:
        """The same with a judge's answers about unjudged pairs: labels by a policy, and probabilities."""
        return self

    @abstractmethod
    def compute_values(self, variant: Variant[Kind], seed: int = 0) -> MetricValues:
        """The number of a metric, with what it was computed from; UndefinedMetric if it has none."""

    def resample(self, variant: Variant[Kind], draws: Draws) -> FloatArray | None:
        """(S,) numbers over draws of the queries, for a metric without values of queries; None if it has none."""
        return None

    def expect_by_chance(self, variant: Variant[Kind]) -> float | None:
        """The value to expect of a metric in a random order of each query's gallery; None without a formula."""
        return None

    def bin_by_rating(self) -> tuple[RatingBin, ...]:
        """The similarities of rated pairs by rating; empty where the part shows none."""
        return ()

    def compute_bounds(self, variant: Variant[Kind]) -> Bounds | None:
        """The bounds of a metric over all labels of unjudged pairs, or None."""
        return None

    def find_unjudged(self, variant: Variant[Kind]) -> SamplingUnits:
        """The pairs without a label that can change a number, by the units that the number averages.

        Raises:
            InvalidOption: labels of some pairs do not determine the number, or rankings end before such pairs.
        """
        label = variant.label
        direction = self.metric_input.direction
        if label in self.errors:
            raise self.errors[label]
        if label in self.unbounded:
            raise InvalidOption(f"{self.metric_input.key}/{label}: {self.unbounded[label]}")
        is_open = direction in CROSS_MODAL and variant.spec.unit == "percent" and variant.spec.is_open
        units = self.make_units(variant) if is_open else None
        if units is None:
            raise InvalidOption(
                f"{self.metric_input.key}/{label} cannot be estimated from answers about some pairs: choose a metric "
                "between images and captions that depends on labels of retrieved pairs alone, such as recall_at_k, "
                "mrr_at_k, map_at_r, r_precision or entail_at_k"
            )
        return units

    def make_units(self, variant: Variant[Kind]) -> SamplingUnits | None:
        """The units of a metric; None if labels of some retrieved pairs do not determine it."""
        return None
