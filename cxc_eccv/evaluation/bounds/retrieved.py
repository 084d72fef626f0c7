"""The top of every query: its unjudged pairs, and its ties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.metrics.kinds import RankMetric, Variant
from cxc_eccv.ranking.readers import TopRows
from cxc_eccv.ranking.ties import extend_ties, rank_in_ties, shorten_top, span_ties
from cxc_eccv.types import IntArray, Judgments, PositiveRanks, find_positions, look_up_gains
from cxc_eccv.types.ids import make_indptr

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Retrieved:
    """The top D of every query."""

    ranks: PositiveRanks  # of the known positives
    ids: IntArray  # (Q, D), best first
    unjudged: Flags  # (Q, D)
    above: IntArray  # (Q, D) number of known positives that score higher, for unjudged items
    ends: IntArray  # (Q, D) place of the last retrieved item with the same score
    lowest: IntArray  # (Q, D) rank of the last item with the same score that is not a known positive
    n_unjudged: IntArray  # (Q,) number of unjudged items in the whole gallery
    depth: int  # for metrics without K; D may be larger, for a metric at K
    folds: IntArray | None = None  # (Q,) fold of each query, in a task that averages over folds

    def within(self, k: int | None) -> Flags:
        """(Q, D) bool, the unjudged items that a metric at K, or without K, looks at."""
        return self.unjudged & (np.arange(self.ids.shape[1]) < (k or self.depth))

    def certain(self, k: int | None) -> Flags:
        """(Q, D) bool, those of :meth:`within` that are in the top in any order of ties.

        Of a tie that goes on below the top, the items there have no label, so the tie rule puts them first.
        """
        return self.within(k) & (self.lowest <= (k or self.depth))

    def matters(self, variant: Variant[RankMetric]) -> Flags:
        """(Q, D) bool, the unjudged items whose labels can change a metric."""
        above = np.arange(self.ids.shape[1]) + 1 < self.ranks.best[:, None]
        return self.within(variant.k) & (above | (not variant.spec.best_rank))

    def places(self, labels: Flags) -> IntArray:
        """(Q, D) rank of each item that is positive under the labels; other entries have no meaning."""
        return rank_in_ties(labels, self.ends, self.lowest)

    def best(self, labels: Flags) -> IntArray:
        """(Q,) rank of the best positive under the labels, see :attr:`PositiveRanks.best`."""
        far = self.ranks.n_gallery + 1
        first = np.where(labels, self.places(labels), far[:, None]).min(axis=1)
        return np.asarray(np.minimum(first, self.ranks.best))

    def first_unjudged(self, k: int | None) -> IntArray:
        """(Q,) the best rank that labels of any unjudged items can give; gallery size + 1 if they give none in sight.

        It is the place of the first unjudged item, as all items that tie with it may be positive as well.
        """
        unjudged = self.within(k)
        far = self.ranks.n_gallery + 1
        if k is None:
            below = self.n_unjudged > unjudged.sum(axis=1)
            far = np.where(below, np.minimum(self.depth + 1, far), far)
        return np.where(unjudged.any(axis=1), unjudged.argmax(axis=1) + 1, far)

    def extend(self) -> Retrieved:
        """The top D and the next items, as many as the largest R, of which all but known positives count as unjudged.

        The last tie counts as none, as labels of its items below the top lift those in the top.
        """
        ranks = self.ranks
        depth = min(self.depth, self.ids.shape[1])
        width = max(depth, int(min(depth + ranks.n_positives.max(), ranks.n_gallery.max())))
        every = np.broadcast_to(np.arange(width), (len(self.ids), width))
        unjudged = every < ranks.n_gallery[:, None]
        unjudged[:, :depth] = self.unjudged[:, :depth]
        rows = ranks.rows
        known = (ranks.ranks > depth) & (ranks.ranks <= width)
        unjudged[rows[known], ranks.ranks[known] - 1] = False
        ends, lowest = extend_ties(self.ends[:, :depth], self.lowest[:, :depth], every)
        return replace(self, ids=every, unjudged=unjudged, above=every, ends=ends, lowest=lowest, depth=width)

    def with_best(self, best: IntArray) -> PositiveRanks:
        """Ranks of the best positives alone, given as returned by :meth:`best`."""
        reachable = best <= self.ranks.n_gallery
        return replace(self.ranks, indptr=make_indptr(reachable), ranks=best[reachable])

    def relabel(self, labels: Flags, below: IntArray | int = 0) -> PositiveRanks:
        """Ranks of all positives, known and added by the labels; ``below``: number of others too low to matter."""
        rows = np.append(self.ranks.rows, np.nonzero(labels)[0])
        ranks = np.append(self.ranks.ranks, self.places(labels)[labels])
        counts = np.bincount(rows, minlength=len(labels))
        return replace(
            self.ranks,
            indptr=make_indptr(counts),
            ranks=ranks[np.lexsort((ranks, rows))],
            n_positives=self.ranks.n_positives + labels.sum(axis=1) + below,
        )


def read_tops(judged: Judgments, known: tuple[IntArray, IntArray], depth: int) -> list[TopRows]:
    """A reader for each fold of the top of its queries, with the labels of known pairs of queries and items."""
    folds, item_folds = judged.folds
    labelled = _add_known(judged, *known)
    return [TopRows(_cut_fold(labelled, folds == fold, item_folds == fold), depth) for fold in np.unique(folds)]


def retrieve(judged: Judgments, tops: Sequence[TopRows], ranks: PositiveRanks, depth: int | None = None) -> Retrieved:
    """The top of every query from finished readers; ``depth`` items, or all, count for metrics without K."""
    folds, _ = judged.folds
    width = min(top.depth for top in tops)
    ids, above, ends, lowest = np.zeros((4, judged.query_ids.size, width), dtype=np.int64)
    n_unjudged = np.zeros(judged.query_ids.size, dtype=np.int64)
    unjudged = np.zeros_like(ids, dtype=bool)
    for fold, reader in zip(np.unique(folds), tops, strict=True):
        rows = np.flatnonzero(folds == fold)
        labelled = reader.judgments
        top = shorten_top(reader.result, width)
        gains, known = look_up_gains(top, labelled, width, "bounds")
        ids[rows] = top.ids
        above[rows] = np.cumsum(gains > 0, axis=1)
        unjudged[rows] = ~known
        n_unjudged[rows] = ranks.n_gallery[rows] - np.diff(labelled.indptr)
        ends[rows], lowest[rows] = span_ties(top, gains > 0, _ranks_of_rows(ranks, rows))
    return Retrieved(ranks, ids, unjudged, above, ends, lowest, n_unjudged, depth or width, judged.query_folds)


def _add_known(judged: Judgments, queries: IntArray, items: IntArray) -> Judgments:
    """Judgments with gain 1 for positives and 0 for the other known pairs."""
    size = judged.gallery_ids.size
    rows, asked = find_positions(queries, judged.query_ids)
    columns, ranked = find_positions(items, judged.gallery_ids)
    inside = asked & ranked
    positive = judged.rows * size + judged.indices
    pairs = np.union1d(positive, rows[inside] * size + columns[inside])
    counts = np.bincount(pairs // size, minlength=judged.query_ids.size)
    return replace(
        judged,
        indptr=make_indptr(counts),
        indices=pairs % size,
        gains=np.isin(pairs, positive).astype(np.float64),
    )


def _cut_fold(labelled: Judgments, asked: Flags, ranked: Flags) -> Judgments:
    """The judgments of one fold; positives outside it are unreachable."""
    inside = ranked[labelled.indices]
    kept = inside & asked[labelled.rows]
    lost = labelled.count(~inside)
    return Judgments(
        labelled.query_ids[asked],
        labelled.gallery_ids[ranked],
        make_indptr(labelled.count(kept)[asked]),
        (np.cumsum(ranked) - 1)[labelled.indices[kept]],
        (labelled.unreachable + lost)[asked],
        labelled.without_self,
        gains=np.asarray(labelled.gains)[kept],
    )


def _ranks_of_rows(ranks: PositiveRanks, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Position among ``rows`` and rank of every known positive of these queries."""
    place = np.full(ranks.query_ids.size, -1)
    place[rows] = np.arange(rows.size)
    owners = place[ranks.rows]
    return owners[owners >= 0], ranks.ranks[owners >= 0]
