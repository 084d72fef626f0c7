"""Makes a report from finished needs: values of queries, their aggregates, intervals, and provenance."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

import cxc_eccv
from cxc_eccv.errors import DataError, InvalidOption, raise_all
from cxc_eccv.evaluation.answers import Answers
from cxc_eccv.evaluation.bounds import BoundsOfNeeds, Units
from cxc_eccv.evaluation.needs import OtherScores, QueryValues, Scored, TopItems
from cxc_eccv.evaluation.plan import Part, Plan
from cxc_eccv.evaluation.policies import Judge, policy_of
from cxc_eccv.evaluation.report_files import per_query_table
from cxc_eccv.evaluation.request import Request
from cxc_eccv.ranking.ranked import collect_ids
from cxc_eccv.ranking.scores import one_blas_thread, workers
from cxc_eccv.runs import Run
from cxc_eccv.runs.run import check_name, read_record
from cxc_eccv.sources.library import Library
from cxc_eccv.statistics import ClusterBootstrap, Draws, estimate_mean, interval, wilson
from cxc_eccv.tasks.task import COCO, Collection
from cxc_eccv.types import SIDES, Bounds, FloatArray, IntArray, Report, find_positions


def make_report(plan: Plan, facts: Mapping[str, Any], bounds: BoundsOfNeeds | None = None) -> Report:
    """Score the finished needs of a plan and make the report; ``facts`` are those about the run."""
    parts, library, request = plan.parts, plan.library, plan.request
    for part in parts:
        for need in part.needs:
            if caution := need.caution:
                warnings.warn(f"{part.key}: {caution}", stacklevel=4)
    raise_all(error for part in parts if part.metrics.strict for error in part.errors.values())
    rows = _score_tasks(parts, Scorer(plan, bounds), bounds, reasons := dict(plan.skipped))
    shown = [row for row in rows if row.variant.shown]
    tasks = {part.task.name: part.task for part in parts}.values()
    labels = {name: fact for task in tasks for name, fact in task.facts(library, request.split).items()}
    options = {"split": request.split, **request.facts, **request.facts_of_bounds}
    provenance = provenance_of(library, **options, **labels, **_describe_judge(plan), **facts)
    table = per_query_table(shown) if request.per_query else None
    return Report(tuple(row.result for row in shown), reasons, provenance, table)


def _score_tasks(
    parts: Sequence[Part], scorer: Scorer, bounds: BoundsOfNeeds | None, reasons: dict[str, str]
) -> list[Scored]:
    """All results, those of a whole task after its parts; adds reasons for missing ones to ``reasons``."""
    with one_blas_thread(), ThreadPoolExecutor(workers()) as pool:
        scored = list(pool.map(scorer.score, parts))
    rows: list[Scored] = []
    for name in dict.fromkeys(part.task.name for part in parts):
        of_task = [(part, scores) for part, scores in zip(parts, scored, strict=True) if part.task.name == name]
        metrics = of_task[0][0].metrics
        directions = {part.name: scores for part, scores in of_task if part.name in metrics.task.directions}
        whole = Part(metrics, "", (OtherScores(metrics.task, "", directions, metrics.parts[""]),))
        for part, scores in [*of_task, (whole, scorer.score(whole))]:
            rows += scores
            hidden = {variant.label for variant in metrics.parts[part.name] if not variant.shown}
            reasons |= {f"{part.key}/{label}": str(e) for label, e in part.errors.items() if label not in hidden}
            if bounds is None:
                continue
            for need in part.needs:
                reasons |= {
                    f"{part.key}/{label} bounds": reason
                    for label, reason in bounds.reasons(need).items()
                    if label not in hidden | part.errors.keys()
                }
    return rows


class Scorer:
    """Computes the results of finished needs, with intervals and bounds."""

    def __init__(self, plan: Plan, bounds: BoundsOfNeeds | None = None) -> None:
        self._library, self._request, self._bounds = plan.library, plan.request, bounds
        self._draws = None if plan.request.level is None else Draws(plan.request.seed)

    def score(self, part: Part) -> list[Scored]:
        """Results of all metrics of one part that can be computed, in their order."""
        request = self._request.on(self._library, part.task.collection)
        rows: list[Scored] = []
        for variant, need in part.needs_of_variants:
            if variant.label in need.errors:
                continue
            scored = need.score(variant, request)
            if self._bounds is not None:
                bounds = self._bounds.find(need, variant, request)
                answers = request.answers
                if isinstance(answers, Answers) and answers.key == f"{part.key}/{variant.label}" and bounds is not None:
                    units = self._bounds.units(need, variant, request)
                    bounds = self._add_estimate(bounds, units, answers, part)
                    if scored[0].result.parameters.get("unjudged") == "classifier":
                        bounds = self._add_precision(bounds, units, answers, request)
                scored = [replace(row, result=replace(row.result, bounds=bounds)) for row in scored]
            rows += scored
        return [self._with_interval(row) for row in self._resample(part, rows)]

    def _add_estimate(self, bounds: Bounds, units: Units, answers: Answers, part: Part) -> Bounds:
        direction, collection = part.needs[0].direction, part.task.collection
        images = images_behind(units.query_ids, self._library, self._request.split, direction, collection)
        level = self._request.level
        drawn = answers.estimate(units, images, level or 0.95)
        low, high = (None, None) if level is None else (drawn.low, drawn.high)
        return replace(bounds, estimate=drawn.value, estimate_low=low, estimate_high=high)

    def _add_precision(self, bounds: Bounds, units: Units, answers: Answers, request: Request) -> Bounds:
        """Add the judge's precision among the pairs that it calls entailed, whose drawn ones people answered."""
        judge = policy_of(request.unjudged)
        said = np.asarray(judge(units.images, units.captions)) == 1 if callable(judge) else np.empty(0)
        entailed = zip(units.images[said].tolist(), units.captions[said].tolist(), strict=True)
        place = {pair: at for at, pair in enumerate(entailed)}
        pairs = zip(answers.images.tolist(), answers.captions.tolist(), strict=True)
        rows = [(row, place[pair]) for row, pair in enumerate(pairs) if pair in place]
        drawn, places = np.array(rows, dtype=np.int64).reshape(-1, 2).T
        level, guesses = request.level, units.predicted[units.owners[said]]
        try:
            found = estimate_mean(
                guesses, places, answers.labels[drawn], answers.drawn[drawn], confidence=level or 0.95
            )
        except DataError:  # too few, or all alike
            return bounds
        low, high = (None, None) if level is None else (found.as_share.low, found.as_share.high)
        return replace(bounds, precision=found.as_share.value, precision_low=low, precision_high=high)

    def _resample(self, part: Part, rows: Sequence[Scored]) -> list[Scored]:
        """Add samples over drawn images; metrics over the same queries share the draws."""
        groups: dict[int, list[tuple[int, QueryValues]]] = {}
        for place, row in enumerate(rows):
            if row.queries is not None:
                groups.setdefault(id(row.queries.ids), []).append((place, row.queries))
        resampled, direction = list(rows), part.needs[0].direction
        for group in groups.values():
            images = images_behind(group[0][1].ids, self._library, self._request.split, direction, part.task.collection)
            aggregates = [rows[place].variant.spec.aggregate for place, _ in group]
            samples = self._draw(images, aggregates, [queries.values for _, queries in group])
            for (place, _), drawn in zip(group, samples, strict=True):
                resampled[place] = replace(rows[place], images=images, samples=drawn)
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


