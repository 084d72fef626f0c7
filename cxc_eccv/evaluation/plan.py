"""Plan: the tasks, parts and metrics that a request computes, on which part of a split, and why others are left out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from cxc_eccv import registry
from cxc_eccv.errors import CxcEccvError, DataError, InvalidOption, MissingIds, SourceMissing, UnknownName
from cxc_eccv.evaluation.metric_inputs import METRIC_INPUTS, MetricInput
from cxc_eccv.evaluation.relabelling import drop_other_labels, find_sources, keep_labels, relabel, why_not_relabelled
from cxc_eccv.evaluation.request import COUNT_ZERO, Rankable, Request
from cxc_eccv.metrics.kinds import Variant, WholeMetric
from cxc_eccv.registry import metric_variants, tasks
from cxc_eccv.runs import RankingsRun
from cxc_eccv.runs.run import read_record
from cxc_eccv.sources.collections.coco import COLLECTION as COCO
from cxc_eccv.sources.collections.collection import Collection
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.tasks.task import NotApplicable, Task
from cxc_eccv.terminal import has_terminal
from cxc_eccv.types import CROSS_MODAL, DIRECTIONS, SIDES, IntArray, find_positions, find_sides
from cxc_eccv.types.provenance import RestrictionFacts, SideShare

Metrics = dict[str, tuple[Variant[Any], ...]]
"""Part of a task, a direction or a kind of rated pairs, to its metrics; "" for those of the whole task."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedPart:
    """One part of one task, or the whole task: its metrics and their inputs."""

    task: Task
    name: str  # empty for the whole task
    variants: tuple[Variant[Any], ...]
    inputs: tuple[MetricInput[Any, Any], ...] = ()

    @property
    def key(self) -> str:
        """``task/part``, or the task alone."""
        return f"{self.task.name}/{self.name}" if self.name else self.task.name


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The parts that a request computes, and reasons for others."""

    request: Request
    library: Library
    parts: list[PlannedPart]
    wholes: dict[str, PlannedPart]  # name of a task to the metrics over all its parts
    skipped: dict[str, str]  # key to reason
    refused: list[CxcEccvError]  # errors of named tasks that cannot be computed
    splits: Mapping[Collection, Split]  # collection to the part of its split that is scored, if it is not whole
    restriction: RestrictionFacts  # what a report says of these parts
    sources: tuple[str, ...]  # sources of labels that replace those of the tasks

    def find_split(self, task: Task) -> Split:
        """The split of the task's collection, or the part of it that is scored."""
        return self.splits.get(task.collection) or self.library.split(self.request.split, task.collection)

    @property
    def inputs(self) -> list[MetricInput[Any, Any]]:
        """The inputs of all parts."""
        return list(chain.from_iterable(part.inputs for part in self.parts))


class ChosenTask(NamedTuple):
    """A task with the parts to score, and whether the user named it."""

    task: Task
    parts: Sequence[str]
    is_named: bool


