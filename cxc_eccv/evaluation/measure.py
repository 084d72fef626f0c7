"""One pass over a run for all needs, and checks of the run's items before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from cxc_eccv.errors import CxcEccvError, MissingIds, SourceMissing, UnknownIds
from cxc_eccv.evaluation.bounds import BoundsOfNeeds
from cxc_eccv.evaluation.needs import Need
from cxc_eccv.evaluation.plan import Plan
from cxc_eccv.ranking import ranks_of_run
from cxc_eccv.ranking.lists import rows_of
from cxc_eccv.ranking.readers import RowReader
from cxc_eccv.ranking.scores import places_of
from cxc_eccv.runs import RankingsRun, Run
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import UNREACHABLE_CAPTIONS
from cxc_eccv.tasks.task import Collection
from cxc_eccv.types import SIDES, IntArray, find_positions, find_sides, other_side
from cxc_eccv.types.ids import find_distinct

NAMED = 3
SWAP_SHARE = 0.5


def measure(
    run: Run, plan: Plan, similarity: str | None, bounds: BoundsOfNeeds | None = None, *, progress: bool = False
) -> None:
    """Let every need read the input of its metrics, in one pass over the run."""
    needs, options = plan.needs, {"device": plan.request.device, "block_size": plan.request.block_size}
    judgments = {name: (need.direction, judged) for need in needs for name, judged in need.requests.items()}
    readers: dict[str, list[RowReader]] = {}
    for need in needs:
        if reading := [*need.readers, *(() if bounds is None else bounds.readers(need))]:
            readers.setdefault(need.direction, []).extend(reading)
    ranks = ranks_of_run(run, judgments, readers=readers, similarity=similarity, progress=progress, **options)
    for need in needs:
        need.learn(run, ranks, similarity)
    if bounds is not None:
        bounds.settle()


def find_faults(run: Run, plan: Plan) -> list[CxcEccvError]:
    """An error for each side of a run that lacks items, or has unknown ones."""
    unknown = find_unknown_ids(run, plan.needs, plan.library, {part.task.collection for part in plan.parts})
    return find_missing_ids(run, plan.needs) + unknown


def find_missing_ids(run: Run, needs: Sequence[Need[Any]]) -> list[CxcEccvError]:
    """An error for each side, or each direction of rankings, that lacks items."""
    if isinstance(run, RankingsRun):
        queries: dict[str, list[IntArray]] = {}
        for need in needs:
            queries.setdefault(need.direction, []).append(need.query_ids)
        looks = [
            partial(rows_of, run, direction, find_distinct(np.concatenate(ids))) for direction, ids in queries.items()
        ]
    else:
        sides = {side: collect_ids(side, needs) for side in SIDES}
        looks = [partial(places_of, ids, run, side) for side, ids in sides.items() if ids.size]
    errors: list[CxcEccvError] = []
    for look in looks:
        try:
            look()
        except MissingIds as error:
            errors.append(error)
    return errors


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


def collect_ids(side: str, needs: Iterable[Need[Any]]) -> IntArray:
    """(N,) distinct ids of a side that are queries or gallery items."""
    ids = [np.empty(0, dtype=np.int64)]
    for need in needs:
        query_side, gallery_side = find_sides(need.direction)
        ids += [need.query_ids] * (query_side == side) + [need.gallery_ids] * (gallery_side == side)
    return find_distinct(np.concatenate(ids))


def _read_known_ids(side: str, library: Library, collections: Iterable[Collection]) -> IntArray:
    try:
        splits = [each.content(library, split) for each in set(collections) for split in each.splits(library)]
    except SourceMissing:
        return np.empty(0, dtype=np.int64)
    if side == "images":
        return find_distinct(np.concatenate([split.image_ids for split in splits]))
    captions = [ids for split in splits for ids in (split.caption_ids, split.cut_caption_ids)]
    return find_distinct(np.concatenate([*captions, np.array(sorted(UNREACHABLE_CAPTIONS), dtype=np.int64)]))
