"""One pass over a run for all needs, and checks of the run's items before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from cxc_eccv.errors import CxcEccvError, SourceMissing, UnknownIds
from cxc_eccv.evaluation.bounds import BoundsOfNeeds
from cxc_eccv.evaluation.needs import Need
from cxc_eccv.evaluation.plan import Plan
from cxc_eccv.ranking import Ranked, ranked
from cxc_eccv.ranking.ranked import collect_ids
from cxc_eccv.ranking.readers import RowReader
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import UNREACHABLE_CAPTIONS
from cxc_eccv.tasks.task import Collection
from cxc_eccv.types import SIDES, IntArray, find_positions, other_side
from cxc_eccv.types.ids import find_distinct

NAMED = 3
SWAP_SHARE = 0.5


def measure(ranker: Ranked, plan: Plan, bounds: BoundsOfNeeds | None = None) -> None:
    """Let every need read the input of its metrics, in one pass over the run."""
    needs = plan.needs
    judgments = {name: (need.direction, judged) for need in needs for name, judged in need.requests.items()}
    readers: dict[str, list[RowReader]] = {}
    for need in needs:
        if reading := [*need.readers, *(() if bounds is None else bounds.readers(need))]:
            readers.setdefault(need.direction, []).extend(reading)
    ranks = ranker.rank_all(judgments, readers)
    for need in needs:
        need.learn(ranker, ranks)
    if bounds is not None:
        bounds.settle()


def find_faults(run: Run, plan: Plan) -> list[CxcEccvError]:
    """An error for each side of a run that lacks items, or has unknown ones."""
    unknown = find_unknown_ids(run, plan.needs, plan.library, {part.task.collection for part in plan.parts})
    return [*ranked(run).find_missing(plan.needs), *unknown]


def find_unknown_ids(
    run: Run, needs: Sequence[Need[Any]], library: Library, collections: Iterable[Collection]
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
        splits = [each.content(library, split) for each in set(collections) for split in each.splits(library)]
    except SourceMissing:
        return np.empty(0, dtype=np.int64)
    if side == "images":
        return find_distinct(np.concatenate([split.image_ids for split in splits]))
    captions = [ids for split in splits for ids in (split.caption_ids, split.cut_caption_ids)]
    return find_distinct(np.concatenate([*captions, np.array(sorted(UNREACHABLE_CAPTIONS), dtype=np.int64)]))