def make_plan(
    request: Request, library: Library, rankable: Rankable, *, whole: Split | None = None, progress: bool = False
) -> Plan:
    """Plan the parts of the tasks and metrics that can be computed, on the split or a part of it.

    ``rankable`` is the run, or what a model will encode: nothing is ranked yet. ``whole`` stands for the split
    of the tasks' collection. With ``progress`` a bar over the tasks is shown on a terminal.
    """
    if request.missing is not None and not isinstance(rankable, RankingsRun):
        raise InvalidOption(
            f"missing={request.missing!r} (--missing) is for rankings, which may lack queries; leave it out. For "
            "vectors and scores, allow_missing (--allow-missing) leaves out what the run lacks."
        )
    labels: tuple[str, ...] = ()
    if request.sources is not None or library.table_names:
        labels = find_sources(request.sources, library, request.split)
    skipped: dict[str, str] = {}
    choice = _choose_tasks(request, rankable, library, skipped)
    chosen = [each._replace(task=relabel(each.task, labels)) for each in choice]
    collections = [each.task.collection for each in chosen] or [COCO]
    unreadable = _read_unreadable(rankable)
    splits = _find_parts(request, library, rankable, collections, whole, unreadable)
    plan = Plan(
        request=request,
        library=library,
        parts=[],
        wholes={},
        skipped=skipped,
        refused=[],
        splits=splits,
        restriction=_describe_parts(request, tuple(splits.values()), unreadable),
        sources=labels,
    )
    for each in tqdm(chosen, "reading labels", unit="task", leave=False, disable=not (progress and has_terminal())):
        _plan_task(plan, rankable, each)
    if request.missing == COUNT_ZERO and isinstance(rankable, RankingsRun):
        _leave_out_without_results(plan, rankable)
    _refuse_idle_judge(request, plan.inputs)
    metrics = request.metric_names
    if metrics is not None and not plan.refused:
        if request.tasks != "all":
            plan.refused.extend(_find_undefined(metrics, chosen))
        elif not plan.parts:
            why = "; ".join(dict.fromkeys(skipped.values()))
            raise InvalidOption(f"none of the metrics {', '.join(metrics)} can be computed: {why}")
    return plan


def _leave_out_without_results(plan: Plan, run: RankingsRun) -> None:
    """Leave out the parts of which no query has results, although such queries count 0.

    They are refused, and stay in the plan, where the user named their task, or the run ranks no query of any task in
    their direction: the run is then a wrong file.
    """
    lacking = [part for part in plan.parts if not _has_results(part, run)]
    ranked = [part for part in plan.parts if part not in lacking]
    directions_ranked = {part.inputs[0].direction for part in ranked}
    refused = []
    for part in lacking:
        if plan.request.tasks != "all" or part.inputs[0].direction not in directions_ranked:
            refused.append(part)
        else:
            plan.parts.remove(part)
            n_queries = max(each.query_ids.size for each in part.inputs)
            plan.skipped[part.key] = f"none of its {n_queries:,} queries has results"
    if not refused:
        return
    keys = ", ".join(part.key for part in refused)
    remedy = "Is it the right file, of this split (--split)?"
    names_ranked = list(dict.fromkeys(part.key for part in ranked))
    if names_ranked:
        remedy += f" Else name the tasks that it ranks (--tasks {','.join(names_ranked)})."
    plan.refused.append(MissingIds(f"{run.path or 'run'}: ranks none of the queries of {keys}. {remedy}"))


def _has_results(part: PlannedPart, run: RankingsRun) -> bool:
    """Whether every input of a part has a query that the run ranks."""
    return all(find_positions(each.query_ids, run.query_ids(each.direction))[1].any() for each in part.inputs)


def _refuse_idle_judge(request: Request, inputs: Sequence[MetricInput[Any, Any]]) -> None:
    """Refuse a judge whom no metric would ask."""
    if request.judge is None or request.bounds or not inputs:
        return
    variants = chain.from_iterable(each.variants for each in inputs)
    if not any(getattr(variant.spec, "has_policy", False) for variant in variants):
        raise InvalidOption(
            "judge (--judge): none of these metrics asks it; it labels pairs for Entail@K, of the task entailment, and "
            "gives every metric an expected value with bounds (--bounds)"
        )


def _choose_tasks(request: Request, rankable: Rankable, library: Library, skipped: dict[str, str]) -> list[ChosenTask]:
    """The tasks that the user named; for "all", those of the run's collections."""
    if request.tasks == "all":
        return _choose_tasks_of_run(request, rankable, library, skipped)
    names = [request.tasks] if isinstance(request.tasks, str) else request.tasks
    parts_named: dict[str, list[str]] = {}
    for name in names:
        task_name, _, part = name.partition("/")
        task = registry.task(task_name)
        if part and part not in task.part_names:
            raise UnknownName(f"direction of {task_name}", part, task.part_names)
        parts_named.setdefault(task.name, []).extend([part] if part else task.part_names)
    chosen = []
    for name, parts in parts_named.items():
        distinct = tuple(dict.fromkeys(parts))
        chosen.append(ChosenTask(registry.task(name), distinct, is_named=True))
    return chosen


