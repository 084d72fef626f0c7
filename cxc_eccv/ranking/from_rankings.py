"""Ranks from a rankings run: each ranking restricted to the gallery that its query ranks."""

from __future__ import annotations

import numpy as np

from cxc_eccv.errors import MissingIds
from cxc_eccv.ranking.given import GivenRanks
from cxc_eccv.ranking.list_blocks import found_in_lists
from cxc_eccv.runs.rankings import RankingsRun
from cxc_eccv.types import IntArray, Judgments, PositiveRanks, positions_of

__all__ = ["depths_alone", "ranks_from_rankings", "rows_of"]

NAMED = 3


def ranks_from_rankings(run: RankingsRun, direction: str, judgments: Judgments) -> GivenRanks:
    """What a run's rankings say about the positives of the queries.

    Items outside the query's gallery, for example of other folds, are left out of its ranking, and so is the query
    itself where the judgments say so; the depth that remains is what is known. Where scores come with the order, items
    that tie with a positive stand above it; such ties are known only among the items of the ranking.

    Args:
        run: rankings of the direction.
        direction: ``i2t``, ``t2i``, ``t2t`` or ``i2i``.
        judgments: positives of every query.

    Raises:
        MissingIds: the run lacks the direction, or the rankings of some queries.

    Example:
        >>> run = RankingsRun.from_dicts(i2t={5: [30, 10, 20]})
        >>> given = ranks_from_rankings(run, "i2t", Judgments.from_pairs([5], [10, 20], [5], [20]))
        >>> given.ranks.ranks.tolist(), given.complete.tolist()
        ([2], [True])
    """
    rows = rows_of(run, direction, judgments.query_ids)
    found = found_in_lists(run.lists[direction], rows, judgments)
    indptr, sizes = np.append(0, np.cumsum(found.counts)), _gallery_sizes(judgments)
    known = PositiveRanks(judgments.query_ids, indptr, found.ranks, judgments.n_positives, sizes, found.ties)
    return GivenRanks(known, found.depths, found.depths == sizes)


def depths_alone(run: RankingsRun, direction: str, judgments: Judgments) -> GivenRanks:
    """What the lengths of a run's rankings say, before any is read: how deep they are at most; nothing is found.

    Args:
        run: rankings of the direction.
        direction: ``i2t``, ``t2i``, ``t2t`` or ``i2i``.
        judgments: positives of every query.

    Raises:
        MissingIds: the run lacks the direction, or the rankings of some queries.

    Example:
        >>> run = RankingsRun.from_dicts(i2t={5: [30, 10]})
        >>> given = depths_alone(run, "i2t", Judgments.from_pairs([5], [10, 20, 30], [5], [20]))
        >>> given.depths.tolist(), given.complete.tolist(), given.n_found.tolist()
        ([2], [False], [0])
    """
    depths, sizes = run.depths(direction)[rows_of(run, direction, judgments.query_ids)], _gallery_sizes(judgments)
    nothing = np.zeros(0, dtype=np.int64)
    none_found, ties = np.zeros(depths.size + 1, dtype=np.int64), np.zeros(depths.size, dtype=np.int64)
    known = PositiveRanks(judgments.query_ids, none_found, nothing, judgments.n_positives, sizes, ties)
    return GivenRanks(known, np.minimum(depths, sizes), depths >= sizes)


def rows_of(run: RankingsRun, direction: str, query_ids: IntArray) -> IntArray:
    """(Q,) place of each query among the ranked lists of a direction.

    Raises:
        MissingIds: the run lacks the direction, or the rankings of some queries.

    Example:
        >>> rows_of(RankingsRun.from_dicts(i2t={5: [30, 10], 6: [20]}), "i2t", np.array([6])).tolist()
        [1]
    """
    if direction not in run.lists:
        raise MissingIds(f"{run.path or 'run'}: has no {direction} rankings, only {', '.join(run.lists)}")
    lists = run.lists[direction]
    rows, known = positions_of(query_ids, lists.query_ids)
    if known.all():
        return rows
    missing = query_ids[~known]
    first = ", ".join(map(str, missing[:NAMED]))
    remedy = "Rank the gallery for these too, or name the tasks whose queries the run has."
    for other, ranked in run.lists.items():
        if other != direction and np.isin(missing, ranked.query_ids).all():
            remedy = f"They are queries of {other}: the two directions look swapped."
    raise MissingIds(
        f"{lists.place}: lacks the rankings of {missing.size} of {query_ids.size} queries the task needs, the first: "
        f"{first}. {remedy}"
    )


def _gallery_sizes(judgments: Judgments) -> IntArray:
    """(Q,) items that each query ranks, itself left out where the judgments say so."""
    sizes = np.full(judgments.query_ids.size, judgments.gallery_ids.size)
    places, own = positions_of(judgments.query_ids, judgments.gallery_ids)
    if judgments.query_folds is not None and judgments.gallery_folds is not None:
        folds = judgments.query_folds[:, None] == np.unique(judgments.gallery_folds)
        sizes = folds @ np.unique(judgments.gallery_folds, return_counts=True)[1]
        own &= judgments.gallery_folds[places] == judgments.query_folds
    return sizes - own if judgments.without_self else sizes
