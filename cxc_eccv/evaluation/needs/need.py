"""Need and Measured: what the metrics of a part are computed from, and what a pass over the run measured."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import CxcEccvError, DataError, InvalidOption, RunTooShallow
from cxc_eccv.evaluation.bounds import (
    ProbabilitiesOf,
    Retrieved,
    Units,
    ask_probabilities,
    bounds_of_ranks,
    read_tops,
    retrieve,
    units_of_ranks,
)
from cxc_eccv.evaluation.request import Request, Sides
from cxc_eccv.judgments.merging import judged_pairs
from cxc_eccv.metrics.chances import RandomOrder
from cxc_eccv.metrics.kinds import Kind, RankMetric, Spec, Variant
from cxc_eccv.ranking import Ranked
from cxc_eccv.ranking.counts import count_reachable, gallery_sizes
from cxc_eccv.ranking.cut_rankings import GivenRanks, values_at_known_depth
from cxc_eccv.ranking.readers import RowReader, TopRows
from cxc_eccv.ranking.ties import drop_cut
from cxc_eccv.sources.library import Library
from cxc_eccv.statistics import Draws
from cxc_eccv.tasks.task import Task
from cxc_eccv.types import CROSS_MODAL, Bounds, FloatArray, IntArray, Judgments, PositiveRanks, RatedPairs, Result
from cxc_eccv.types.ids import find_fold_rows
from cxc_eccv.types.strict_json import Json
from cxc_eccv.unjudged.policies import Classifier


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
    folds: IntArray | None = None  # fold of each query, in a task that averages over folds


@dataclass(frozen=True, slots=True, eq=False)
class Values:
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


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """One result of a report with the values behind it."""

    variant: Variant[Spec]
    result: Result
    queries: QueryValues | None = None
    decided_by_ties: NDArray[np.bool_] | None = None  # (Q,) whether equal scores in reverse order change a value
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
        ranks: the ranks that the pass found.
        similarities: the similarities that it found.
    """

    judgments: Judgments | None = None
    readers: Mapping[str, RowReader] = field(default_factory=dict)
    bounds: Sequence[TopRows] = ()
    pairs: RatedPairs | None = None
    ranks: PositiveRanks | None = None
    similarities: FloatArray | None = None

    @property
    def all_readers(self) -> list[RowReader]:
        """Every reader once."""
        return [*dict.fromkeys(self.readers.values()), *self.bounds]


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
    def measured(self, reading: Reading) -> Measured[Kind]:
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
        n_cut: number of rankings that leave items out and end within a tie that a metric rests on.
    """

    need: Need[Any, Kind]
    errors: Mapping[str, CxcEccvError]
    unbounded: Mapping[str, str]
    n_cut: int

    @property
    def n_asked(self) -> int:
        """Number of pairs that a classifier labelled."""
        return 0

    def judged_by(self, policy: str | Classifier, probabilities: ProbabilitiesOf | None) -> Self:
        """The same with a judge's answers about unjudged pairs: labels by a policy, and probabilities."""
        return self

    @abstractmethod
    def values(self, variant: Variant[Kind], seed: int = 0) -> Values:
        """The number of a metric, with what it was computed from; Undefined if it has none."""

    def resample(self, variant: Variant[Kind], draws: Draws) -> FloatArray | None:
        """(S,) numbers over draws of the queries, for a metric without values of queries; None if it has none."""
        return None

    def expect_by_chance(self, variant: Variant[Kind]) -> float | None:
        """The value to expect of a metric in a random order of each query's gallery; None without a formula."""
        return None

    def bounds(self, variant: Variant[Kind]) -> Bounds | None:
        """The bounds of a metric over all labels of unjudged pairs, or None."""
        return None

    def unjudged(self, variant: Variant[Kind]) -> Units:
        """The pairs without a label that can change a number, by the units that the number averages.

        Raises:
            InvalidOption: labels of some pairs do not determine the number, or rankings end before such pairs.
        """
        label = variant.label
        direction = self.need.direction
        if label in self.errors:
            raise self.errors[label]
        if label in self.unbounded:
            raise InvalidOption(f"{self.need.key}/{label}: {self.unbounded[label]}")
        is_open = direction in CROSS_MODAL and variant.spec.unit == "percent" and variant.spec.is_open
        units = self.make_units(variant) if is_open else None
        if units is None:
            raise InvalidOption(
                f"{self.need.key}/{label} cannot be estimated from answers about some pairs: choose a metric "
                "between images and captions that depends on labels of retrieved pairs alone, such as recall_at_k, "
                "mrr_at_k, map_at_r, r_precision or entail_at_k"
            )
        return units

    def make_units(self, variant: Variant[Kind]) -> Units | None:
        """The units of a metric; None if labels of some retrieved pairs do not determine it."""
        return None


