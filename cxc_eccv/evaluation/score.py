"""The numbers of what was measured, with their intervals and bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from cxc_eccv.errors import raise_all
from cxc_eccv.evaluation.answers import Answers
from cxc_eccv.evaluation.bounds import bound_sums
from cxc_eccv.evaluation.measure import MeasuredPart
from cxc_eccv.evaluation.metric_inputs import PassResult, QueryValues, ScoredMetric, UndefinedMetric
from cxc_eccv.evaluation.plan import Plan, PlannedPart
from cxc_eccv.evaluation.request import Request
from cxc_eccv.metrics.kinds import RatedMetric, Spec, Variant
from cxc_eccv.ranking.scores import one_blas_thread, workers
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.statistics import ClusterBootstrap, Draws, NamedInterval, interval, mean_interval, wilson
from cxc_eccv.types import Bounds, FloatArray, IntArray, RatingBin, Result
from cxc_eccv.types.result import SPREAD


@dataclass(frozen=True, slots=True, eq=False)
class ScoredPart:
    """The results of a part of a task, or of the whole task, and the reasons for those that are missing."""

    part: PlannedPart
    rows: Sequence[ScoredMetric]
    reasons: Mapping[str, str]
    n_classified: int = 0  # pairs that a classifier labelled
    rating_bins: tuple[RatingBin, ...] = ()  # similarities of rated pairs by rating

    @property
    def shown(self) -> list[ScoredMetric]:
        """The results that a report shows."""
        return [row for row in self.rows if row.variant.shown]


def score_parts(plan: Plan, parts: Sequence[MeasuredPart]) -> list[ScoredPart]:
    """The results of all parts, and of each whole task after its parts; raises errors of metrics that were named."""
    if plan.request.metrics is not None:
        raise_all(chain.from_iterable(part.errors.values() for part in parts))
    scorer = Scorer(plan.library, plan.request)
    with one_blas_thread(), ThreadPoolExecutor(workers()) as pool:
        scored = list(pool.map(scorer.score, parts))
    by_task: dict[str, list[ScoredPart]] = {}
    for each in scored:
        by_task.setdefault(each.part.task.name, []).append(each)
    with_wholes: list[ScoredPart] = []
    for name, parts_of_task in by_task.items():
        with_wholes += parts_of_task
        with_wholes.append(scorer.score_whole(plan.wholes[name], parts_of_task))
    return with_wholes


class Scorer:
    """Computes results with intervals and bounds."""

    def __init__(self, library: Library, request: Request) -> None:
        self._library = library
        self._request = request
        self._draws = None if request.level is None else Draws(request.seed)

    def score(self, measured_part: MeasuredPart) -> ScoredPart:
        """The results of all metrics of one part that can be computed, in their order."""
        part = measured_part.part
        errors = measured_part.errors
        request = self._request.with_judge_for(self._library, part.task.collection)
        judged = {each: each.with_judge(request.policy, request.probabilities_of) for each in measured_part.results}
        rows: list[ScoredMetric] = []
        for variant, result in measured_part.metrics:
            if variant.label in errors:
                continue
            try:
                rows += self._score_metric(measured_part, variant, judged[result])
            except UndefinedMetric as error:
                errors[variant.label] = error
        reasons = {label: str(error) for label, error in errors.items()}
        for result in measured_part.results:
            for label, reason in result.unbounded.items():
                if label not in errors:
                    reasons[f"{label} bounds"] = reason
        rows = [self._with_interval(row) for row in self._resample(part, rows)]
        n_classified = sum(each.n_classified for each in judged.values())
        rating_bins = tuple(chain.from_iterable(each.bin_by_rating() for each in measured_part.results))
        return ScoredPart(part, rows, _keep_shown(part, reasons), n_classified, rating_bins)

    def score_whole(self, whole: PlannedPart, parts: Sequence[ScoredPart]) -> ScoredPart:
        """The results over all directions of a task; samples of the directions share the draws."""
        scored = {each.part.name: each.rows for each in parts}
        rows = []
        reasons = {}
        for variant in whole.variants:
            directions = [part.name for part in whole.task.parts_with(variant.spec.of.reads)]
            lacking = _find_lacking(variant, directions, scored)
            if lacking:
                reasons[variant.label] = f"needs {' and '.join(lacking)} too"
            else:
                row = self._sum_up(variant, whole.task.name, [scored[name] for name in directions])
                rows.append(self._with_interval(row))
        return ScoredPart(whole, rows, _keep_shown(whole, reasons))

    def _sum_up(self, variant: Variant[Any], task: str, directions: Sequence[Sequence[ScoredMetric]]) -> ScoredMetric:
        """The result of a metric of the scores of all directions of a task."""
        inputs = [_choose_inputs(variant, rows) for rows in directions]
        rows = list(chain.from_iterable(inputs))
        results = [row.result for row in rows]
        helped = [each.if_ties_help for each in results]
        chances = [each.chance for each in results]

        def compute(values: Sequence[float | None]) -> float:
            return float(variant.compute(np.array(values)))

        result = Result(
            task,
            "",
            variant.label,
            compute([each.value for each in results]),
            n_queries=sum(rows_of_direction[0].result.n_queries for rows_of_direction in directions),
            ties=sum(rows_of_direction[0].result.ties for rows_of_direction in directions),
        )
        if None not in helped:
            decided = sum(_count_decided(rows_of_direction) for rows_of_direction in inputs)
            result = replace(result, if_ties_help=compute(helped), decided_by_ties=decided)
        if None not in chances:
            result = replace(result, chance=compute(chances))
        if self._request.bounds:
            bounds = [_collect_bounds(rows_of_direction) for rows_of_direction in inputs]
            result = replace(result, bounds=bound_sums(variant.compute, bounds))
        samples = [row.samples for row in rows if row.samples is not None]
        return ScoredMetric(variant, result, samples=variant.compute(np.stack(samples, axis=-1)) if samples else None)

    def _score_metric(
        self, measured_part: MeasuredPart, variant: Variant[Any], result: PassResult[Any]
    ) -> list[ScoredMetric]:
        """The result of one metric with its bounds, and that of its spread if it has one."""
        part = measured_part.part
        values = result.compute_values(variant, self._request.seed)
        if (whole := result.metric_input.whole) is not None:
            folds = getattr(whole, "query_folds", None)
            values = values.with_zeros(variant, whole.query_ids, folds, result.metric_input.missing_ids)
        samples = values.samples
        if samples is None and self._draws is not None:
            samples = result.resample(variant, self._draws)
        row = Result(
            part.task.name,
            part.name,
            variant.label,
            values.number,
            values.n_queries,
            ties=values.ties,
            coverage=values.coverage,
            parameters={**variant.parameters, **values.facts},
            bounds=self._bound(part, variant, result) if self._request.bounds else None,
        )
        decided = None
        if values.queries is not None and values.if_ties_help is not None and measured_part.knows_ties:
            decided = values.if_ties_help != values.queries.values
            if_ties_help = variant.spec.average(values.if_ties_help, values.queries.folds)
            row = replace(row, if_ties_help=if_ties_help, decided_by_ties=int(np.count_nonzero(decided)))
        # Without results there is no order that could be random.
        chance = result.expect_by_chance(variant) if result.metric_input.whole is None else None
        if chance is not None:
            row = replace(row, chance=chance)
        scored = [ScoredMetric(variant, row, values.queries, decided, samples=samples)]
        if values.spread is not None:
            spread = replace(row, metric=f"{variant.label}{SPREAD}", value=values.spread)
            scored.append(ScoredMetric(variant, spread))
        return scored

    def _bound(self, part: PlannedPart, variant: Variant[Any], result: PassResult[Any]) -> Bounds | None:
        """The bounds of a metric, with people's answers if they are about this number."""
        bounds = result.compute_bounds(variant)
        answers = self._request.answers
        if bounds is None or not isinstance(answers, Answers) or answers.key != f"{part.key}/{variant.label}":
            return bounds
        units = result.find_unjudged(variant)
        direction = result.metric_input.direction
        images = images_behind(units.query_ids, self._find_split(part), direction)
        return answers.add_to(bounds, units, images, self._request.level)

    def _resample(self, part: PlannedPart, rows: Sequence[ScoredMetric]) -> list[ScoredMetric]:
        """Add samples over drawn images; metrics over the same queries share the draws."""
        groups: dict[int, list[tuple[int, QueryValues]]] = {}
        for index, row in enumerate(rows):
            if row.queries is not None:
                groups.setdefault(id(row.queries.ids), []).append((index, row.queries))
        resampled = list(rows)
        direction = part.inputs[0].direction
        for group in groups.values():
            images = images_behind(group[0][1].ids, self._find_split(part), direction)
            aggregates = [rows[index].variant.spec.aggregate for index, _ in group]
            samples = self._draw(images, aggregates, [queries for _, queries in group])
            for (index, _), drawn in zip(group, samples, strict=True):
                resampled[index] = replace(rows[index], images=images, samples=drawn)
        return resampled

    def _draw(
        self, images: IntArray, aggregates: Sequence[str], queries: Sequence[QueryValues]
    ) -> Sequence[FloatArray | None]:
        """(S,) samples of the mean or the median of each metric's values."""
        if self._draws is None:
            return [None] * len(queries)
        bootstrap = ClusterBootstrap(images, self._draws)
        named = list(zip(aggregates, queries, strict=True))
        averaged = [each.values for aggregate, each in named if aggregate == "mean"]
        means = iter(bootstrap.means(np.stack(averaged, axis=1)) if averaged else ())
        return [
            next(means) if aggregate == "mean" else bootstrap.medians(each.values, each.folds)
            for aggregate, each in named
        ]

    def _find_split(self, part: PlannedPart) -> Split:
        return self._library.split(self._request.split, part.task.collection)

    def _with_interval(self, row: ScoredMetric) -> ScoredMetric:
        level = self._request.level
        kind = self._request.intervals
        if row.samples is None or level is None:
            return row
        spec = row.variant.spec
        if row.queries is None or row.images is None or spec.aggregate != "mean":
            found = NamedInterval(*interval(row.samples, level), _name_draws(spec))
        elif spec.binary and kind != "bootstrap":
            trials = np.unique(row.images).size if kind == "binomial_images" else None
            found = NamedInterval(*wilson(row.queries.values, level, trials), kind)
        else:
            values = row.queries.values
            found = mean_interval(values, row.images, row.samples, level, is_binary=spec.binary, bounds=spec.bounds)
        result = replace(row.result, low=found.low, high=found.high, interval_method=found.method)
        return replace(row, result=result)


