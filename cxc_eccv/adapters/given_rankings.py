"""Rankings that a user gives a module: a run, and judgments of it.

They do not show the size of the gallery, which the option ``gallery_size`` gives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from cxc_eccv.adapters.module import Column, id_lists
from cxc_eccv.errors import InvalidOption, MalformedRun
from cxc_eccv.ranking.by_lists import ByLists
from cxc_eccv.ranking.known_depth import GivenRanks
from cxc_eccv.runs.rankings import RankedLists, RankingsRun
from cxc_eccv.runs.run import whole_ids
from cxc_eccv.types import IntArray, Judgments

DIRECTION = "i2t"
"""A run needs a direction, although the rows of a module have none."""

RANKINGS = Column(
    id_lists,
    "list of int64",
    "ranked gallery ids of each query, best first, without the query itself. Ids must be whole numbers without "
    "repeats. Rankings may be cut short if the metric allows it.",
)
RANKING_LIMITS = """\
- Rankings have no scores, so ties are not visible and the given order is trusted. Use `cxc-eccv evaluate` with
  embeddings or scores for a model with many equal scores; it counts ties against the model.
- Rankings that are too short raise `RunTooShallow`, which names the query and the depth it needs. Empty input, repeated
  ids, unequal lengths and ids that are not whole numbers raise an error too.
- All queries have the same weight. Leave out queries without positives."""


@dataclass(frozen=True, slots=True)
class GivenRankings:
    """Rankings of queries 0 to Q - 1 and their references, each with a gain if there are gains."""

    predictions: list[list[int]]
    references: list[list[int]]
    gains: list[list[float]] | None = None

    def make_run(self) -> RankingsRun:
        """The rankings as a run."""
        return RankingsRun({DIRECTION: RankedLists.of(dict(enumerate(self.predictions)), "predictions")})

    def judge(self, run: RankingsRun, rows: IntArray | None = None, *, whole: bool = False) -> Judgments:
        """Judgments of these queries, in a gallery of all ids or, with ``whole``, of the ids in their rankings."""
        rows = np.arange(len(self.references)) if rows is None else rows
        references = [whole_ids(self.references[row], f"references of query {row}") for row in rows.tolist()]
        items = np.concatenate(references)
        gains = None if self.gains is None else np.concatenate([self.gains[row] for row in rows.tolist()])
        if whole:
            gallery = np.unique(np.concatenate([self.predictions[row] for row in rows.tolist()]))
        else:
            gallery = np.union1d(run.lists[DIRECTION].item_ids, items)
        return Judgments.from_pairs(
            rows, gallery, np.repeat(rows, [ids.size for ids in references]), items, gains=gains
        )

    def rank_references(self, gallery_size: ArrayLike | None = None) -> GivenRanks:
        """Ranks of the references, as far as the predictions hold them."""
        run = self.make_run()
        sizes = check_sizes(gallery_size, run)
        ranks = ByLists(run).rank(self.judge(run), DIRECTION)
        n_gallery = ranks.depths if sizes is None else sizes
        complete = np.zeros_like(n_gallery, dtype=bool) if sizes is None else ranks.depths == sizes
        return replace(ranks, n_gallery=n_gallery, complete=complete)


def check_sizes(gallery_size: ArrayLike | None, run: RankingsRun) -> IntArray | None:
    """(Q,) number of items that each query ranks, from one number or one per query; None if unknown."""
    if gallery_size is None:
        return None
    numbers, depths = np.asarray(gallery_size), run.lists[DIRECTION].depths
    if numbers.dtype.kind not in "iu" or numbers.shape not in ((), depths.shape) or np.any(numbers < 1):
        raise InvalidOption(
            f"gallery_size is {gallery_size!r}, expected a whole number of at least 1, or one per query"
        )
    sizes = np.broadcast_to(numbers.astype(np.int64), depths.shape)
    if (beyond := np.flatnonzero(depths > sizes)).size:
        query = beyond[0]
        raise MalformedRun(
            f"the ranking of query {query} holds {depths[query]} items, more than gallery_size {sizes[query]}"
        )
    return sizes
