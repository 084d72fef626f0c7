"""Looks up ids in runs, and says which are missing."""

from __future__ import annotations

import numpy as np

from cxc_eccv.errors import MissingIds
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, ScoresRun
from cxc_eccv.types import IntArray, find_positions, other_side

NAMED = 3
SWAP_SHARE = 0.9


def find_rows(ids: IntArray, run: EmbeddingsRun | ScoresRun, side: str) -> IntArray:
    """Row of every id among the run's ids of a ``side``; raises MissingIds."""
    run_ids = run.ids(side)
    if not run_ids.size:
        raise MissingIds(f"{run.path or 'run'}: has no {side}; this direction needs {ids.size} of them")
    rows, present = find_positions(ids, run_ids)
    if not present.all():
        missing = ids[~present]
        first = ", ".join(map(str, missing[:NAMED]))
        raise MissingIds(
            f"{run.path or 'run'}: lacks {missing.size} of {ids.size} {side} the task needs, the first: {first}. "
            + _remedy(run, side, ids, missing)
        )
    return rows


def _remedy(run: EmbeddingsRun | ScoresRun, side: str, ids: IntArray, missing: IntArray) -> str:
    other = other_side(side)
    if missing.size > ids.size / 2 and np.isin(ids, run.ids(other)).mean() >= SWAP_SHARE:
        return f"These ids are among the {other}: images and captions look swapped in the file."
    if missing.size == ids.size:
        return "The run has none of them; is it from another split or data set?"
    return (
        "Encode the missing items too, or score them; a score over part of the gallery is not comparable. cxc-eccv "
        "evaluate --allow-missing scores the part that the run has, and its report says so."
    )


def find_lists(query_ids: IntArray, run: RankingsRun, direction: str) -> IntArray:
    """(Q,) index of each query's list among those of a direction; raises MissingIds."""
    if direction not in run.lists:
        raise MissingIds(f"{run.path or 'run'}: has no {direction} rankings, only {', '.join(run.lists)}")
    lists = run.lists[direction]
    indices, present = find_positions(query_ids, lists.query_ids)
    if present.all():
        return indices
    missing = query_ids[~present]
    first = ", ".join(map(str, missing[:NAMED]))
    remedy = "Rank the gallery for these too, or name the tasks whose queries the run has."
    for other, ranked in run.lists.items():
        if other != direction and np.isin(missing, ranked.query_ids).all():
            remedy = f"They are queries of {other}: the two directions look swapped."
    raise MissingIds(
        f"{lists.place}: lacks the rankings of {missing.size} of {query_ids.size} queries the task needs, the first: "
        f"{first}. {remedy}"
    )