def _choose_tasks_of_run(
    request: Request, rankable: Rankable, library: Library, skipped: dict[str, str]
) -> list[ChosenTask]:
    """The tasks of the collections that the run is about; the reasons of others are added to ``skipped``."""
    has_searched = library.label_names != library.table_names
    known = [task for task in tasks().values() if not task.of_label_files or has_searched]
    reasons = collections_held([task.collection for task in known], rankable, library, request.split)
    chosen = []
    for task in known:
        reason = reasons[task.collection]
        if reason is None:
            chosen.append(ChosenTask(task, task.part_names, is_named=False))
        else:
            skipped[task.name] = reason
    return chosen


def _plan_task(plan: Plan, rankable: Rankable, chosen: ChosenTask) -> None:
    """Add the parts of a task to the plan, or the reason why it is left out."""
    task = chosen.task
    if plan.sources:
        reason = why_not_relabelled(task, keep_labels(plan.request.sources, plan.library))
        if reason is not None:
            plan.skipped[task.name] = reason
            if chosen.is_named:
                plan.refused.append(InvalidOption(f"{task.name} cannot be computed: {reason}"))
            return
    try:
        parts, reasons = _plan_parts(plan, rankable, chosen)
    except (InvalidOption, SourceMissing) as error:
        plan.refused.append(error)
        return
    plan.parts.extend(parts)
    plan.skipped.update(reasons)


def _plan_parts(plan: Plan, rankable: Rankable, chosen: ChosenTask) -> tuple[list[PlannedPart], dict[str, str]]:
    """The parts of a task that can be computed, and the reasons of the others."""
    task = chosen.task
    parts: list[PlannedPart] = []
    reasons: dict[str, str] = {}
    try:
        metrics = choose_metrics(task, plan.request.metric_names)
    except NotApplicable as error:
        if chosen.is_named:
            raise
        return [], {task.name: str(error)}
    if plan.sources:
        remedy = keep_labels(plan.request.sources, plan.library)
        metrics_of_chosen = {name: metrics[name] for name in (*chosen.parts, "")}
        metrics, reasons = drop_other_labels(task, metrics_of_chosen, remedy)
    for name in chosen.parts:
        key = f"{task.name}/{name}"
        if key in reasons:
            continue
        try:
            inputs = _find_inputs(plan, rankable, task, name, metrics[name])
            parts.append(PlannedPart(task, name, metrics[name], inputs))
        except (NotApplicable, SourceMissing) as error:
            if chosen.is_named and isinstance(error, SourceMissing):
                raise
            reasons[key] = str(error)
    if chosen.is_named and not parts:
        raise InvalidOption(f"{task.name} cannot be computed: " + "; ".join(dict.fromkeys(reasons.values())))
    plan.wholes[task.name] = PlannedPart(task, "", metrics[""])
    return parts, reasons


def _find_inputs(
    plan: Plan, rankable: Rankable, task: Task, part: str, variants: tuple[Variant[Any], ...]
) -> tuple[MetricInput[Any, Any], ...]:
    """The input of each kind of metric of a part; raises NotApplicable if the run or the split cannot give one."""
    if not variants:
        raise NotApplicable(f"none of the metrics is defined for {task.name}/{part}")
    inputs: list[MetricInput[Any, Any]] = []
    direction = task.part(part).direction
    split = plan.find_split(task)
    for kind, input_type in METRIC_INPUTS.items():
        variants_of_kind = tuple(variant for variant in variants if isinstance(variant.spec, kind))
        if not variants_of_kind:
            continue
        reason = input_type.why_not(rankable, direction)
        if reason is not None:
            raise NotApplicable(reason)
        judged = task.read(variants_of_kind[0].spec.reads, split, part)
        if not judged.query_ids.size:
            raise NotApplicable("none of its judged items is in the part of the split that is scored")
        metric_input = input_type(task, part, judged, variants_of_kind)
        if plan.request.missing == COUNT_ZERO and isinstance(rankable, RankingsRun):
            metric_input = metric_input.count_zero(rankable.query_ids(direction))
        if plan.request.bounds:
            metric_input = metric_input.with_bounds(plan.request, plan.library, plan.sources)
        inputs.append(metric_input)
    return tuple(inputs)


