"""One pass over a run for all needs, and the numbers of what it measured, with their intervals and bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cxc_eccv.errors import CxcEccvError, MissingIds, SourceMissing, UnknownIds, raise_all
from cxc_eccv.evaluation.answers import Answers
from cxc_eccv.evaluation.bounds import bounds_of_sums
from cxc_eccv.evaluation.mistaken_ids import describe_mistaken_ids
from cxc_eccv.evaluation.needs import Measured, Need, QueryValues, Scored, Undefined
from cxc_eccv.evaluation.plan import Plan, PlannedPart
from cxc_eccv.evaluation.request import Request
from cxc_eccv.metrics.kinds import RatedMetric, Spec, Variant
from cxc_eccv.ranking import Ranked, ranked
from cxc_eccv.ranking.ranked import collect_ids
from cxc_eccv.ranking.readers import RowReader
from cxc_eccv.ranking.scores import one_blas_thread, workers
from cxc_eccv.runs import Run
from cxc_eccv.sources.collections.collection import Collection
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.sources.readers import UNREACHABLE_CAPTIONS
from cxc_eccv.statistics import ClusterBootstrap, Draws, interval, wilson
from cxc_eccv.types import SIDES, Bounds, FloatArray, IntArray, Judgments, Result, find_positions, other_side
from cxc_eccv.types.ids import find_distinct
from cxc_eccv.types.result import SPREAD

NAMED = 3
SWAP_SHARE = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredPart:
    """A part of a task, and what was measured for its needs; whether the run tells equal scores."""

    part: PlannedPart
    measured: tuple[Measured[Any], ...]
    knows_ties: bool = True

    @property
    def metrics(self) -> list[tuple[Variant[Any], Measured[Any]]]:
        """Each metric, in the order of the plan, with what it is computed from."""
        of_labels = {variant.label: each for each in self.measured for variant in each.need.variants}
        variants = self.part.metrics.parts[self.part.name]
        return [(variant, of_labels[variant.label]) for variant in variants if variant.label in of_labels]

    @property
    def errors(self) -> dict[str, CxcEccvError]:
        """Label to error, for the metrics that cannot be computed."""
        return {label: error for each in self.measured for label, error in each.errors.items()}


def measure(ranker: Ranked, plan: Plan) -> list[MeasuredPart]:
    """What one pass over the run computes for every need."""
    readings = {need: need.reading(ranker) for need in plan.needs}
    judgments: dict[str, tuple[str, Judgments]] = {}
    readers: dict[str, list[RowReader]] = {}
    for need, reading in readings.items():
        if reading.judgments is not None:
            judgments[need.key] = need.direction, reading.judgments
        if reading.all_readers:
            readers.setdefault(need.direction, []).extend(reading.all_readers)
    ranks = ranker.rank_all(judgments, readers)

    def finish(need: Need[Any, Any]) -> Measured[Any]:
        reading = readings[need]
        similarities = None if reading.pairs is None else ranker.compare(reading.pairs, need.direction)
        return need.measured(replace(reading, ranks=ranks.get(need.key), similarities=similarities))

    return [
        MeasuredPart(part, tuple(map(finish, part.needs)), ranker.knows_ties(part.needs[0].direction))
        for part in plan.parts
    ]


def find_faults(run: Run, plan: Plan, split: Split | None = None) -> list[CxcEccvError]:
    """What keeps a plan from being computed: one error for mistaken ids, else what it refuses and the ids at fault.

    ``split`` is what the plan scores, if it stands for the split of the tasks.
    """
    missing = ranked(run).find_missing(plan.needs)
    unknown = find_unknown_ids(run, plan.needs, plan.library, {part.task.collection for part in plan.parts})
    faults = [*plan.refused, *missing, *unknown]
    # Where items may be missing, the row numbers that are ids by chance would be scored without an error.
    if faults or plan.request.allow_missing:
        scored = [*(plan.find_split(part.task) for part in plan.parts), *plan.splits.values()]
        whole = split or next((each.whole for each in scored), None)
        mistake = None if whole is None else describe_mistaken_ids(run, whole)
        if mistake is not None:
            return [MissingIds(mistake) if missing else UnknownIds(mistake)]
    return faults


def find_unknown_ids(
    run: Run, needs: Sequence[Need[Any, Any]], library: Library, collections: Iterable[Collection]
) -> list[CxcEccvError]:
    """An error for each side of a run with items that are not in the data."""
    errors: list[CxcEccvError] = []
    for side in SIDES if needs else ():
        ids = run.ids(side)
        unknown = ids[~find_positions(ids, collect_ids(side, needs))[1]]
        if unknown.size:
            unknown = unknown[~find_positions(unknown, _read_known_ids(side, library, collections))[1]]
        if unknown.size:
            count, first = f"{unknown.size} of {ids.size}", ", ".join(map(str, unknown[:NAMED]))
            advice = "Use the COCO ids of images and captions, and leave items of other data sets out."
            if find_positions(unknown, collect_ids(other_side(side), needs))[1].mean() > SWAP_SHARE:
                advice = f"These ids are {other_side(side)}: images and captions look swapped."
            place = f"{run.path or 'run'}: {count} {side} are unknown to the data, the first: {first}"
            errors.append(UnknownIds(f"{place}. {advice}"))
    return errors


def _read_known_ids(side: str, library: Library, collections: Iterable[Collection]) -> IntArray:
    try:
        splits = [library.split(name, each) for each in set(collections) for name in library.read_splits(each)]
    except SourceMissing:
        return np.empty(0, dtype=np.int64)
    if side == "images":
        return find_distinct(np.concatenate([split.image_ids for split in splits]))
    captions = [ids for split in splits for ids in (split.caption_ids, split.cut_caption_ids)]
    return find_distinct(np.concatenate([*captions, np.array(sorted(UNREACHABLE_CAPTIONS), dtype=np.int64)]))


@dataclass(frozen=True, slots=True, eq=False)
class ScoredPart:
    """The results of a part of a task, or of the whole task, and the reasons for those that are missing."""

    part: PlannedPart
    rows: Sequence[Scored]
    reasons: Mapping[str, str]
    n_asked: int = 0  # pairs that a classifier labelled


def score_parts(plan: Plan, parts: Sequence[MeasuredPart]) -> list[ScoredPart]:
    """The results of all parts, and of each whole task after its parts; raises errors of metrics that were named."""
    raise_all(error for part in parts if part.part.metrics.strict for error in part.errors.values())
    scorer = Scorer(plan.library, plan.request)
    with one_blas_thread(), ThreadPoolExecutor(workers()) as pool:
        scored = list(pool.map(scorer.score, parts))
    by_task: dict[str, list[ScoredPart]] = {}
    for each in scored:
        by_task.setdefault(each.part.task.name, []).append(each)
    return [each for of_task in by_task.values() for each in (*of_task, scorer.score_whole(of_task))]


class Scorer:
    """Computes results with intervals and bounds."""

    def __init__(self, library: Library, request: Request) -> None:
        self._library, self._request = library, request
        self._draws = None if request.level is None else Draws(request.seed)

    def score(self, measured_part: MeasuredPart) -> ScoredPart:
        """The results of all metrics of one part that can be computed, in their order."""
        part, errors = measured_part.part, measured_part.errors
        settings = self._request.on(self._library, part.task.collection)
        measured = {each: each.judged_by(settings.policy, settings.probabilities_of) for each in measured_part.measured}
        rows: list[Scored] = []
        for variant, each in measured_part.metrics:
            if variant.label not in errors:
                try:
                    rows += self._score_metric(measured_part, variant, measured[each])
                except Undefined as error:
                    errors[variant.label] = error
        reasons = {label: str(error) for label, error in errors.items()} | {
            f"{label} bounds": reason
            for each in measured_part.measured
            for label, reason in each.unbounded.items()
            if label not in errors
        }
        rows = [self._with_interval(row) for row in self._resample(part, rows)]
        return ScoredPart(part, rows, _of_shown(part, reasons), sum(each.n_asked for each in measured.values()))

    def score_whole(self, parts: Sequence[ScoredPart]) -> ScoredPart:
        """The results over all directions of a task; samples of the directions share the draws."""
        whole = PlannedPart(parts[0].part.metrics, "", ())
        scored = {each.part.name: each.rows for each in parts}
        rows, reasons = [], {}
        for variant in whole.metrics.parts[""]:
            names = [part.name for part in whole.task.parts_with(variant.spec.of.reads)]
            keys = {f"{name}/{row.variant.label}" for name in names for row in scored.get(name, ())}
            needed = {f"{name}/{label}": name for name in names for label in variant.spec.inputs}
            lacking = [key if name in scored else name for key, name in needed.items() if key not in keys]
            if lacking:
                reasons[variant.label] = f"needs {' and '.join(dict.fromkeys(lacking))} too"
            else:
                row = self._sum_up(variant, whole.task.name, [scored[name] for name in names])
                rows.append(self._with_interval(row))
        return ScoredPart(whole, rows, _of_shown(whole, reasons))

    def _sum_up(self, variant: Variant[Any], task: str, directions: Sequence[Sequence[Scored]]) -> Scored:
        """The result of a metric of the scores of all directions of a task."""
        inputs = [[row for row in rows if row.variant.label in variant.spec.inputs] for rows in directions]
        rows = [row for of_direction in inputs for row in of_direction]
        number = float(variant.compute(np.array([row.result.value for row in rows])))
        n_queries, ties = (sum(getattr(each[0].result, name) for each in directions) for name in ("n_queries", "ties"))
        samples = [row.samples for row in rows if row.samples is not None]
        result = Result(task, "", variant.label, number, n_queries, ties=ties)
        if all(row.result.if_ties_help is not None for row in rows):
            if_ties_help = float(variant.compute(np.array([row.result.if_ties_help for row in rows])))
            decided = sum(_count_decided(of_direction) for of_direction in inputs)
            result = replace(result, if_ties_help=if_ties_help, decided_by_ties=decided)
        if all(row.result.chance is not None for row in rows):
            result = replace(result, chance=float(variant.compute(np.array([row.result.chance for row in rows]))))
        if self._request.bounds:
            bounds = [[row.result.bounds for row in of_direction] for of_direction in inputs]
            result = replace(result, bounds=bounds_of_sums(variant.compute, bounds))
        return Scored(variant, result, samples=variant.compute(np.stack(samples, axis=-1)) if samples else None)

    def _score_metric(
        self, measured_part: MeasuredPart, variant: Variant[Any], measured: Measured[Any]
    ) -> list[Scored]:
        """The result of one metric with its bounds, and that of its spread if it has one."""
        part = measured_part.part
        values = measured.values(variant, self._request.seed)
        samples = values.samples
        if samples is None and self._draws is not None:
            samples = measured.resample(variant, self._draws)
        row = Result(
            part.task.name,
            part.name,
            variant.label,
            values.number,
            values.n_queries,
            ties=values.ties,
            coverage=values.coverage,
            parameters={**variant.parameters, **values.facts},
            bounds=self._bound(part, variant, measured) if self._request.bounds else None,
        )
        decided = None
        if values.queries is not None and values.if_ties_help is not None and measured_part.knows_ties:
            decided = values.if_ties_help != values.queries.values
            if_ties_help = variant.spec.average(values.if_ties_help, values.queries.folds)
            row = replace(row, if_ties_help=if_ties_help, decided_by_ties=int(np.count_nonzero(decided)))
        if (chance := measured.expect_by_chance(variant)) is not None:
            row = replace(row, chance=chance)
        scored = [Scored(variant, row, values.queries, decided, samples=samples)]
        if values.spread is not None:
            spread = replace(row, metric=f"{variant.label}{SPREAD}", value=values.spread)
            scored.append(Scored(variant, spread))
        return scored

    def _bound(self, part: PlannedPart, variant: Variant[Any], measured: Measured[Any]) -> Bounds | None:
        """The bounds of a metric, with people's answers if they are about this number."""
        bounds, answers = measured.bounds(variant), self._request.answers
        if bounds is None or not isinstance(answers, Answers) or answers.key != f"{part.key}/{variant.label}":
            return bounds
        units, direction = measured.unjudged(variant), measured.need.direction
        images = images_behind(units.query_ids, self._find_split(part), direction)
        return answers.add_to(bounds, units, images, self._request.level)

    def _resample(self, part: PlannedPart, rows: Sequence[Scored]) -> list[Scored]:
        """Add samples over drawn images; metrics over the same queries share the draws."""
        groups: dict[int, list[tuple[int, QueryValues]]] = {}
        for index, row in enumerate(rows):
            if row.queries is not None:
                groups.setdefault(id(row.queries.ids), []).append((index, row.queries))
        resampled, direction = list(rows), part.needs[0].direction
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

    def _with_interval(self, row: Scored) -> Scored:
        level, kind = self._request.level, self._request.intervals
        if row.samples is None or level is None:
            return row
        if row.queries is not None and row.images is not None and row.variant.spec.binary and kind != "bootstrap":
            trials = np.unique(row.images).size if kind == "binomial_images" else None
            low, high = wilson(row.queries.values, level, trials)
            method = kind
        else:
            low, high = interval(row.samples, level)
            method = _name_draws(row.variant.spec)
        return replace(row, result=replace(row.result, low=low, high=high, interval_method=method))


def _name_draws(spec: Spec) -> str:
    """The method of intervals from samples of a metric."""
    if not isinstance(spec, RatedMetric):
        return "bootstrap"
    return "random_halves" if spec.draws_samples else "bootstrap_queries"


def _count_decided(rows: Sequence[Scored]) -> int:
    """Number of queries of one direction of which ties decide a value."""
    decided = [row.decided_by_ties for row in rows if row.decided_by_ties is not None]
    return int(np.count_nonzero(np.any(decided, axis=0)))


def _of_shown(part: PlannedPart, reasons: Mapping[str, str]) -> dict[str, str]:
    """Report key to reason, without metrics that are computed only for others."""
    hidden = {variant.label for variant in part.metrics.parts[part.name] if not variant.shown}
    return {f"{part.key}/{label}": reason for label, reason in reasons.items() if label.partition(" ")[0] not in hidden}


def images_behind(query_ids: IntArray, split: Split, direction: str) -> IntArray:
    """(Q,) image id of each query: its id, or the image for which the caption was written."""
    return query_ids if direction.startswith("i") else split.owners_of(query_ids)
