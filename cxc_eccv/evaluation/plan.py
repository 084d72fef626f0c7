"""Plan: the tasks, parts and metrics that a request computes, on which part of a split, and why others are left out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cxc_eccv import registry
from cxc_eccv.errors import CxcEccvError, DataError, InvalidOption, MissingIds, SourceMissing, UnknownName
from cxc_eccv.evaluation.metric_inputs import METRIC_INPUTS, MetricInput
from cxc_eccv.evaluation.relabelling import drop_other_labels, find_sources, keep_labels, relabel, why_not_relabelled
from cxc_eccv.evaluation.request import Rankable, Request
from cxc_eccv.metrics.kinds import Variant, WholeMetric
from cxc_eccv.registry import metric_variants, tasks
from cxc_eccv.runs.run import read_record
from cxc_eccv.sources.collections.coco import COLLECTION as COCO
from cxc_eccv.sources.collections.collection import Collection
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.tasks.task import NotApplicable, Task
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
        return [each for part in self.parts for each in part.inputs]


class ChosenTask(NamedTuple):
    """A task with the parts to score, and whether the user named it."""

    task: Task
    parts: Sequence[str]
    is_named: bool


def make_plan(request: Request, library: Library, rankable: Rankable, *, whole: Split | None = None) -> Plan:
    """Plan the parts of the tasks and metrics that can be computed, on the split or a part of it.

    ``rankable`` is the run, or what a model will encode: nothing is ranked yet. ``whole`` stands for the split
    of the tasks' collection.
    """
    labels: tuple[str, ...] = ()
    if request.sources is not None or library.table_names:
        labels = find_sources(request.sources, library, request.split)
    parts: list[PlannedPart] = []
    skipped: dict[str, str] = {}
    refused: list[CxcEccvError] = []
    choice = _choose_tasks(request, rankable, library, skipped)
    chosen = [each._replace(task=relabel(each.task, labels)) for each in choice]
    collections = [each.task.collection for each in chosen] or [COCO]
    unreadable = _read_unreadable(rankable)
    splits = _find_parts(request, library, rankable, collections, whole, unreadable)
    plan = Plan(
        request=request,
        library=library,
        parts=parts,
        wholes={},
        skipped=skipped,
        refused=refused,
        splits=splits,
        restriction=_describe_parts(request, tuple(splits.values()), unreadable),
        sources=labels,
    )
    for each in chosen:
        task = each.task
        named = each.is_named
        remedy = keep_labels(request.sources, library)
        if labels and (reason := why_not_relabelled(task, remedy)) is not None:
            skipped[task.name] = reason
            if named:
                refused.append(InvalidOption(f"{task.name} cannot be computed: {reason}"))
            continue
        try:
            of_task, reasons = _plan_parts(plan, rankable, each)
        except (InvalidOption, SourceMissing) as error:
            refused.append(error)
            continue
        parts += of_task
        skipped |= reasons
    _refuse_idle_judge(request, parts)
    metrics = request.metric_names
    if metrics is not None and request.tasks != "all" and not refused:
        refused += _find_undefined(metrics, chosen)
    if metrics is not None and request.tasks == "all" and not parts and not refused:
        why = "; ".join(dict.fromkeys(skipped.values()))
        raise InvalidOption(f"none of the metrics {', '.join(metrics)} can be computed: {why}")
    return plan


def _refuse_idle_judge(request: Request, parts: Sequence[PlannedPart]) -> None:
    """Refuse a judge whom no metric would ask."""
    if request.judge is None or request.bounds or not parts:
        return
    variants = [variant for part in parts for each in part.inputs for variant in each.variants]
    if not any(getattr(variant.spec, "has_policy", False) for variant in variants):
        raise InvalidOption(
            "judge (--judge): none of these metrics asks it; it labels pairs for Entail@K, of the task entailment, and "
            "gives every metric an expected value with bounds (--bounds)"
        )


def _choose_tasks(
    request: Request, rankable: Rankable, library: Library, skipped: dict[str, str]
) -> Iterator[ChosenTask]:
    """The tasks that the user named; for "all", those of the run's collections."""
    if request.tasks == "all":
        has_searched = library.label_names != library.table_names
        known = [task for task in tasks().values() if not task.of_label_files or has_searched]
        reasons = collections_held([task.collection for task in known], rankable, library, request.split)
        for task in known:
            if reasons[task.collection] is None:
                yield ChosenTask(task, task.part_names, is_named=False)
            else:
                skipped[task.name] = str(reasons[task.collection])
        return
    chosen: dict[str, list[str]] = {}
    for name in [request.tasks] if isinstance(request.tasks, str) else request.tasks:
        task_name, _, part = name.partition("/")
        task = registry.task(task_name)
        if part and part not in task.part_names:
            raise UnknownName(f"direction of {task_name}", part, task.part_names)
        chosen.setdefault(task.name, []).extend([part] if part else task.part_names)
    yield from (
        ChosenTask(registry.task(name), tuple(dict.fromkeys(parts)), is_named=True) for name, parts in chosen.items()
    )