def choose_metrics(task: Task, metrics: Sequence[str] | None) -> Metrics:
    """The named metrics, or the default metrics of a task; raises NotApplicable if none is defined for the task."""
    variants: list[Variant[Any]] = []
    sums: list[WholeMetric] = []
    explaining: list[str] = []
    for name in task.metrics if metrics is None else metrics:
        spec, calls = metric_variants(name)
        variants += [Variant(spec, parameters) for parameters in calls]
        if isinstance(spec, WholeMetric) and spec.name in task.metrics:
            sums.append(spec)
        if spec.explains:
            explaining.append(spec.name)
    if explaining:
        raise InvalidOption(
            f"{', '.join(explaining)}: tasks have no metrics that explain failed queries; use cxc-eccv explain FILE"
        )
    shown = {variant.label for variant in variants}
    for spec in sums:
        hidden = [parameters for label, parameters in spec.inputs.items() if label not in shown]
        variants += [Variant(spec.of, parameters, shown=False) for parameters in hidden]
    by_part: Metrics = {}
    for part in task.parts:
        by_part[part.name] = _drop_repeats([variant for variant in variants if variant.spec.reads in part.offers])
    if not any(by_part.values()):
        raise NotApplicable(f"none of the metrics {', '.join(metrics or ())} is defined for {task.name}")
    by_part[""] = _drop_repeats([Variant(spec, {}) for spec in sums])
    return by_part


def _find_undefined(metrics: Sequence[str], chosen: Sequence[ChosenTask]) -> list[CxcEccvError]:
    """An error for each named metric that none of the named parts has."""
    parts_named: list[str] = []
    for each in chosen:
        parts_named += [f"{each.task.name}/{name}" for name in each.parts]
    undefined = [metric for metric in metrics if not _is_defined(metric, chosen)]
    return [NotApplicable(f"the metric {metric} is not defined for {', '.join(parts_named)}") for metric in undefined]


def _is_defined(metric: str, chosen: Sequence[ChosenTask]) -> bool:
    """Whether one of the chosen parts, or a whole task, has a metric."""
    for each in chosen:
        try:
            metrics = choose_metrics(each.task, [metric])
        except NotApplicable:
            continue
        if any(metrics[name] for name in (*each.parts, "")):
            return True
    return False


def _drop_repeats(variants: Sequence[Variant[Any]]) -> tuple[Variant[Any], ...]:
    """The variants with one of each label, the last one in the place of the first."""
    return tuple({variant.label: variant for variant in variants}.values())


HELD_SHARE = 0.5


def collections_held(
    collections: Iterable[Collection], rankable: Rankable, library: Library, split: str
) -> dict[Collection, str | None]:
    """Collection to None if the run is about it, else to the reason why it is not."""
    others = [collection for collection in dict.fromkeys(collections) if collection is not COCO]
    reasons = {collection: _find_reason(collection, rankable, library, split) for collection in others}
    if any(reason is None for reason in reasons.values()):
        return {COCO: _find_reason(COCO, rankable, library, split), **reasons}
    return {COCO: None, **reasons}


def _find_reason(collection: Collection, rankable: Rankable, library: Library, split: str) -> str | None:
    if not library.has_collection(collection):
        return f"the files of {collection.title} are not on this machine (name the task to download them)"
    try:
        content = library.split(split, collection)
    except DataError as error:
        return str(error)
    side = "images" if rankable.ids("images").size else "captions"
    wanted = content.image_ids if side == "images" else content.caption_ids
    n_held = int(find_positions(wanted, rankable.ids(side))[1].sum())
    if n_held > HELD_SHARE * wanted.size:
        return None
    return f"the run holds {n_held:,} of the {wanted.size:,} {side} of {collection.title}"


