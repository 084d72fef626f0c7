"""Needs of what readers of rows learn (top items, plausible matches, judged items), and of similarities of pairs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from cxc_eccv.errors import DataError, MalformedRun
from cxc_eccv.evaluation.bounds import (
    ProbabilitiesOf,
    Units,
    ask_probabilities,
    bounds_of_matches,
    bounds_of_top,
    units_of_top,
)
from cxc_eccv.evaluation.needs.need import (
    Judged,
    Measured,
    Need,
    QueryValues,
    Reading,
    Undefined,
    Values,
)
from cxc_eccv.evaluation.request import Sides
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
    TopK,
    find_positions,
    look_up_gains,
)
from cxc_eccv.types.ids import make_indptr
from cxc_eccv.types.strict_json import Json
from cxc_eccv.unjudged.judges import policy_name
from cxc_eccv.unjudged.policies import Classifier, policies


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredRows(Measured[Kind]):
    """Label of a metric to what it is computed from."""

    results: Mapping[str, Any]

    def values(self, variant: Variant[Kind], seed: int = 0) -> Values:
        """The mean of a metric over the queries."""
        result = self.results[variant.label]
        values = variant.compute(result)
        queries = QueryValues(result.query_ids, values)
        if_ties_help = values if result.if_ties_help is None else variant.compute(result.if_ties_help)
        return Values.of_queries(variant, queries, int(np.count_nonzero(result.ties)), if_ties_help)


class MeasuredJudged(MeasuredRows[JudgedMetric]):
    """Ranks of judged items."""

    def expect_by_chance(self, variant: Variant[JudgedMetric]) -> float | None:
        """The value to expect in a random order of the judged items of each query, for metrics of these alone."""
        if variant.spec.chance is None:
            return None
        condensed = self.results[variant.label].judged_only
        order = RandomOrder.of(condensed.n_gallery, condensed.n_positives, np.diff(condensed.indptr))
        return variant.spec.chance(order, **variant.parameters)


class MeasuredMatches(MeasuredRows[PlausibleMetric]):
    """Plausible matches, where categories decide every pair."""

    def bounds(self, variant: Variant[PlausibleMetric]) -> Bounds:
        """Both bounds are the value."""
        return bounds_of_matches(variant, self.results[variant.label])


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredTops(MeasuredRows[TopMetric]):
    """Top items, a further top for bounds of metrics at R, and a judge's answers about unjudged items."""

    need: TopItems
    further: TopK | None = None
    policy: str = "not_entailed"
    labelled: Judgments | None = None  # with the labels of a classifier
    probabilities: FloatArray | None = None  # (Q, D) of the items of the deepest top

    @property
    def n_asked(self) -> int:
        """Number of pairs that a classifier labelled."""
        return 0 if self.labelled is None else self.labelled.indices.size - self.need.judged.indices.size

    def judged_by(self, policy: str | Classifier, probabilities: ProbabilitiesOf | None) -> Self:
        """The same with labels for metrics with a policy, and probabilities for bounds, each asked for once."""
        variants = [variant for variant in self.need.variants if variant.label in self.results]
        judged = self
        if any(variant.spec.has_policy for variant in variants):
            judged = replace(self, policy=policy_name(policy), labelled=self._label(policy))
        bounded = [variant for variant in variants if variant.label not in self.unbounded]
        if self.need.depth is None or probabilities is None or self.need.direction not in CROSS_MODAL or not bounded:
            return judged
        top = _find_deepest([*self.results.values(), *([self.further] if self.further else [])])
        is_open = ~look_up_gains(top, self.need.judged, max(map(self.need.looks_at, bounded)), self.need.key)[1]
        direction = self.need.direction
        ids = top.ids
        return replace(judged, probabilities=ask_probabilities(probabilities, direction, top.query_ids, ids, is_open))

    def _label(self, policy: str | Classifier) -> Judgments | None:
        """The judgments with a classifier's labels of all unjudged items down to the greatest depth."""
        if isinstance(policy, str):
            return None
        need = self.need
        top = _find_deepest(self.results.values())
        judged = look_up_gains(top, need.judged, top.depth, need.key)[1]
        rows, columns, labels = ask_labels(policy, top, judged, need.key)
        return need.judged.with_gains(rows, find_positions(top.ids[rows, columns], need.gallery_ids)[0], labels)

    def values(self, variant: Variant[TopMetric], seed: int = 0) -> Values:
        """The mean of a metric, under the policy for unjudged pairs if it has one."""
        top = self.results[variant.label]
        judgments = self.need.judged
        depths = self.need.depths(variant)
        k = int(depths.max())
        gains, judged = look_up_gains(top, judgments, k, variant.label)
        looked_at = np.arange(gains.shape[1]) < depths[:, None]
        ties = count_tied_tops(top, gains, looked_at)
        coverage = float(judged[looked_at].mean())
        facts: dict[str, Json] = {"unjudged": self.policy} if variant.spec.has_policy else {}
        queries = self._find_values(variant, top)
        if facts and self.labelled is None and policies()[self.policy].needs_label:
            facts["queries_left_out"] = self.need.query_ids.size - queries.ids.size
        values = Values.of_queries(variant, queries, ties, self._find_values_if_ties_help(variant, queries))
        return replace(values, coverage=coverage, facts=facts)

    def _find_values(self, variant: Variant[TopMetric], top: TopK) -> QueryValues:
        """The value of every query that the policy keeps."""
        judgments = self.need.judged
        if not variant.spec.has_policy:
            return QueryValues(top.query_ids, variant.compute(top, judgments))
        if self.labelled is not None:
            return QueryValues(top.query_ids, variant.compute(top, self.labelled))
        if policies()[self.policy].needs_label:
            k = int(self.need.depths(variant).max())
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

    def bounds(self, variant: Variant[TopMetric]) -> Bounds | None:
        """The bounds of a metric, or None."""
        top = self.further if variant.k is None else self.results[variant.label]
        if top is None or variant.label in self.unbounded:
            return None
        return bounds_of_top(variant, top, self.need.judged, self.need.looks_at(variant), self.probabilities)

    def make_units(self, variant: Variant[TopMetric]) -> Units | None:
        """A unit per retrieved pair."""
        if variant.spec.gains != "labels" or variant.k is None:
            return None
        top = self.results[variant.label]
        units = units_of_top(top, self.need.judged, variant.k, self.need.direction, self.probabilities)
        if self.labelled is None:
            return units
        labels = look_up_gains(top, self.labelled, variant.k, variant.label)[0]
        return replace(units, labels=labels.ravel()[units.owners])


