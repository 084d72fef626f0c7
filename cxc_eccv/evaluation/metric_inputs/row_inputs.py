"""Inputs that readers of rows learn (top items, plausible matches, judged items), and similarities of pairs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar, Self

import numpy as np

from cxc_eccv.errors import DataError, MalformedRun
from cxc_eccv.evaluation.bounds import (
    ProbabilitiesOf,
    SamplingUnits,
    ask_probabilities,
    bound_matches,
    bound_top,
    make_top_units,
)
from cxc_eccv.evaluation.metric_inputs.metric_input import (
    Judged,
    MetricInput,
    MetricValues,
    PassRequest,
    PassResult,
    QueryValues,
    UndefinedMetric,
)
from cxc_eccv.evaluation.request import Rankable
from cxc_eccv.judgments.plausible import CategoryMatches
from cxc_eccv.metrics.chances import RandomOrder
from cxc_eccv.metrics.entail_at_k import ask_labels
from cxc_eccv.metrics.kinds import JudgedMetric, Kind, PlausibleMetric, RatedMetric, TopMetric, Variant
from cxc_eccv.ranking import Ranked
from cxc_eccv.ranking.readers import JudgedRows, PlausibleRows, RowReader, TopRows
from cxc_eccv.ranking.ties import count_tied_tops
from cxc_eccv.statistics import Draws
from cxc_eccv.types import (
    CROSS_MODAL,
    Bounds,
    FloatArray,
    IntArray,
    Judgments,
    RatedPairs,
    RatingBin,
    TopK,
    find_positions,
    look_up_gains,
)
from cxc_eccv.types.ids import make_indptr
from cxc_eccv.types.rating_bin import bin_similarities
from cxc_eccv.types.strict_json import Json
from cxc_eccv.unjudged.judges import policy_name
from cxc_eccv.unjudged.policies import Classifier, policies


@dataclass(frozen=True, slots=True, eq=False)
class RowResult(PassResult[Kind]):
    """Label of a metric to what it is computed from."""

    results: Mapping[str, Any]

    def compute_values(self, variant: Variant[Kind], seed: int = 0) -> MetricValues:
        """The mean of a metric over the queries."""
        result = self.results[variant.label]
        values = variant.compute(result)
        queries = QueryValues(result.query_ids, values)
        if_ties_help = values if result.if_ties_help is None else variant.compute(result.if_ties_help)
        return MetricValues.of_queries(variant, queries, int(np.count_nonzero(result.ties)), if_ties_help)


class JudgedRankResult(RowResult[JudgedMetric]):
    """Ranks of judged items."""

    def expect_by_chance(self, variant: Variant[JudgedMetric]) -> float | None:
        """The value to expect in a random order of the judged items of each query, for metrics of these alone."""
        if variant.spec.chance is None:
            return None
        condensed = self.results[variant.label].judged_only
        order = RandomOrder.of(condensed.n_gallery, condensed.n_positives, np.diff(condensed.indptr))
        return variant.spec.chance(order, **variant.parameters)


class MatchResult(RowResult[PlausibleMetric]):
    """Plausible matches, where categories decide every pair."""

    def compute_bounds(self, variant: Variant[PlausibleMetric]) -> Bounds:
        """Both bounds are the value."""
        return bound_matches(variant, self.results[variant.label])


@dataclass(frozen=True, slots=True, eq=False)
class TopResult(RowResult[TopMetric]):
    """Top items, a further top for bounds of metrics at R, and a judge's answers about unjudged items."""

    metric_input: TopInput
    further: TopK | None = None
    policy: str = "not_entailed"
    labelled: Judgments | None = None  # with the labels of a classifier
    probabilities: FloatArray | None = None  # (Q, D) of the items of the deepest top

    @property
    def n_classified(self) -> int:
        """Number of pairs that a classifier labelled."""
        return 0 if self.labelled is None else self.labelled.indices.size - self.metric_input.judged.indices.size

    def with_judge(self, policy: str | Classifier, probabilities: ProbabilitiesOf | None) -> Self:
        """The same with labels for metrics with a policy, and probabilities for bounds, each asked for once."""
        top_input = self.metric_input
        direction = top_input.direction
        variants = [variant for variant in top_input.variants if variant.label in self.results]
        judged = self
        if any(variant.spec.has_policy for variant in variants):
            judged = replace(self, policy=policy_name(policy), labelled=self._label(policy))
        bounded = [variant for variant in variants if variant.label not in self.unbounded]
        if top_input.depth is None or probabilities is None or direction not in CROSS_MODAL or not bounded:
            return judged
        tops = [*self.results.values()]
        if self.further is not None:
            tops.append(self.further)
        top = _find_deepest(tops)
        depth = max(map(top_input.find_bounds_depth, bounded))
        is_judged = look_up_gains(top, top_input.judged, depth, top_input.key)[1]
        table = ask_probabilities(probabilities, direction, top.query_ids, top.ids, ~is_judged)
        return replace(judged, probabilities=table)

    def _label(self, policy: str | Classifier) -> Judgments | None:
        """The judgments with a classifier's labels of all unjudged items down to the greatest depth."""
        if isinstance(policy, str):
            return None
        judgments = self.metric_input.judged
        key = self.metric_input.key
        top = _find_deepest(self.results.values())
        is_judged = look_up_gains(top, judgments, top.depth, key)[1]
        rows, columns, labels = ask_labels(policy, top, is_judged, key)
        items = find_positions(top.ids[rows, columns], judgments.gallery_ids)[0]
        return judgments.with_gains(rows, items, labels)

    def compute_values(self, variant: Variant[TopMetric], seed: int = 0) -> MetricValues:
        """The mean of a metric, under the policy for unjudged pairs if it has one."""
        top = self.results[variant.label]
        judgments = self.metric_input.judged
        depths = self.metric_input.depths(variant)
        k = int(depths.max())
        gains, judged = look_up_gains(top, judgments, k, variant.label)
        looked_at = np.arange(gains.shape[1]) < depths[:, None]
        ties = count_tied_tops(top, gains, looked_at)
        coverage = float(judged[looked_at].mean())
        facts: dict[str, Json] = {"unjudged": self.policy} if variant.spec.has_policy else {}
        queries = self._find_values(variant, top)
        if facts and self.labelled is None and policies()[self.policy].needs_label:
            facts["queries_left_out"] = self.metric_input.query_ids.size - queries.ids.size
        values = MetricValues.of_queries(variant, queries, ties, self._find_values_if_ties_help(variant, queries))
        return replace(values, coverage=coverage, facts=facts)

    def _find_values(self, variant: Variant[TopMetric], top: TopK) -> QueryValues:
        """The value of every query that the policy keeps."""
        judgments = self.metric_input.judged
        if not variant.spec.has_policy:
            return QueryValues(top.query_ids, variant.compute(top, judgments))
        if self.labelled is not None:
            return QueryValues(top.query_ids, variant.compute(top, self.labelled))
        if policies()[self.policy].needs_label:
            k = int(self.metric_input.depths(variant).max())
            judged = look_up_gains(top, judgments, k, variant.label)[1]
            top, judgments = _keep_queries(top, judgments, np.flatnonzero(judged.any(axis=1)))
            if not top.query_ids.size:
                raise DataError(
                    f"{variant.label}: no query has a labelled pair among its top {k}; choose another policy"
                )
        return QueryValues(top.query_ids, variant.compute(top, judgments, unjudged=self.policy))

    def _find_values_if_ties_help(self, variant: Variant[TopMetric], queries: QueryValues) -> FloatArray | None:
        """(Q,) the values of the same queries if ties helped; None where a judge labelled the pairs of one order."""
        top = self.results[variant.label]
        if variant.spec.has_policy and self.labelled is not None:
            return None
        if top.if_ties_help is None:
            return queries.values
        helped = self._find_values(variant, top.if_ties_help)
        places, is_kept = find_positions(queries.ids, helped.ids)
        return np.where(is_kept, helped.values[places], queries.values)

    def compute_bounds(self, variant: Variant[TopMetric]) -> Bounds | None:
        """The bounds of a metric, or None."""
        top = self.further if variant.k is None else self.results[variant.label]
        if top is None or variant.label in self.unbounded:
            return None
        depth = self.metric_input.find_bounds_depth(variant)
        return bound_top(variant, top, self.metric_input.judged, depth, self.probabilities)

    def make_units(self, variant: Variant[TopMetric]) -> SamplingUnits | None:
        """A unit per retrieved pair."""
        if variant.spec.gains != "labels" or variant.k is None:
            return None
        top = self.results[variant.label]
        direction = self.metric_input.direction
        units = make_top_units(top, self.metric_input.judged, variant.k, direction, self.probabilities)
        if self.labelled is None:
            return units
        labels = look_up_gains(top, self.labelled, variant.k, variant.label)[0]
        return replace(units, labels=labels.ravel()[units.owners])


