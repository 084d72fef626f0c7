"""Predictions and references as the engine takes them: a rankings run, and judgments of whatever ids they name.

What the engine cannot see from them is how large the gallery is; that is said here, by ``gallery_size`` or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cxc_eccv.adapters.inputs import Column, id_lists
from cxc_eccv.errors import InvalidOption, MalformedRun
from cxc_eccv.ranking.lists import GivenRanks, ranks_from_rankings
from cxc_eccv.runs.checks import whole_ids
from cxc_eccv.runs.rankings import RankedLists, RankingsRun
from cxc_eccv.types import IntArray, Judgments

DIRECTION = "i2t"
"""A run names one; a module's rows need none."""

RANKINGS = Column(
    id_lists,
    "list of int64",
    "ranked gallery ids of each query, best first, without the query itself. Ids are whole numbers; strings, floats "
    "and repeated ids are refused. Rankings may be cut short as far as the metric allows.",
)
GALLERY_SIZE = (
    "number of items that a query ranks, one number or a list with one per query. With it, a ranking that holds the "
    "whole gallery is known to be complete: positives it lacks are outside the gallery, and any depth suffices."
)
RANKING_LIMITS = """\
- Rankings carry no scores, so ties are invisible here: the given order is trusted. A model that gives many items equal
  scores is better evaluated from its embeddings or scores with `cxc-eccv evaluate`, which counts ties against it.
- A ranking that ends too early raises `RunTooShallow`, which names the query, the depth it has and the depth it
  needs. Empty input, repeated ids, unequal lengths and ids that are not whole numbers raise too. None
  yields a number.
- Every query counts the same. Leave a query without positives out."""


def run_of(predictions: Sequence[ArrayLike]) -> RankingsRun:
    """The rankings of queries 0 to Q - 1."""
    return RankingsRun({DIRECTION: RankedLists.of(dict(enumerate(predictions)), "predictions")})


def judgments_of(
    inputs: Mapping[str, Sequence[Any]], run: RankingsRun, rows: IntArray, *, whole: bool = False
) -> Judgments:
    """The references of some queries, in a gallery of all ids that are named or, with ``whole``, that are ranked."""
    references = [whole_ids(inputs["references"][row], f"references of query {row}") for row in rows.tolist()]
    items = np.concatenate(references)
    gains = np.concatenate([inputs["gains"][row] for row in rows.tolist()]) if "gains" in inputs else None
    if whole:
        gallery = np.unique(np.concatenate([inputs["predictions"][row] for row in rows.tolist()]))
    else:
        gallery = np.union1d(run.lists[DIRECTION].item_ids, items)
    return Judgments.from_pairs(rows, gallery, np.repeat(rows, [ids.size for ids in references]), items, gains=gains)


def gallery_sizes(gallery_size: ArrayLike | None, run: RankingsRun) -> IntArray | None:
    """(Q,) items that each query ranks, from one number or one per query; None where unknown."""
    if gallery_size is None:
        return None
    stated, depths = np.asarray(gallery_size), run.lists[DIRECTION].depths
    if stated.dtype.kind not in "iu" or stated.shape not in ((), depths.shape) or np.any(stated < 1):
        raise InvalidOption(
            f"gallery_size is {gallery_size!r}, expected a whole number of at least 1, or one per query"
        )
    sizes = np.broadcast_to(stated.astype(np.int64), depths.shape)
    if (beyond := np.flatnonzero(depths > sizes)).size:
        query = beyond[0]
        raise MalformedRun(
            f"the ranking of query {query} holds {depths[query]} items, more than gallery_size {sizes[query]}"
        )
    return sizes


def find_positives(inputs: Mapping[str, Sequence[Any]], gallery_size: ArrayLike | None = None) -> GivenRanks:
    """Ranks of the references, as far as the predictions tell them."""
    run = run_of(inputs["predictions"])
    sizes = gallery_sizes(gallery_size, run)
    given = ranks_from_rankings(run, DIRECTION, judgments_of(inputs, run, np.arange(len(inputs["references"]))))
    known = given.depths if sizes is None else sizes
    complete = np.zeros_like(known, dtype=bool) if sizes is None else given.depths == sizes
    return GivenRanks(replace(given.ranks, n_gallery=known), given.depths, complete)