def _find_deepest(tops: Iterable[TopK]) -> TopK:
    return max(tops, key=lambda top: top.depth)


@dataclass(frozen=True, slots=True, eq=False)
class _FromRows(Need[Judged, Kind]):
    """A need of a reader of rows of the score matrix; rankings may be long enough for some metrics only."""

    measured_as: ClassVar[type[MeasuredRows[Any]]] = MeasuredRows

    @abstractmethod
    def make_reader(self, variants: Sequence[Variant[Kind]]) -> RowReader:
        """A reader of the input of these metrics."""

    def reading(self, ranker: Ranked) -> Reading:
        """A reader for all metrics, or for each metric of rankings."""
        if not ranker.run.may_be_cut:
            reader = self.make_reader(self.variants)
            return Reading(readers={variant.label: reader for variant in self.variants})
        return Reading(readers={variant.label: self.make_reader([variant]) for variant in self.variants})

    def measured(self, reading: Reading) -> MeasuredRows[Kind]:
        """What the readers learnt, and the errors of those whose rankings are too short."""
        readers = reading.readers
        errors = {label: reader.error for label, reader in readers.items() if reader.error is not None}
        results = {reader: reader.result for reader in readers.values() if reader.error is None}
        by_label = {label: results[reader] for label, reader in readers.items() if reader in results}
        n_cut = max(reader.n_cut for reader in readers.values())
        return self.measured_as(self, errors, {}, n_cut, by_label)


class JudgedItems(_FromRows[Judgments, JudgedMetric]):
    """Ranks of all judged items, negatives too."""

    measured_as = MeasuredJudged

    def make_reader(self, variants: Sequence[Variant[JudgedMetric]]) -> RowReader:
        """A reader of the ranks."""
        return JudgedRows(self.judged)