def _find_deepest(tops: Iterable[TopK]) -> TopK:
    return max(tops, key=lambda top: top.depth)


@dataclass(frozen=True, slots=True, eq=False)
class RowInput(MetricInput[Judged, Kind]):
    """What a reader of rows of the score matrix learns; rankings may be long enough for some metrics only."""

    result_type: ClassVar[type[RowResult[Any]]] = RowResult

    @abstractmethod
    def make_reader(self, variants: Sequence[Variant[Kind]]) -> RowReader:
        """A reader of the input of these metrics."""

    def make_request(self, ranker: Ranked) -> PassRequest:
        """A reader for all metrics, or for each metric of rankings."""
        if not ranker.run.may_be_cut:
            reader = self.make_reader(self.variants)
            return PassRequest(readers={variant.label: reader for variant in self.variants})
        return PassRequest(readers={variant.label: self.make_reader([variant]) for variant in self.variants})

    def make_result(self, request: PassRequest) -> RowResult[Kind]:
        """What the readers learnt, and the errors of those whose rankings are too short."""
        readers = request.readers
        errors = {label: reader.error for label, reader in readers.items() if reader.error is not None}
        results = {reader: reader.result for reader in readers.values() if reader.error is None}
        by_label = {label: results[reader] for label, reader in readers.items() if reader in results}
        n_cut = max(reader.n_cut for reader in readers.values())
        return self.result_type(self, errors, {}, n_cut, by_label)