def _name_draws(spec: Spec) -> str:
    """The method of intervals from samples of a metric."""
    if not isinstance(spec, RatedMetric):
        return "bootstrap"
    return "random_halves" if spec.draws_samples else "bootstrap_queries"


def _find_lacking(
    variant: Variant[Any], directions: Sequence[str], scored: Mapping[str, Sequence[ScoredMetric]]
) -> list[str]:
    """The directions without a score, and the scores of the others, that a metric of a whole task lacks."""
    lacking: list[str] = []
    for direction in directions:
        if direction not in scored:
            lacking.append(direction)
            continue
        labels = {row.variant.label for row in scored[direction]}
        lacking += [f"{direction}/{label}" for label in variant.spec.inputs if label not in labels]
    return lacking


def _choose_inputs(variant: Variant[Any], rows: Sequence[ScoredMetric]) -> list[ScoredMetric]:
    """The scores of one direction that a metric of the whole task sums up."""
    return [row for row in rows if row.variant.label in variant.spec.inputs]


def _collect_bounds(rows: Sequence[ScoredMetric]) -> list[Bounds | None]:
    return [row.result.bounds for row in rows]


def _count_decided(rows: Sequence[ScoredMetric]) -> int:
    """Number of queries of one direction of which ties decide a value."""
    decided = [row.decided_by_ties for row in rows if row.decided_by_ties is not None]
    return int(np.count_nonzero(np.any(decided, axis=0)))


def _keep_shown(part: PlannedPart, reasons: Mapping[str, str]) -> dict[str, str]:
    """Report key to reason, without metrics that are computed only for others."""
    hidden = {variant.label for variant in part.variants if not variant.shown}
    return {f"{part.key}/{label}": reason for label, reason in reasons.items() if label.partition(" ")[0] not in hidden}


def images_behind(query_ids: IntArray, split: Split, direction: str) -> IntArray:
    """(Q,) image id of each query: its id, or the image for which the caption was written."""
    return query_ids if direction.startswith("i") else split.owners_of(query_ids)
