"""What a part of a task needs of a run, and what was measured of it: two values, with a reading between them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, Self, TypeVar

import pyarrow as pa

from cxc_eccv.errors import CxcEccvError, DataError, InvalidOption
from cxc_eccv.evaluation.bounds import ProbabilitiesOf, Units
from cxc_eccv.evaluation.policies import Unjudged
from cxc_eccv.evaluation.request import Request, Sides
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.ranking import Ranked
from cxc_eccv.ranking.readers import RowReader, TopRows
from cxc_eccv.sources.library import Library
from cxc_eccv.statistics import Draws
from cxc_eccv.tasks.task import Task
from cxc_eccv.types import CROSS_MODAL, Bounds, FloatArray, IntArray, Judgments, PositiveRanks, RatedPairs, Result


class _Ids(Protocol):
    """What the judgments of every need have."""

    @property
    def query_ids(self) -> IntArray: ...
    @property
    def gallery_ids(self) -> IntArray: ...


Judged = TypeVar("Judged", bound=_Ids)
Kind = TypeVar("Kind", bound=Spec)
Top = TypeVar("Top")


class Undefined(DataError):
    """A metric has no value on this data, which leaves only this metric out of the report."""


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

    def of(self, kind: type[Kind]) -> Kind:
        """The declaration of the metric, which is of this kind."""
        assert isinstance(self.spec, kind)  # noqa: S101 - a need has metrics of its kind
        return self.spec


@dataclass(frozen=True, slots=True, eq=False)
class QueryValues:
    """One metric's value for each query."""

    ids: IntArray
    values: FloatArray
    best_ranks: pa.Array | None = None  # null where no positive is ranked


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """The number of one metric, and what it was computed from."""

    number: float
    n_queries: int
    parameters: dict[str, Any]
    ties: int = 0
    coverage: float | None = None
    queries: QueryValues | None = None
    samples: FloatArray | None = None  # resampled numbers
    spread: float | None = None  # standard deviation of the samples, for a metric that is their mean

    @classmethod
    def of_queries(
        cls, variant: Variant, queries: QueryValues, ties: int, *, coverage: float | None = None, **parameters: object
    ) -> Self:
        """The mean or median over queries, with the parameters of the metric and further ones."""
        number = variant.spec.average(queries.values)
        return cls(number, queries.values.size, {**variant.parameters, **parameters}, ties, coverage, queries)


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """One result of a report with the values behind it."""

    variant: Variant
    result: Result
    queries: QueryValues | None = None
    images: IntArray | None = None  # image of each query
    samples: FloatArray | None = None  # resampled numbers


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What one pass over a run computes for a need; the pass fills its readers.

    Attributes:
        judgments: the judgments whose positives are ranked.
        readers: label of a metric to the reader of its input; metrics may share one.
        bounds: the readers that bounds over unjudged pairs are computed from.
        pairs: the pairs whose similarities are computed.
    """

    judgments: Judgments | None = None
    readers: Mapping[str, RowReader] = field(default_factory=dict)
    bounds: Sequence[TopRows] = ()
    pairs: RatedPairs | None = None

    @property
    def all_readers(self) -> list[RowReader]:
        """Every reader once."""
        return [*dict.fromkeys(self.readers.values()), *self.bounds]


@dataclass(frozen=True, slots=True, eq=False)
class Outputs:
    """What the pass over a run computed for a reading."""

    reading: Reading
    ranks: PositiveRanks | None = None
    similarities: FloatArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Need(ABC, Generic[Judged]):
    """The input of some metrics of one part of a task; a run must hold its queries and gallery."""

    task: Task
    part: str
    judged: Judged
    variants: tuple[Variant, ...]
    depth: int | None = None  # items that count as retrieved in bounds of metrics without K; None for no bounds

    @classmethod
    def why_not(cls, sides: Sides, direction: str) -> str | None:
        """Why the run cannot provide it, or None."""
        return sides.why_not(direction)

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

    def bounded(self, request: Request, library: Library, sources: Sequence[str]) -> Self:
        """The need with bounds over unjudged pairs; ``sources`` replace those of the task."""
        return self

    @abstractmethod
    def reading(self, ranker: Ranked) -> Reading:
        """What the pass over a run computes."""

    @abstractmethod
    def measured(self, outputs: Outputs) -> Measured:
        """What the pass computed."""

    def looks_at(self, variant: Variant) -> int:
        """Number of items of a query that count as retrieved in bounds of a metric."""
        return int(variant.parameters.get("k", self.depth or 0))


@dataclass(frozen=True, slots=True, eq=False)
class Measured(ABC):
    """What was measured for a need, from which the values and bounds of its metrics follow.

    Attributes:
        need: the need.
        errors: label to error, for metrics that cannot be computed.
        unbounded: label to reason, for metrics whose bounds cannot be computed.
        cautions: warnings for the user.
    """

    need: Need[Any]
    errors: Mapping[str, CxcEccvError]
    unbounded: Mapping[str, str]
    cautions: Sequence[str]

    @property
    def n_asked(self) -> int:
        """Number of pairs that a classifier labelled."""
        return 0

    def judged_by(self, unjudged: Unjudged, probabilities: ProbabilitiesOf | None) -> Self:
        """The same with a judge's answers about unjudged pairs: labels by a policy, and probabilities."""
        return self

    @abstractmethod
    def values(self, variant: Variant, seed: int = 0) -> Values:
        """The number of a metric, with what it was computed from; Undefined if it has none."""

    def resample(self, variant: Variant, draws: Draws) -> FloatArray | None:
        """(S,) numbers over draws of the queries, for a metric without values of queries; None if it has none."""
        return None

    def bounds(self, variant: Variant) -> Bounds | None:
        """The bounds of a metric over all labels of unjudged pairs, or None."""
        return None

    def unjudged(self, variant: Variant) -> tuple[IntArray, IntArray]:
        """(P,) image ids and (P,) caption ids of the pairs without a label that can change a number."""
        raise self.refuse_estimate(variant)

    def units(self, variant: Variant) -> Units:
        """The units that a metric averages, with the unjudged pairs that can change their values."""
        raise self.refuse_estimate(variant)

    def refuse_estimate(self, variant: Variant) -> InvalidOption:
        """The error of a metric that labels of some retrieved pairs do not determine."""
        return InvalidOption(
            f"{self.need.key}/{variant.label} cannot be estimated from answers about some pairs: choose a mean between "
            "images and captions that only labels of retrieved pairs can change, such as recall_at_k, mrr_at_k, "
            "map_at_r, r_precision or entail_at_k"
        )

    def require_open(self, variant: Variant, top: Top | None) -> Top:
        """The top of every query; raises the error of a metric whose unjudged pairs cannot be listed."""
        spec = variant.spec
        if variant.label in self.unbounded:
            raise InvalidOption(f"{self.need.key}/{variant.label}: {self.unbounded[variant.label]}")
        if variant.label in self.errors:
            raise self.errors[variant.label]
        if self.need.direction not in CROSS_MODAL or spec.unit != "percent" or not spec.is_open or top is None:
            raise self.refuse_estimate(variant)
        return top

    def require_judge(self, variant: Variant, probabilities: FloatArray | None) -> FloatArray:
        """The probabilities of the judge; InvalidOption if there is none."""
        if probabilities is None:
            raise InvalidOption(
                f"{self.need.key}/{variant.label} needs a judge: give probabilities of pairs, or a classifier of "
                "entailment"
            )
        return probabilities


def describe_cut(number: int, total: int) -> list[str]:
    """A warning about rankings that end within a tie; none if none does."""
    if not number:
        return []
    return [
        f"{number:,} of {total:,} rankings end within a tie that the scores depend on: items that they leave out may "
        "tie too, so the scores may be too high. Rank more items"
    ]