NO_PAIRS = np.empty(0, np.int64), np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Ranks(Need[Judgments, RankMetric]):
    """Ranks of the positives of every query; pairs of queries and items that somebody judged, for bounds."""

    judged_pairs: tuple[IntArray, IntArray] = NO_PAIRS

    def bounded(self, request: Request, library: Library, sources: Sequence[str]) -> Self:
        """The need with bounds, in which a pair is judged if a source says anything of it."""
        split = library.split(request.split, self.task.collection)
        if verdicts := self.task.part(self.part).verdicts:
            judged = verdicts(split, self.direction)
            pairs = judged.query_ids[judged.rows], judged.gallery_ids[judged.indices]
        else:
            pairs = judged_pairs(split, self.direction, sources or self.task.sources_in(split))
        return replace(self, depth=request.depth, judged_pairs=pairs)

    def reading(self, ranker: Ranked) -> Reading:
        """The ranks, and the top of every query for bounds, as deep as the shortest ranking."""
        if self.depth is None:
            return Reading(self.judged)
        depth = ranker.limit_depth(max(map(self.looks_at, self.variants)), self.judged, self.direction)
        return Reading(self.judged, bounds=read_tops(self.judged, self.judged_pairs, depth))

    def measured(self, reading: Reading) -> MeasuredRanks:
        """The ranks, with the top of every query for bounds."""
        assert reading.ranks is not None  # noqa: S101 - the reading has judgments
        return self.of_ranks(reading.ranks, reading.bounds)

    def of_ranks(self, ranks: PositiveRanks, tops: Sequence[TopRows] = ()) -> MeasuredRanks:
        """What these ranks say, with bounds if there are tops."""
        errors = self._find_unsettled(ranks) if isinstance(ranks, GivenRanks) else {}
        orders = _find_random_orders(self.judged)
        failed = [str(top.error) for top in tops if top.error is not None]
        n_cut = 0
        if isinstance(ranks, GivenRanks):
            n_cut = _count_cut(ranks, [variant for variant in self.variants if variant.label not in errors])
        if self.depth is None or not tops or failed:
            unbounded = dict.fromkeys((variant.label for variant in self.variants), failed[0]) if failed else {}
            return MeasuredRanks(self, errors, unbounded, n_cut, ranks, orders)
        unbounded = self._find_unbounded(ranks, tops, self.depth)
        retrieved = retrieve(self.judged, tops, ranks, self.depth)
        return MeasuredRanks(self, errors, unbounded, n_cut, ranks, orders, retrieved)

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

    def _find_unbounded(self, ranks: PositiveRanks, tops: Sequence[TopRows], depth: int) -> dict[str, str]:
        """Label to reason, for metrics whose bounds look below the rankings."""
        held = min(top.depth for top in tops)
        smallest = int(min(gallery_sizes(self.judged)))
        unbounded: dict[str, str] = {}
        least = min(depth, held)
        if isinstance(ranks, GivenRanks):
            # Labels add to R, so a metric at R may look below the retrieved items for known positives.
            needed = np.where(ranks.complete, 0, ranks.n_positives + least)
            if (short := ranks.depths < needed).any():
                reason = (
                    f"with labels for all {least} retrieved items it looks at the top {needed.max()}, but a ranking "
                    f"ends at rank {ranks.depths[short].min()}; set a smaller bounds_depth (--bounds-depth) or rank "
                    "more items"
                )
                unbounded = {variant.label: reason for variant in self.variants if not variant.spec.best_rank}
        for variant in self.variants:
            if (items := min(self.looks_at(variant), smallest)) > held:
                unbounded[variant.label] = (
                    f"bounds look at the top {items}, but the rankings hold {held} items; set bounds_depth={held} "
                    f"(--bounds-depth {held}) or rank more items"
                )
        return unbounded