class JudgedRankInput(RowInput[Judgments, JudgedMetric]):
    """Ranks of all judged items, negatives too."""

    result_type = JudgedRankResult

    def make_reader(self, variants: Sequence[Variant[JudgedMetric]]) -> RowReader:
        """A reader of the ranks."""
        return JudgedRows(self.judged)


class MatchInput(RowInput[CategoryMatches, PlausibleMetric]):
    """Plausible matches among the top of every ranking."""

    result_type = MatchResult

    def make_reader(self, variants: Sequence[Variant[PlausibleMetric]]) -> RowReader:
        """A reader of the matches at the criteria of these metrics."""
        criteria = chain.from_iterable(variant.spec.criteria for variant in variants)
        return PlausibleRows(self.judged, tuple(dict.fromkeys(criteria)))


class TopInput(RowInput[Judgments, TopMetric]):
    """The top K of every query, or the top R for a metric without K, with judgments with gains."""

    def depths(self, variant: Variant[TopMetric]) -> IntArray:
        """(Q,) depth of a metric: K or R."""
        wanted = self.judged.n_relevant
        return wanted if variant.k is None else np.full_like(wanted, variant.k)

    def make_reader(self, variants: Sequence[Variant[TopMetric]]) -> RowReader:
        """A reader of the top items down to the greatest depth of these metrics."""
        return TopRows(self.judged, max(int(self.depths(variant).max()) for variant in variants))

    def make_request(self, ranker: Ranked) -> PassRequest:
        """The top items; for bounds of metrics at R further ones, as labels add to R."""
        request = super().make_request(ranker)
        if self.depth is None or all(variant.k for variant in self.variants):
            return request
        return replace(request, bound_readers=[TopRows(self.judged, int(self.judged.n_relevant.max()) + self.depth)])

    def make_result(self, request: PassRequest) -> TopResult:
        """The top items, and the reason of metrics at R without bounds."""
        rows = super().make_result(request)
        unbounded: dict[str, str] = {}
        further: TopK | None = None
        for reader in request.bound_readers:
            if reader.error is None:
                further = reader.result
            else:
                reason = f"{reader.error} Or set a smaller bounds_depth (--bounds-depth), as each label adds one to R."
                unbounded = {each.label: reason for each in self.variants if each.k is None}
        return TopResult(self, rows.errors, unbounded, rows.n_cut, rows.results, further)


