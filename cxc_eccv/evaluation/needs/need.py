"""What a part of a task needs of a run, and what was measured of it: two values, with a reading between them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, Self, TypeVar

import pyarrow as pa

from cxc_eccv.errors import CxcEccvError, DataError, InvalidOption
from cxc_eccv.evaluation.bounds import ProbabilitiesOf, Units
from cxc_eccv.evaluation.policies import Unjudged
from cxc_eccv.evaluation.request import Request, Sides
from cxc_eccv.metrics.spec import Kind, Spec, Variant
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


class Undefined(DataError):
    """A metric has no value on this data, which leaves only this metric out of the report."""


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
    ties: int = 0
    coverage: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)  # further parameters of the result
    queries: QueryValues | None = None
    samples: FloatArray | None = None  # resampled numbers
    spread: float | None = None  # standard deviation of the samples, for a metric that is their mean

    @classmethod
    def of_queries(cls, variant: Variant[Spec], queries: QueryValues, ties: int) -> Self:
        """The mean or median over queries."""
        return cls(variant.spec.average(queries.values), queries.values.size, ties, queries=queries)


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """One result of a report with the values behind it."""

    variant: Variant[Spec]
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
class Need(ABC, Generic[Judged, Kind]):
    """The input of some metrics of one part of a task; a run must hold its queries and gallery."""

    task: Task
    part: str
    judged: Judged
    variants: tuple[Variant[Kind], ...]
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
        return replace(self, depth=request.depth)

    @abstractmethod
    def reading(self, ranker: Ranked) -> Reading:
        """What the pass over a run computes."""

    @abstractmethod
    def measured(self, outputs: Outputs) -> Measured[Kind]:
        """What the pass computed."""

    def looks_at(self, variant: Variant[Kind]) -> int:
        """Number of items of a query that count as retrieved in bounds of a metric."""
        return variant.k or self.depth or 0


@dataclass(frozen=True, slots=True, eq=False)
class Measured(ABC, Generic[Kind]):
    """What was measured for a need, from which the values and bounds of its metrics follow.

    Attributes:
        need: the need.
        errors: label to error, for metrics that cannot be computed.
        unbounded: label to reason, for metrics whose bounds cannot be computed.
        cautions: warnings for the user.
    """

    need: Need[Any, Kind]
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
    def values(self, variant: Variant[Kind], seed: int = 0) -> Values:
        """The number of a metric, with what it was computed from; Undefined if it has none."""

    def resample(self, variant: Variant[Kind], draws: Draws) -> FloatArray | None:
        """(S,) numbers over draws of the queries, for a metric without values of queries; None if it has none."""
        return None

    def bounds(self, variant: Variant[Kind]) -> Bounds | None:
        """The bounds of a metric over all labels of unjudged pairs, or None."""
        return None

    def unjudged(self, variant: Variant[Kind]) -> Units:
        """The pairs without a label that can change a number, by the units that the number averages.

        Raises:
            InvalidOption: labels of some pairs do not determine the number, or rankings end before such pairs.
        """
        label, direction = variant.label, self.need.direction
        if label in self.errors:
            raise self.errors[label]
        if label in self.unbounded:
            raise InvalidOption(f"{self.need.key}/{label}: {self.unbounded[label]}")
        is_open = direction in CROSS_MODAL and variant.spec.unit == "percent" and variant.spec.is_open
        units = self.make_units(variant) if is_open else None
        if units is None:
            raise InvalidOption(
                f"{self.need.key}/{label} cannot be estimated from answers about some pairs: choose a mean between "
                "images and captions that only labels of retrieved pairs can change, such as recall_at_k, mrr_at_k, "
                "map_at_r, r_precision or entail_at_k"
            )
        return units

    def make_units(self, variant: Variant[Kind]) -> Units | None:
        """The units of a metric; None if labels of some retrieved pairs do not determine it."""
        return None


def describe_cut(number: int, total: int) -> list[str]:
    """A warning about rankings that end within a tie; none if none does."""
    if not number:
        return []
    return [
        f"{number:,} of {total:,} rankings end within a tie that the scores depend on: items that they leave out may "
        "tie too, so the scores may be too high. Rank more items"
    ]
