"""Makes a report from what was measured: numbers, their intervals and bounds, and provenance."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import cxc_eccv
from cxc_eccv.errors import InvalidOption, raise_all
from cxc_eccv.evaluation.answers import Answers
from cxc_eccv.evaluation.bounds import bounds_of_sums
from cxc_eccv.evaluation.measure import MeasuredPart
from cxc_eccv.evaluation.needs import Measured, QueryValues, Scored, Undefined, Variant
from cxc_eccv.evaluation.plan import Part, Plan
from cxc_eccv.evaluation.policies import Judge
from cxc_eccv.evaluation.report_files import per_query_table
from cxc_eccv.evaluation.request import Request
from cxc_eccv.metrics.kinds import WholeMetric
from cxc_eccv.ranking.ranked import collect_ids
from cxc_eccv.ranking.scores import one_blas_thread, workers
from cxc_eccv.runs import Run
from cxc_eccv.runs.run import check_name, read_record
from cxc_eccv.sources.collections.coco import COLLECTION as COCO
from cxc_eccv.sources.collections.collection import Collection
from cxc_eccv.sources.library import Library
from cxc_eccv.statistics import ClusterBootstrap, Draws, interval, wilson
from cxc_eccv.types import SIDES, Bounds, FloatArray, IntArray, Report, Result, find_positions
from cxc_eccv.types.provenance import DataFacts, ItemFacts, JudgeFacts, Package, Provenance, RunFacts
from cxc_eccv.types.reported import SPREAD


@dataclass(frozen=True, slots=True, eq=False)
class ScoredPart:
    """The results of a part of a task, or of the whole task, and the reasons for those that are missing."""

    part: Part
    rows: Sequence[Scored]
    reasons: Mapping[str, str]
    n_asked: int = 0  # pairs that a classifier labelled


def make_report(plan: Plan, parts: Sequence[MeasuredPart], facts: Provenance) -> Report:
    """Score what was measured for the parts of a plan, and make the report; ``facts`` are those about the run."""
    library, request = plan.library, plan.request
    for each in parts:
        for caution in dict.fromkeys(caution for measured in each.measured for caution in measured.cautions):
            warnings.warn(f"{each.part.key}: {caution}", stacklevel=4)
    raise_all(error for each in parts if each.part.metrics.strict for error in each.errors.values())
    scored = _score_tasks(parts, Scorer(library, request))
    shown = [row for each in scored for row in each.rows if row.variant.shown]
    reasons = plan.skipped | {key: reason for each in scored for key, reason in each.reasons.items()}
    labels: dict[str, Any] = {}
    for task in {each.part.task.name: each.part.task for each in parts}.values():
        labels |= task.facts(library.split(request.split, task.collection))
    facts = replace(request.record(facts), unjudged=_describe_judge(request, scored), **labels)
    provenance = make_provenance(library, request.split, facts)
    table = per_query_table(shown) if request.per_query else None
    return Report(tuple(row.result for row in shown), reasons, provenance, table)


def _score_tasks(parts: Sequence[MeasuredPart], scorer: Scorer) -> list[ScoredPart]:
    """The results of all parts, and of each whole task after its parts."""
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
        measured = {
            each: each.judged_by(settings.unjudged, settings.probabilities_of) for each in measured_part.measured
        }
        rows: list[Scored] = []
        for variant, each in measured_part.metrics:
            if variant.label not in errors:
                try:
                    rows += self._score_metric(part, variant, measured[each])
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
        metrics = parts[0].part.metrics
        whole = Part(metrics, "", ())
        scored = {each.part.name: each.rows for each in parts}
        rows, reasons = [], {}
        for variant in metrics.parts[""]:
            spec = variant.of(WholeMetric)
            labels, names = list(spec.inputs), [part.name for part in metrics.task.parts_with(spec.of.reads)]
            directions = {name: scored[name] for name in names if name in scored}
            if lacking := _find_lacking(labels, names, directions):
                reasons[variant.label] = f"needs {' and '.join(lacking)} too"
            else:
                inputs = [[row for row in of_one if row.variant.label in labels] for of_one in directions.values()]
                rows.append(self._with_interval(_combine(variant, metrics.task.name, inputs, directions)))
        return ScoredPart(whole, rows, _of_shown(whole, reasons))

    def _score_metric(self, part: Part, variant: Variant, measured: Measured) -> list[Scored]:
        """The result of one metric with its bounds, and that of its spread if it has one."""
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
            parameters=values.parameters,
            bounds=self._bound(part, variant, measured) if self._request.bounds else None,
        )
        scored = [Scored(variant, row, values.queries, samples=samples)]
        if values.spread is not None:
            spread = replace(row, metric=f"{variant.label}{SPREAD}", value=values.spread)
            scored.append(Scored(variant, spread))
        return scored

    def _bound(self, part: Part, variant: Variant, measured: Measured) -> Bounds | None:
        """The bounds of a metric, with people's answers if they are about this number."""
        bounds, answers = measured.bounds(variant), self._request.answers
        if bounds is None or not isinstance(answers, Answers) or answers.key != f"{part.key}/{variant.label}":
            return bounds
        units, direction = measured.units(variant), measured.need.direction
        images = images_behind(units.query_ids, self._library, self._request.split, direction, part.task.collection)
        return answers.add_to(bounds, units, images, self._request.level)

    def _resample(self, part: Part, rows: Sequence[Scored]) -> list[Scored]:
        """Add samples over drawn images; metrics over the same queries share the draws."""
        groups: dict[int, list[tuple[int, QueryValues]]] = {}
        for index, row in enumerate(rows):
            if row.queries is not None:
                groups.setdefault(id(row.queries.ids), []).append((index, row.queries))
        resampled, direction = list(rows), part.needs[0].direction
        for group in groups.values():
            images = images_behind(group[0][1].ids, self._library, self._request.split, direction, part.task.collection)
            aggregates = [rows[index].variant.spec.aggregate for index, _ in group]
            samples = self._draw(images, aggregates, [queries.values for _, queries in group])
            for (index, _), drawn in zip(group, samples, strict=True):
                resampled[index] = replace(rows[index], images=images, samples=drawn)
        return resampled

    def _draw(
        self, images: IntArray, aggregates: Sequence[str], values: Sequence[FloatArray]
    ) -> Sequence[FloatArray | None]:
        """(S,) samples of the mean or the median of each metric's values."""
        if self._draws is None:
            return [None] * len(values)
        bootstrap, named = ClusterBootstrap(images, self._draws), list(zip(aggregates, values, strict=True))
        averaged = [column for aggregate, column in named if aggregate == "mean"]
        means = iter(bootstrap.means(np.stack(averaged, axis=1)) if averaged else ())
        return [next(means) if aggregate == "mean" else bootstrap.medians(column) for aggregate, column in named]

    def _with_interval(self, row: Scored) -> Scored:
        level, kind = self._request.level, self._request.intervals
        if row.samples is None or level is None:
            return row
        if row.queries is not None and row.images is not None and row.variant.spec.binary and kind != "bootstrap":
            trials = np.unique(row.images).size if kind == "binomial_images" else None
            low, high = wilson(row.queries.values, level, trials)
        else:
            low, high = interval(row.samples, level)
        return replace(row, result=replace(row.result, low=low, high=high))