NO_ITEMS = np.empty(0, dtype=np.int64)


def _find_parts(
    request: Request,
    library: Library,
    rankable: Rankable,
    collections: Iterable[Collection],
    whole: Split | None,
    unreadable: IntArray,
) -> dict[Collection, Split]:
    """Collection to the part of its split that is scored; empty if nothing restricts the whole splits."""
    may_lack = _find_sides_that_may_lack(request, rankable)
    if request.limit is None and not request.allow_missing and not unreadable.size and rankable.corpus is None:
        return {} if whole is None else dict.fromkeys(collections, whole)
    splits = {each: whole or library.split(request.split, each) for each in collections}
    parts = {}
    for each, split in splits.items():
        first = split.first(request.limit)
        lacking = {side: np.setdiff1d(first.ids(side), rankable.ids(side)) for side in may_lack}
        images = np.union1d(unreadable, lacking.get("images", NO_ITEMS))
        parts[each] = first.without(images, lacking.get("captions", NO_ITEMS))
    if rankable.corpus is not None and not any(part.caption_ids.size for part in parts.values()):
        raise MissingIds(
            f"{rankable.path or 'run'}: none of its queries is a caption of COCO's {request.split} split. Give the "
            "split that query-corpus ranked with --split, or --collection visual_genome; others have no concepts to "
            "explain failures."
        )
    return parts


def _find_sides_that_may_lack(request: Request, rankable: Rankable) -> tuple[str, ...]:
    """The sides whose items are left out where the run lacks them; of rankings only that of the queries is known."""
    if rankable.corpus is not None:
        return ("captions",)
    if not request.allow_missing:
        return ()
    if not rankable.may_be_cut:
        return tuple(side for side in SIDES if rankable.ids(side).size)
    directions = [direction for direction in DIRECTIONS if rankable.why_not(direction) is None]
    if len(directions) > 1 or directions[0] not in CROSS_MODAL:
        raise InvalidOption(
            "allow_missing (--allow-missing) is for vectors, scores, and rankings of i2t or t2i alone; rankings do not "
            "show which items they lack, but only which queries"
        )
    return (find_sides(directions[0])[0],)


def _describe_parts(request: Request, parts: Sequence[Split], unreadable: IntArray) -> RestrictionFacts:
    """What a report says of the parts that are scored; empty if nothing is left out."""
    left_out: dict[str, IntArray] = {}
    shares: dict[str, SideShare | None] = {}
    for side in SIDES:
        ids = np.sort(np.concatenate([NO_ITEMS, *(part.left_out(side) for part in parts)]))
        size = sum(part.whole.ids(side).size for part in parts)
        left_out[side] = ids
        shares[side] = SideShare(size - ids.size, size) if ids.size else None
    if not any(ids.size for ids in left_out.values()):
        return RestrictionFacts()
    first = np.concatenate([part.whole.first(request.limit).image_ids for part in parts])
    return RestrictionFacts(
        limit=request.limit,
        allow_missing=request.allow_missing or None,
        unreadable_images=int(np.intersect1d(unreadable, first).size) or None,
        images=shares["images"],
        captions=shares["captions"],
        left_out_sha256=hashlib.sha256(b" captions ".join(ids.tobytes() for ids in left_out.values())).hexdigest(),
    )


def _read_unreadable(rankable: Rankable) -> IntArray:
    """Images that the record beside the run's file lists as skipped, and that the run does not have."""
    record = {} if rankable.path is None else read_record(rankable.path) or {}
    skipped = record.get("skipped")
    names = skipped if isinstance(skipped, dict) else {}
    named = [int(number) for number in names if number.isdecimal() and len(number) < 19]
    return np.setdiff1d(np.array(named, dtype=np.int64), rankable.ids("images"))