class MatchCounts(_FromRows[CategoryMatches, PlausibleMetric]):
    """Plausible matches among the top of every ranking."""

    measured_as = MeasuredMatches

    def make_reader(self, variants: Sequence[Variant[PlausibleMetric]]) -> RowReader:
        """A reader of the matches at the criteria of these metrics."""
        criteria = dict.fromkeys(criterion for variant in variants for criterion in variant.spec.criteria)
        return PlausibleRows(self.judged, tuple(criteria))


class TopItems(_FromRows[Judgments, TopMetric]):
    """The top K of every query, or the top R for a metric without K, with judgments with gains."""

    def depths(self, variant: Variant[TopMetric]) -> IntArray:
        """(Q,) depth of a metric: K or R."""
        wanted = self.judged.n_relevant
        return wanted if variant.k is None else np.full_like(wanted, variant.k)

    def make_reader(self, variants: Sequence[Variant[TopMetric]]) -> RowReader:
        """A reader of the top items down to the greatest depth of these metrics."""
        return TopRows(self.judged, max(int(self.depths(variant).max()) for variant in variants))

    def reading(self, ranker: Ranked) -> Reading:
        """The top items; for bounds of metrics at R further ones, as labels add to R."""
        reading = super().reading(ranker)
        if self.depth is None or all(variant.k for variant in self.variants):
            return reading
        return replace(reading, bounds=[TopRows(self.judged, int(self.judged.n_relevant.max()) + self.depth)])

    def measured(self, reading: Reading) -> MeasuredTops:
        """The top items, and the reason of metrics at R without bounds."""
        rows = super().measured(reading)
        unbounded: dict[str, str] = {}
        further: TopK | None = None
        for reader in reading.bounds:
            if reader.error is None:
                further = reader.result
            else:
                reason = f"{reader.error} Or set a smaller bounds_depth (--bounds-depth), as each label adds one to R."
                unbounded = {each.label: reason for each in self.variants if each.k is None}
        return MeasuredTops(self, rows.errors, unbounded, rows.n_cut, rows.results, further)


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
class MeasuredPairs(Measured[RatedMetric]):
    """The similarity of every rated pair."""

    pairs: RatedPairs
    similarities: FloatArray

    def values(self, variant: Variant[RatedMetric], seed: int = 0) -> Values:
        """The number of a metric; of a metric with samples their mean and standard deviation (ddof 0)."""
        options = {"seed": seed} if variant.spec.draws_samples else {}
        try:
            values = variant.compute(self.pairs, self.similarities, **options)
        except (DataError, MalformedRun) as error:
            raise Undefined(str(error)) from error
        n_queries = int(np.unique(self.pairs.query_ids).size)
        number = float(values.mean())
        if not values.ndim:
            return Values(number, n_queries)
        return Values(number, n_queries, facts={"n_samples": values.size}, samples=values, spread=float(values.std()))

    def resample(self, variant: Variant[RatedMetric], draws: Draws) -> FloatArray | None:
        """(S,) numbers over draws of the queries, each with all its pairs; None for a metric that gives none."""
        sample = variant.spec.samples
        if sample is None:
            return None
        query_ids, clusters = np.unique(self.pairs.query_ids, return_inverse=True)
        return sample(self.pairs, self.similarities, draws.times(query_ids.size), clusters)


class PairSimilarities(Need[RatedPairs, RatedMetric]):
    """The similarity of every rated pair."""

    @classmethod
    def why_not(cls, sides: Sides, direction: str) -> str | None:
        """Why the run has no similarities, or None."""
        return sides.why_unrated(direction)

    def reading(self, ranker: Ranked) -> Reading:
        """The similarities of the pairs."""
        return Reading(pairs=self.judged)

    def measured(self, reading: Reading) -> MeasuredPairs:
        """The similarities."""
        assert reading.similarities is not None  # noqa: S101 - the reading has pairs
        return MeasuredPairs(self, {}, {}, 0, self.judged, reading.similarities)
