"""One pass over a run for all that a plan computes, after the faults that keep it from being computed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cxc_eccv.errors import CxcEccvError, MissingIds, SourceMissing, UnknownIds
from cxc_eccv.evaluation.metric_inputs import MetricInput, PassResult
from cxc_eccv.evaluation.mistaken_ids import describe_mistaken_ids
from cxc_eccv.evaluation.plan import Plan, PlannedPart
from cxc_eccv.metrics.kinds import Variant
from cxc_eccv.ranking import Ranked
from cxc_eccv.ranking.ranked import collect_ids
from cxc_eccv.ranking.readers import RowReader
from cxc_eccv.runs import Run
from cxc_eccv.sources.catalog import SAMPLE
from cxc_eccv.sources.collections.collection import Collection
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.sources.readers import UNREACHABLE_CAPTIONS
from cxc_eccv.types import SIDES, IntArray, Judgments, find_positions, other_side
from cxc_eccv.types.ids import find_distinct

UNKNOWN_IDS_NAMED = 3
SWAPPED_SHARE = 0.5

FOREIGN_SHARE = 0.5
"""A run with a larger share of items that are unknown to the embedded sample is of other data."""


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredPart:
    """A part of a task, and what a pass found for its inputs; whether the run tells equal scores."""

    part: PlannedPart
    results: tuple[PassResult[Any], ...]
    knows_ties: bool = True

    @property
    def metrics(self) -> list[tuple[Variant[Any], PassResult[Any]]]:
        """Each metric, in the order of the plan, with what it is computed from."""
        by_label: dict[str, PassResult[Any]] = {}
        for result in self.results:
            by_label |= {variant.label: result for variant in result.metric_input.variants}
        return [(variant, by_label[variant.label]) for variant in self.part.variants if variant.label in by_label]

    @property
    def errors(self) -> dict[str, CxcEccvError]:
        """Label to error, for the metrics that cannot be computed."""
        errors: dict[str, CxcEccvError] = {}
        for result in self.results:
            errors |= result.errors
            errors |= result.metric_input.find_metrics_without_zero()
        return errors


def measure(ranker: Ranked, plan: Plan) -> list[MeasuredPart]:
    """What one pass over the run finds for every metric input."""
    requests = {each: each.make_request(ranker) for each in plan.inputs}
    judgments: dict[str, tuple[str, Judgments]] = {}
    readers: dict[str, list[RowReader]] = {}
    for metric_input, request in requests.items():
        direction = metric_input.direction
        if request.judgments is not None:
            judgments[metric_input.key] = direction, request.judgments
        if request.all_readers:
            readers.setdefault(direction, []).extend(request.all_readers)
    ranks = ranker.rank_all(judgments, readers)
    parts = []
    for part in plan.parts:
        results = []
        for metric_input in part.inputs:
            request = requests[metric_input]
            similarities = None
            if request.pairs is not None:
                similarities = ranker.compare(request.pairs, metric_input.direction)
            found = replace(request, ranks=ranks.get(metric_input.key), similarities=similarities)
            results.append(metric_input.make_result(found))
        parts.append(MeasuredPart(part, tuple(results), ranker.knows_ties(part.inputs[0].direction)))
    return parts


def find_faults(ranker: Ranked, plan: Plan, split: Split | None = None) -> list[CxcEccvError]:
    """What keeps a plan from being computed: one error for mistaken ids, else what it refuses and the ids at fault.

    ``split`` is what the plan scores, if it stands for the split of the tasks.
    """
    run = ranker.run
    inputs = plan.inputs
    # Where queries without results count 0, the plan has refused what the run lacks.
    missing = ranker.find_missing(inputs) if plan.request.missing is None else []
    unknown = find_unknown_ids(run, inputs, plan.library, {part.task.collection for part in plan.parts})
    faults = [*plan.refused, *missing, *unknown]
    # Where items may be missing, the row numbers that are ids by chance would be scored without an error.
    if faults or plan.request.allow_missing or plan.request.missing is not None:
        scored = [*(plan.find_split(part.task) for part in plan.parts), *plan.splits.values()]
        whole = split or next((each.whole for each in scored), None)
        mistake = None if whole is None else describe_mistaken_ids(run, whole)
        if mistake is not None:
            is_missing = any(isinstance(fault, MissingIds) for fault in faults)
            return [MissingIds(mistake) if is_missing else UnknownIds(mistake)]
    return faults


def find_unknown_ids(
    run: Run, inputs: Sequence[MetricInput[Any, Any]], library: Library, collections: Iterable[Collection]
) -> list[CxcEccvError]:
    """An error for each side of a run with items that are not in the data."""
    errors: list[CxcEccvError] = []
    for side in SIDES if inputs else ():
        ids = run.ids(side)
        unknown = ids[~find_positions(ids, collect_ids(side, inputs))[1]]
        if unknown.size:
            unknown = unknown[~find_positions(unknown, _read_known_ids(side, library, collections))[1]]
        if unknown.size:
            count = f"{unknown.size} of {ids.size}"
            first = ", ".join(map(str, unknown[:UNKNOWN_IDS_NAMED]))
            data = "the data"
            advice = "Use the COCO ids of images and captions, and leave items of other data sets out."
            if find_positions(unknown, collect_ids(other_side(side), inputs))[1].mean() > SWAPPED_SHARE:
                advice = f"These ids are {other_side(side)}: images and captions look swapped."
            elif library.edition == SAMPLE and unknown.size > ids.size * FOREIGN_SHARE:
                data = "the embedded sample (CXC_ECCV_DATA=sample or --data-dir sample)"
                advice = "Leave that out for COCO."
            place = f"{run.path or 'run'}: {count} {side} are unknown to {data}, the first: {first}"
            errors.append(UnknownIds(f"{place}. {advice}"))
    return errors


def _read_known_ids(side: str, library: Library, collections: Iterable[Collection]) -> IntArray:
    """The ids of one side in all splits of the collections; none if a raw file is missing."""
    splits: list[Split] = []
    try:
        for collection in set(collections):
            splits += [library.split(name, collection) for name in library.read_splits(collection)]
    except SourceMissing:
        return np.empty(0, dtype=np.int64)
    if side == "images":
        return find_distinct(np.concatenate([split.image_ids for split in splits]))
    captions = [split.caption_ids for split in splits]
    cut = [split.cut_caption_ids for split in splits]
    unreachable = np.array(sorted(UNREACHABLE_CAPTIONS), dtype=np.int64)
    return find_distinct(np.concatenate([*captions, *cut, unreachable]))