def _find_random_orders(judged: Judgments) -> list[RandomOrder]:
    """The queries of every fold, by the sizes of their galleries and the numbers of their positives."""
    sizes = gallery_sizes(judged)
    reachable = count_reachable(judged)
    return [
        RandomOrder.of(sizes[rows], judged.n_positives[rows], reachable[rows])
        for rows in find_fold_rows(judged.query_folds, sizes.size)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredRanks(Measured[RankMetric]):
    """Ranks of positives, GivenRanks of rankings, and the top of every query if there are bounds.

    ``orders`` are the sizes of the queries of every fold, in which a random order would rank them.
    """

    ranks: PositiveRanks
    orders: Sequence[RandomOrder]
    retrieved: Retrieved | None = None
    probabilities: FloatArray | None = None

    def judged_by(self, policy: str | Classifier, probabilities: ProbabilitiesOf | None) -> Self:
        """The same with probabilities of the pairs that can change a metric, which are asked for once."""
        top = self.retrieved
        direction = self.need.direction
        lacking = {*self.unbounded, *self.errors}
        variants = [variant for variant in self.need.variants if variant.label not in lacking]
        if top is None or probabilities is None or direction not in CROSS_MODAL or not variants:
            return self
        is_open = np.any([top.matters(each) for each in variants], axis=0)
        table = ask_probabilities(probabilities, direction, top.ranks.query_ids, top.ids, is_open)
        return replace(self, probabilities=table)

    def values(self, variant: Variant[RankMetric], seed: int = 0) -> Values:
        """The mean or median of a metric, with the best rank of every query."""
        ranks = self.ranks
        values = variant.compute(ranks)
        best = pa.array(ranks.best, mask=np.diff(ranks.indptr) == 0)
        queries = QueryValues(ranks.query_ids, values, best, self.need.judged.query_folds)
        if_ties_help = values if ranks.if_ties_help is None else variant.compute(ranks.if_ties_help)
        return Values.of_queries(variant, queries, int(np.count_nonzero(ranks.ties)), if_ties_help)

    def expect_by_chance(self, variant: Variant[RankMetric]) -> float | None:
        """The value to expect in a random order of each query's gallery: its fold, without the query itself."""
        if variant.spec.chance is None:
            return None
        of_folds = [variant.spec.chance(order, **variant.parameters) for order in self.orders]
        weights = [order.n_queries.sum() for order in self.orders] if variant.spec.aggregate == "mean" else None
        return float(np.average(of_folds, weights=weights))

    def bounds(self, variant: Variant[RankMetric]) -> Bounds | None:
        """The bounds of a metric, or None."""
        if self.retrieved is None or variant.label in self.unbounded:
            return None
        return bounds_of_ranks(variant, self.retrieved, self.probabilities)

    def make_units(self, variant: Variant[RankMetric]) -> Units | None:
        """A unit per query."""
        if self.retrieved is None:
            return None
        return units_of_ranks(variant, self.retrieved, self.need.direction, self.probabilities)


def _count_cut(ranks: GivenRanks, variants: Sequence[Variant[RankMetric]]) -> int:
    """Number of rankings with a score that rests on positives tied with the last item."""
    if not ranks.cut.any():
        return 0
    without = drop_cut(ranks)
    values = ([each.compute(given) for given in (ranks, without)] for each in variants)
    return int(np.count_nonzero(np.any([left != right for left, right in values], axis=0)))