def _of_shown(part: Part, reasons: Mapping[str, str]) -> dict[str, str]:
    """Report key to reason, without metrics that are computed only for others."""
    hidden = {variant.label for variant in part.metrics.parts[part.name] if not variant.shown}
    return {f"{part.key}/{label}": reason for label, reason in reasons.items() if label.partition(" ")[0] not in hidden}


def _find_lacking(labels: Sequence[str], directions: Iterable[str], rows: Mapping[str, Sequence[Scored]]) -> list[str]:
    """Missing directions, or scores of a direction."""
    lacking: list[str] = []
    for direction in directions:
        if direction in rows:
            there = {row.variant.label for row in rows[direction]}
            lacking += [f"{direction}/{label}" for label in labels if label not in there]
        else:
            lacking.append(direction)
    return lacking


def _combine(
    variant: Variant, task: str, inputs: Sequence[Sequence[Scored]], directions: Mapping[str, Sequence[Scored]]
) -> Scored:
    """The result of a metric of other scores of all directions."""
    function, rows, firsts = (
        variant.spec.function,
        [row for of_one in inputs for row in of_one],
        [of_one[0].result for of_one in directions.values()],
    )
    samples = [row.samples for row in rows if row.samples is not None]
    result = Result(
        task,
        "",
        variant.label,
        float(function(np.array([row.result.value for row in rows]))),
        sum(first.n_queries for first in firsts),
        ties=sum(first.ties for first in firsts),
        bounds=bounds_of_sums(function, [[row.result.bounds for row in of_one] for of_one in inputs]),
    )
    return Scored(variant, result, samples=function(np.stack(samples, axis=-1)) if samples else None)


def images_behind(
    query_ids: IntArray, library: Library, split: str, direction: str, collection: Collection = COCO
) -> IntArray:
    """(Q,) image id of each query: its id, or the image for which the caption was written."""
    if direction.startswith("i"):
        return query_ids
    content = library.split(split, collection)
    return content.caption_image_ids[find_positions(query_ids, content.caption_ids)[0]]


def _describe_judge(request: Request, scored: Sequence[ScoredPart]) -> JudgeFacts | None:
    """Who labelled unjudged pairs, and how many of each part."""
    if not isinstance(request.unjudged, Judge):
        return None
    pairs = {each.part.key: each.n_asked for each in scored if each.n_asked}
    return replace(request.unjudged.facts, pairs=pairs)


def make_provenance(library: Library, split: str = "", facts: Provenance | None = None) -> Provenance:
    """Versions and data, added to the facts that are known already."""
    data = DataFacts(
        edition=library.edition,
        version=library.catalog.version,
        fingerprint=library.fingerprint(),
        files=library.files_used(),
        modified=library.modified_files(),
    )
    package = Package("cxc_eccv", cxc_eccv.__version__)
    return replace(facts or Provenance(), package=package, numpy=np.__version__, data=data, split=split)


def describe_run(run: Run, parts: Iterable[Part]) -> RunFacts:
    """Facts about the run: kind, file, hash, sizes, and how many of its items no task needs."""
    needs, facts = [need for part in parts for need in part.needs], run.facts()
    sides: dict[str, ItemFacts] = {}
    for side in SIDES:
        items: ItemFacts | None = getattr(facts, side)
        if items is not None:
            used = find_positions(run.ids(side), collect_ids(side, needs))[1]
            sides[side] = replace(items, outside_the_tasks=int((~used).sum()))
    return replace(facts, images=sides.get("images"), captions=sides.get("captions"))


def name_model(run: Run, name: str | None) -> str | None:
    """The given name of the model, else that of the run, else None."""
    if name is not None:
        check_name("evaluate", name, InvalidOption)
    return run.model if name is None else name


def training_data_of(run: Run) -> tuple[str, ...]:
    """What the record beside an encoded file says that the model was trained on; empty if nothing."""
    facts = None if run.path is None else read_record(run.path)
    return tuple((facts or {}).get("training_data") or ())