def _plan_parts(plan: Plan, rankable: Rankable, chosen: ChosenTask) -> tuple[list[PlannedPart], dict[str, str]]:
    task, names, named = chosen
    parts: list[PlannedPart] = []
    reasons: dict[str, str] = {}
    try:
        metrics = choose_metrics(task, plan.request.metric_names)
    except NotApplicable as error:
        if named:
            raise
        return [], {task.name: str(error)}
    if plan.sources:
        remedy = keep_labels(plan.request.sources, plan.library)
        metrics, reasons = drop_other_labels(task, {name: metrics[name] for name in (*names, "")}, remedy)
    for name in [name for name in names if f"{task.name}/{name}" not in reasons]:
        try:
            inputs = _find_inputs(plan, rankable, task, name, metrics[name])
            parts.append(PlannedPart(task, name, metrics[name], inputs))
        except (NotApplicable, SourceMissing) as error:
            if named and isinstance(error, SourceMissing):
                raise
            reasons[f"{task.name}/{name}"] = str(error)
    if named and not parts:
        raise InvalidOption(f"{task.name} cannot be computed: " + "; ".join(dict.fromkeys(reasons.values())))
    plan.wholes[task.name] = PlannedPart(task, "", metrics[""])
    return parts, reasons


def _find_inputs(
    plan: Plan, rankable: Rankable, task: Task, part: str, variants: tuple[Variant[Any], ...]
) -> tuple[MetricInput[Any, Any], ...]:
    if not variants:
        raise NotApplicable(f"none of the metrics is defined for {task.name}/{part}")
    inputs: list[MetricInput[Any, Any]] = []
    direction = task.part(part).direction
    split = plan.find_split(task)
    for kind, input_type in METRIC_INPUTS.items():
        if variants_of_kind := [variant for variant in variants if isinstance(variant.spec, kind)]:
            if (reason := input_type.why_not(rankable, direction)) is not None:
                raise NotApplicable(reason)
            judged = task.read(variants_of_kind[0].spec.reads, split, part)
            if not judged.query_ids.size:
                raise NotApplicable("none of its judged items is in the part of the split that is scored")
            metric_input = input_type(task, part, judged, tuple(variants_of_kind))
            if plan.request.bounds:
                metric_input = metric_input.with_bounds(plan.request, plan.library, plan.sources)
            inputs.append(metric_input)
    return tuple(inputs)


def choose_metrics(task: Task, metrics: Sequence[str] | None) -> Metrics:
    """The named metrics, or the default metrics of a task; raises NotApplicable if none is defined for the task."""
    named = [metric_variants(name) for name in (metrics if metrics is not None else task.metrics)]
    if explaining := [spec.name for spec, _ in named if spec.explains]:
        raise InvalidOption(
            f"{', '.join(explaining)}: tasks have no metrics that explain failed queries; use cxc-eccv explain FILE"
        )
    variants = [Variant(spec, parameters) for spec, calls in named for parameters in calls]
    sums = [spec for spec, _ in named if isinstance(spec, WholeMetric) and spec.name in task.metrics]
    shown = {variant.label for variant in variants}
    inputs = [(spec.of, label, parameters) for spec in sums for label, parameters in spec.inputs.items()]
    variants += [Variant(of, parameters, shown=False) for of, label, parameters in inputs if label not in shown]
    parts = {
        part.name: _once(variant for variant in variants if variant.spec.reads in part.offers) for part in task.parts
    }
    if not any(parts.values()):
        raise NotApplicable(f"none of the metrics {', '.join(metrics or ())} is defined for {task.name}")
    return parts | {"": _once(Variant(spec, {}) for spec in sums)}


def _find_undefined(metrics: Sequence[str], chosen: Sequence[ChosenTask]) -> Iterator[CxcEccvError]:
    """An error for each named metric that none of the named parts has."""
    for metric in metrics:
        for task, names, _ in chosen:
            try:
                parts = choose_metrics(task, [metric])
            except NotApplicable:
                continue
            if any(parts[name] for name in (*names, "")):
                break
        else:
            parts_named = ", ".join(f"{task.name}/{name}" for task, names, _ in chosen for name in names)
            yield NotApplicable(f"the metric {metric} is not defined for {parts_named}")


def _once(variants: Iterable[Variant[Any]]) -> tuple[Variant[Any], ...]:
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


NONE = np.empty(0, dtype=np.int64)


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
        lacking = {
            side: np.setdiff1d(first.ids(side), rankable.ids(side)) if side in may_lack else NONE for side in SIDES
        }
        parts[each] = first.without(np.union1d(unreadable, lacking["images"]), lacking["captions"])
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
    left_out = [np.sort(np.concatenate([NONE, *(part.left_out(side) for part in parts)])) for side in SIDES]
    if not any(ids.size for ids in left_out):
        return RestrictionFacts()
    sizes = [sum(part.whole.ids(side).size for part in parts) for side in SIDES]
    images, captions = (
        SideShare(size - ids.size, size) if ids.size else None for size, ids in zip(sizes, left_out, strict=True)
    )
    first = np.concatenate([part.whole.first(request.limit).image_ids for part in parts])
    return RestrictionFacts(
        limit=request.limit,
        allow_missing=request.allow_missing or None,
        unreadable_images=int(np.intersect1d(unreadable, first).size) or None,
        images=images,
        captions=captions,
        left_out_sha256=hashlib.sha256(b" captions ".join(ids.tobytes() for ids in left_out)).hexdigest(),
    )


def _read_unreadable(rankable: Rankable) -> IntArray:
    """Images that the record beside the run's file lists as skipped, and that the run does not have."""
    record = {} if rankable.path is None else read_record(rankable.path) or {}
    skipped = record.get("skipped")
    names = skipped if isinstance(skipped, dict) else {}
    named = [int(number) for number in names if number.isdecimal() and len(number) < 19]
    return np.setdiff1d(np.array(named, dtype=np.int64), rankable.ids("images"))