def images_behind(
    query_ids: IntArray, library: Library, split: str, direction: str, collection: Collection = COCO
) -> IntArray:
    """(Q,) image id of each query: its id, or the image for which the caption was written."""
    if direction.startswith("i"):
        return query_ids
    content = collection.content(library, split)
    return content.caption_image_ids[find_positions(query_ids, content.caption_ids)[0]]


def _describe_judge(plan: Plan) -> dict[str, Any]:
    """The entry ``unjudged`` of the provenance: who labelled unjudged pairs, and how many of each part."""
    if not isinstance(plan.request.unjudged, Judge):
        return {}
    asked: dict[str, int] = {}
    for part in plan.parts:
        for need in part.needs:
            if isinstance(need, TopItems) and need.n_asked:
                asked[part.key] = max(need.n_asked, asked.get(part.key, 0))
    return {"unjudged": {**plan.request.unjudged.facts, "pairs": asked}}


def provenance_of(library: Library, **entries: Any) -> dict[str, Any]:  # noqa: ANN401 - recorded as they are
    """Versions and data of a report, without date and machine, so that equal inputs give equal reports."""
    modified = library.modified_files()
    return {
        "package": {"name": "cxc_eccv", "version": cxc_eccv.__version__},
        "numpy": np.__version__,
        "data": {
            "edition": library.edition,
            "version": library.catalog.version,
            "fingerprint": library.fingerprint(),
            "files": library.files_used(),
            **({"modified": modified} if modified else {}),
        },
        **entries,
    }


def describe_run(run: Run, parts: Iterable[Part]) -> dict[str, Any]:
    """The entry of a report about the run: kind, file, hash, sizes, and how many of its items no task needs."""
    needs, facts = [need for part in parts for need in part.needs], run.facts()
    for side in SIDES:
        if side in facts:
            used = find_positions(run.ids(side), collect_ids(side, needs))[1]
            facts[side] = {**facts[side], "outside_the_tasks": int((~used).sum())}
    return facts


def name_model(run: Run, name: str | None) -> dict[str, str]:
    """The entry ``model`` of the provenance: the given name, else that of the run, else nothing."""
    if name is not None:
        check_name("evaluate", name, InvalidOption)
        return {"model": name}
    return {} if run.model is None else {"model": run.model}


def training_data_of(run: Run) -> tuple[str, ...]:
    """What the record beside an encoded file says that the model was trained on; empty if nothing."""
    facts = None if run.path is None else read_record(run.path)
    return tuple((facts or {}).get("training_data") or ())