def _keep_queries(top: TopK, judgments: Judgments, rows: IntArray) -> tuple[TopK, Judgments]:
    entries = np.isin(judgments.rows, rows)
    return TopK(top.query_ids[rows], top.ids[rows]), replace(
        judgments,
        query_ids=judgments.query_ids[rows],
        indptr=make_indptr(np.diff(judgments.indptr)[rows]),
        indices=judgments.indices[entries],
        unreachable=judgments.unreachable[rows],
        gains=None if judgments.gains is None else judgments.gains[entries],
    )


@dataclass(frozen=True, slots=True, eq=False)
class SimilarityResult(PassResult[RatedMetric]):
    """The similarity of every rated pair."""

    pairs: RatedPairs
    similarities: FloatArray

    def compute_values(self, variant: Variant[RatedMetric], seed: int = 0) -> MetricValues:
        """The number of a metric; of a metric with samples their mean and standard deviation (ddof 0)."""
        options = {"seed": seed} if variant.spec.draws_samples else {}
        try:
            values = variant.compute(self.pairs, self.similarities, **options)
        except (DataError, MalformedRun) as error:
            raise UndefinedMetric(str(error)) from error
        n_queries = int(np.unique(self.pairs.query_ids).size)
        number = float(values.mean())
        if not values.ndim:
            return MetricValues(number, n_queries)
        facts: dict[str, Json] = {"n_samples": values.size}
        return MetricValues(number, n_queries, facts=facts, samples=values, spread=float(values.std()))

    def resample(self, variant: Variant[RatedMetric], draws: Draws) -> FloatArray | None:
        """(S,) numbers over draws of the queries, each with all its pairs; None for a metric that gives none."""
        sample = variant.spec.samples
        if sample is None:
            return None
        query_ids, clusters = np.unique(self.pairs.query_ids, return_inverse=True)
        return sample(self.pairs, self.similarities, draws.times(query_ids.size), clusters)

    def bin_by_rating(self) -> tuple[RatingBin, ...]:
        """The similarities of the pairs by rating; empty where the part names no ranges."""
        metric_input = self.metric_input
        edges = metric_input.task.part(metric_input.part).rating_edges
        return bin_similarities(self.pairs.ratings, self.similarities, edges)


class SimilarityInput(MetricInput[RatedPairs, RatedMetric]):
    """The similarity of every rated pair."""

    @classmethod
    def why_not(cls, rankable: Rankable, direction: str) -> str | None:
        """Why the run has no similarities, or None."""
        return rankable.why_unrated(direction)

    def make_request(self, ranker: Ranked) -> PassRequest:
        """The similarities of the pairs."""
        return PassRequest(pairs=self.judged)

    def make_result(self, request: PassRequest) -> SimilarityResult:
        """The similarities."""
        assert request.similarities is not None  # noqa: S101 - the request has pairs
        return SimilarityResult(self, {}, {}, 0, self.judged, request.similarities)
