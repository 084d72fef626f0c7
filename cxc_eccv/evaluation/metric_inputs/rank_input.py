"""Ranks of the positives of every query, as the input of metrics of ranks, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import RunTooShallow
from cxc_eccv.evaluation.bounds import (
    ProbabilitiesOf,
    Retrieved,
    SamplingUnits,
    ask_probabilities,
    bound_ranks,
    make_rank_units,
    read_tops,
    retrieve,
)
from cxc_eccv.evaluation.metric_inputs.metric_input import (
    MetricInput,
    MetricValues,
    PassRequest,
    PassResult,
    QueryValues,
)
from cxc_eccv.evaluation.request import Request
from cxc_eccv.judgments.merging import judged_pairs
from cxc_eccv.metrics.chances import RandomOrder
from cxc_eccv.metrics.kinds import RankMetric, Variant
from cxc_eccv.ranking import Ranked
from cxc_eccv.ranking.counts import count_reachable, gallery_sizes
from cxc_eccv.ranking.cut_rankings import GivenRanks, values_at_known_depth
from cxc_eccv.ranking.readers import TopRows
from cxc_eccv.ranking.ties import drop_cut
from cxc_eccv.sources.library import Library
from cxc_eccv.types import CROSS_MODAL, Bounds, FloatArray, IntArray, Judgments, PositiveRanks
from cxc_eccv.types.ids import find_fold_rows
from cxc_eccv.unjudged.policies import Classifier

NOBODY_JUDGED = np.empty(0, np.int64), np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class RankInput(MetricInput[Judgments, RankMetric]):
    """Ranks of the positives of every query; pairs of queries and items that somebody judged, for bounds."""

    judged_pairs: tuple[IntArray, IntArray] = NOBODY_JUDGED

    def with_bounds(self, request: Request, library: Library, sources: Sequence[str]) -> Self:
        """The input with bounds, in which a pair is judged if a source says anything of it."""
        split = library.split(request.split, self.task.collection)
        if verdicts := self.task.part(self.part).verdicts:
            judged = verdicts(split, self.direction)
            pairs = judged.query_ids[judged.rows], judged.gallery_ids[judged.indices]
        else:
            pairs = judged_pairs(split, self.direction, sources or self.task.sources_in(split))
        return replace(self, depth=request.depth, judged_pairs=pairs)

    def make_request(self, ranker: Ranked) -> PassRequest:
        """The ranks, and the top of every query for bounds, as deep as the shortest ranking."""
        if self.depth is None:
            return PassRequest(self.judged)
        depth = ranker.limit_depth(max(map(self.find_bounds_depth, self.variants)), self.judged, self.direction)
        return PassRequest(self.judged, bound_readers=read_tops(self.judged, self.judged_pairs, depth))

    def make_result(self, request: PassRequest) -> RankResult:
        """The ranks, with the top of every query for bounds."""
        assert request.ranks is not None  # noqa: S101 - the request has judgments
        return self.use_ranks(request.ranks, request.bound_readers)

    def use_ranks(self, ranks: PositiveRanks, tops: Sequence[TopRows] = ()) -> RankResult:
        """What these ranks say, with bounds if there are tops."""
        errors = self._find_unsettled(ranks) if isinstance(ranks, GivenRanks) else {}
        orders = _find_random_orders(self.judged)
        failed = [str(top.error) for top in tops if top.error is not None]
        n_cut = 0
        if isinstance(ranks, GivenRanks):
            n_cut = _count_cut(ranks, [variant for variant in self.variants if variant.label not in errors])
        if self.depth is None or not tops or failed:
            unbounded = dict.fromkeys((variant.label for variant in self.variants), failed[0]) if failed else {}
            return RankResult(self, errors, unbounded, n_cut, ranks, orders)
        unbounded = self._find_unbounded(ranks, tops, self.depth)
        retrieved = retrieve(self.judged, tops, ranks, self.depth)
        return RankResult(self, errors, unbounded, n_cut, ranks, orders, retrieved)

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
            if (items := min(self.find_bounds_depth(variant), smallest)) > held:
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
class RankResult(PassResult[RankMetric]):
    """Ranks of positives, GivenRanks of rankings, and the top of every query if there are bounds.

    ``orders`` are the sizes of the queries of every fold, in which a random order would rank them.
    """

    ranks: PositiveRanks
    orders: Sequence[RandomOrder]
    retrieved: Retrieved | None = None
    probabilities: FloatArray | None = None

    def with_judge(self, policy: str | Classifier, probabilities: ProbabilitiesOf | None) -> Self:
        """The same with probabilities of the pairs that can change a metric, which are asked for once."""
        top = self.retrieved
        direction = self.metric_input.direction
        lacking = {*self.unbounded, *self.errors}
        variants = [variant for variant in self.metric_input.variants if variant.label not in lacking]
        if top is None or probabilities is None or direction not in CROSS_MODAL or not variants:
            return self
        is_open = np.any([top.matters(each) for each in variants], axis=0)
        table = ask_probabilities(probabilities, direction, top.ranks.query_ids, top.ids, is_open)
        return replace(self, probabilities=table)

    def compute_values(self, variant: Variant[RankMetric], seed: int = 0) -> MetricValues:
        """The mean or median of a metric, with the best rank of every query."""
        ranks = self.ranks
        values = variant.compute(ranks)
        best = pa.array(ranks.best, mask=np.diff(ranks.indptr) == 0)
        queries = QueryValues(ranks.query_ids, values, best, self.metric_input.judged.query_folds)
        if_ties_help = values if ranks.if_ties_help is None else variant.compute(ranks.if_ties_help)
        return MetricValues.of_queries(variant, queries, int(np.count_nonzero(ranks.ties)), if_ties_help)

    def expect_by_chance(self, variant: Variant[RankMetric]) -> float | None:
        """The value to expect in a random order of each query's gallery: its fold, without the query itself."""
        if variant.spec.chance is None:
            return None
        of_folds = [variant.spec.chance(order, **variant.parameters) for order in self.orders]
        weights = [order.n_queries.sum() for order in self.orders] if variant.spec.aggregate == "mean" else None
        return float(np.average(of_folds, weights=weights))

    def compute_bounds(self, variant: Variant[RankMetric]) -> Bounds | None:
        """The bounds of a metric, or None."""
        if self.retrieved is None or variant.label in self.unbounded:
            return None
        return bound_ranks(variant, self.retrieved, self.probabilities)

    def make_units(self, variant: Variant[RankMetric]) -> SamplingUnits | None:
        """A unit per query."""
        if self.retrieved is None:
            return None
        return make_rank_units(variant, self.retrieved, self.metric_input.direction, self.probabilities)


def _count_cut(ranks: GivenRanks, variants: Sequence[Variant[RankMetric]]) -> int:
    """Number of rankings with a score that rests on positives tied with the last item."""
    if not ranks.cut.any():
        return 0
    without = drop_cut(ranks)
    differ = [variant.compute(ranks) != variant.compute(without) for variant in variants]
    return int(np.count_nonzero(np.any(differ, axis=0)))
