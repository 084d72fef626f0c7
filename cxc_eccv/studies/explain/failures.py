"""Failed queries of a run, with the top of their rankings."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import UnknownName, raise_all
from cxc_eccv.evaluation.measure import find_faults
from cxc_eccv.evaluation.needs import Ranks
from cxc_eccv.evaluation.report import images_behind
from cxc_eccv.evaluation.select import Selection, select
from cxc_eccv.ranking import ranks_of_run
from cxc_eccv.ranking.lists import GivenRanks, ranks_from_rankings
from cxc_eccv.ranking.readers import TopRows
from cxc_eccv.ranking.scores import one_blas_thread
from cxc_eccv.runs import RankingsRun, Run
from cxc_eccv.sources.library import Library
from cxc_eccv.types import IntArray, check_whole

TASKS = {"t2i": "coco_5k", "i2t": "coco_5k", "t2t": "co_captions"}
"""Direction to the task whose recall@1 counts the failures."""

DEPTH = 11
"""Items of a ranking to find rivals in: an image has five captions, so the eleventh is of a third image."""

NOBODY = -1
"""Stands in rivals for no further image."""


@dataclass(frozen=True, slots=True, eq=False)
class Failures:
    """The queries of one direction whose top item is not of their own image.

    A failure is a query whose recall@1 is 0 under the task's positives; an item that ties with a positive counts as
    ranked above it. Every item stands for an image: itself, or the one a caption was written for.

    ``asked_ids`` and ``asked_images`` are all Q queries, failed or not, and their images. The others are of the F
    failed queries, in the same order: ``truth_ids`` their images; ``item_ids`` and ``retrieved_ids`` the top item and
    its image; ``rival_ids`` (F, K) the next distinct images other than these two, best first, padded with NOBODY;
    ``truth_ranks`` the rank of the best right item, null if the ranking ends above it.
    """

    direction: str
    asked_ids: IntArray
    asked_images: IntArray
    query_ids: IntArray
    truth_ids: IntArray
    retrieved_ids: IntArray
    item_ids: IntArray
    rival_ids: IntArray
    truth_ranks: pa.Array

    def __len__(self) -> int:
        return int(self.query_ids.size)

    @property
    def n_queries(self) -> int:
        """The number of all queries."""
        return int(self.asked_ids.size)


def directions_of(run: Run) -> tuple[tuple[str, ...], dict[str, str]]:
    """The directions that a run can be ranked in, and for the others the reason."""
    reasons = {direction: run.why_not(direction) for direction in TASKS}
    skipped = {direction: why for direction, why in reasons.items() if why is not None}
    return tuple(direction for direction in TASKS if direction not in skipped), skipped


def select_recall(run: Run, library: Library, split: str, directions: Sequence[str]) -> Selection:
    """Select what recall@1 of these directions is computed from, a part each; raises what ``evaluate`` raises."""
    for direction in directions:
        if direction not in TASKS:
            raise UnknownName("direction", direction, TASKS)
    chosen = select(run, [f"{TASKS[name]}/{name}" for name in directions], library, split, ["recall_at_1"])
    raise_all([*chosen.refused, *find_faults(run, chosen.parts, library, named=True, strict=True)])
    return chosen


def find_failures(
    run: Run,
    library: Library,
    split: str,
    direction: str,
    depth: int = DEPTH,
    *,
    similarity: str | None = None,
    selection: Selection | None = None,
) -> Failures:
    """The failed queries of a run in one direction: failures / queries is exactly 1 - recall@1 of its evaluation.

    Rivals are among the first ``depth`` items, or as many as all rankings have. ``selection`` is the result of
    :func:`select_recall`, if it was called before.
    """
    check_whole("depth", depth)
    with one_blas_thread():
        chosen = selection or select_recall(run, library, split, [direction])
        (need,) = (need for part in chosen.parts if part.name == direction for need in part.needs)
        assert isinstance(need, Ranks)  # noqa: S101 - recall is computed from ranks
        judged = need.judged
        if isinstance(run, RankingsRun):
            listed = ranks_from_rankings(run, direction, judged)
            need.settle(listed)
            raise_all(need.errors.values())  # a ranking without an item of the gallery
            depth = min(depth, int(listed.depths.min()))
        reader = TopRows(judged, depth)
        request, readers = {direction: (direction, judged)}, {direction: [reader]}
        ranks = ranks_of_run(run, request, readers=readers, progress=True, similarity=similarity)[direction]
    need.settle(ranks)
    if need.caution:
        warnings.warn(f"{direction}: {need.caution}", stacklevel=2)
    top, truths = reader.result, images_behind(judged.query_ids, library, split, direction)
    images = images_behind(top.ids, library, split, direction[::-1])
    failed = np.flatnonzero(images[:, 0] != truths)
    known = ranks.ranks if isinstance(ranks, GivenRanks) else ranks
    return Failures(
        direction=direction,
        asked_ids=judged.query_ids,
        asked_images=truths,
        query_ids=judged.query_ids[failed],
        truth_ids=truths[failed],
        retrieved_ids=images[failed, 0],
        item_ids=top.ids[failed, 0],
        rival_ids=_find_rivals(images[failed], truths[failed]),
        truth_ranks=pa.array(known.best[failed], mask=np.diff(known.indptr)[failed] == 0),
    )


def _find_rivals(images: IntArray, truths: IntArray) -> IntArray:
    """(F, K) distinct images of (F, depth) items other than the top and the truth, padded with -1."""
    new = images != truths[:, None]
    for place in range(images.shape[1]):
        new[:, place] &= (images[:, :place] != images[:, place, None]).all(axis=1)
    new[:, :1] = False
    order = np.argsort(~new, axis=1, kind="stable")
    rivals = np.take_along_axis(np.where(new, images, NOBODY), order, axis=1)
    return rivals[:, : max(1, int(new.sum(axis=1).max(initial=0)))]
