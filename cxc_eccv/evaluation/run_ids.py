"""Items that a run lacks, and items that the data does not know: found before anything is ranked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import numpy as np

from cxc_eccv.errors import CxcEccvError, MissingIds, SourceMissing, UnknownIds
from cxc_eccv.ranking.lists import rows_of
from cxc_eccv.ranking.scores import places_of
from cxc_eccv.runs import RankingsRun, Run
from cxc_eccv.runs.run import SIDES, other_side, sides_of
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import UNREACHABLE_CAPTIONS
from cxc_eccv.tasks.collection import Collection
from cxc_eccv.types import IntArray, positions_of

__all__ = ["Asked", "ids_used", "missing_ids", "unknown_ids"]

NAMED = 3
SWAP_SHARE = 0.5


class Asked(NamedTuple):
    """Ids that an evaluation needs of a run.

    Attributes:
        direction: from which modality to which.
        query_ids: (Q,) ids, repeated or not.
        gallery_ids: (N,) likewise.
    """

    direction: str
    query_ids: IntArray
    gallery_ids: IntArray


def missing_ids(run: Run, asked: Iterable[Asked]) -> list[CxcEccvError]:
    """An error for each side, or direction of rankings, that lacks items.

    Args:
        run: the model's results.
        asked: what everything computed needs.

    Example:
        >>> from cxc_eccv.runs import RankingsRun
        >>> run = RankingsRun.from_dicts(t2i={7: [1, 2]})
        >>> print(*missing_ids(run, [Asked("t2i", np.array([7, 8]), np.array([1, 2]))]))
        t2i: lacks the rankings of 1 of 2 queries the task needs, the first: 8. Rank the gallery for these too, or \
name the tasks whose queries the run has.
    """
    needed = list(asked)
    if isinstance(run, RankingsRun):
        found = {one.direction: [other for other in needed if other.direction == one.direction] for one in needed}
        queries = {
            direction: np.unique(np.concatenate([one.query_ids for one in own])) for direction, own in found.items()
        }
        looks = [partial(rows_of, run, direction, ids) for direction, ids in queries.items()]
    else:
        sides = {side: ids_used(side, needed) for side in SIDES}
        looks = [partial(places_of, ids, run, side) for side, ids in sides.items() if ids.size]
    return [error for look in looks if (error := _missing(look)) is not None]


def _missing(look: Callable[[], IntArray]) -> MissingIds | None:
    try:
        look()
    except MissingIds as error:
        return error
    return None


def unknown_ids(
    run: Run, asked: Iterable[Asked], library: Library, collections: Iterable[Collection]
) -> list[CxcEccvError]:
    """An error for each side of a run with items that the data does not know; they may be all that is wrong with it.

    Items of other splits are known, and so are captions beyond the fifth of their image. An error names the first
    ones, how many, and the remedy.

    Args:
        run: the model's results.
        asked: what everything computed needs.
        library: the raw sources.
        collections: of the tasks.

    Example:
        >>> from cxc_eccv.runs import RankingsRun
        >>> from cxc_eccv.tasks.collection import COCO
        >>> run = RankingsRun.from_dicts(t2i={7: [1, 2]})
        >>> unknown_ids(run, [Asked("t2i", np.array([7]), np.array([1, 2]))], Library("sample"), [COCO])
        []
    """
    needed = list(asked)
    errors: list[CxcEccvError] = []
    for side in SIDES if needed else ():
        ids = run.ids(side)
        unknown = ids[~positions_of(ids, ids_used(side, needed))[1]]
        if unknown.size:
            unknown = unknown[~positions_of(unknown, _ids_of_data(side, library, collections))[1]]
        if unknown.size:
            count, first = f"{unknown.size} of {ids.size}", ", ".join(map(str, unknown[:NAMED]))
            place = f"{run.path or 'run'}: {count} {side} are unknown to the data, the first: {first}. "
            errors.append(UnknownIds(place + _remedy(side, unknown, needed)))
    return errors


def ids_used(side: str, asked: Iterable[Asked]) -> IntArray:
    """(N,) distinct ids of a side that are queries or gallery items.

    Example:
        >>> ids_used("images", [Asked("t2i", np.array([7]), np.array([2, 1]))]).tolist()
        [1, 2]
    """
    ids = [np.empty(0, dtype=np.int64)]
    for direction, query_ids, gallery_ids in asked:
        query_side, gallery_side = sides_of(direction)
        ids += [query_ids] * (query_side == side) + [gallery_ids] * (gallery_side == side)
    return np.unique(np.concatenate(ids))


def _ids_of_data(side: str, library: Library, collections: Iterable[Collection]) -> IntArray:
    try:
        splits = [one.content(library, split) for one in set(collections) for split in one.splits(library)]
    except SourceMissing:
        return np.empty(0, dtype=np.int64)
    if side == "images":
        return np.unique(np.concatenate([split.image_ids for split in splits]))
    captions = [ids for split in splits for ids in (split.caption_ids, split.cut_caption_ids)]
    return np.unique(np.concatenate([*captions, np.array(sorted(UNREACHABLE_CAPTIONS), dtype=np.int64)]))


def _remedy(side: str, unknown: IntArray, asked: list[Asked]) -> str:
    other = other_side(side)
    if positions_of(unknown, ids_used(other, asked))[1].mean() > SWAP_SHARE:
        return f"These ids are {other}: images and captions look swapped."
    return "Use the COCO ids of images and captions, and leave items of other data sets out."
