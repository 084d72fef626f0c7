"""Readers of rows of the score matrix: the top items, and plausible matches among them.

The score at a depth of a row is found by selection, not by sorting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import RunTooShallow
from cxc_eccv.judgments.plausible import CategoryMatches, Criterion, PlausibleHits
from cxc_eccv.kernels import counts_matches, match_counts
from cxc_eccv.ranking.ties import choose_top, count_pushed_out, make_keys, rank_judged
from cxc_eccv.types import IntArray, JudgedRanks, Judgments, TopK, check_whole, find_positions
from cxc_eccv.types.ids import number_within

ROW_SCORES_AT_ONCE = 2**19
FEWEST_TOGETHER = 16
GROUPS_PER_DEPTH = 4
FEWEST_PER_GROUP = 8


class OwnRows:
    """The rows and columns that a reader needs; ``items`` is the position in ``gallery_ids`` of each column, or -1."""

    def __init__(
        self,
        query_ids: IntArray,
        gallery_ids: IntArray,
        row_ids: IntArray,
        item_ids: IntArray,
        columns: IntArray,
        width: int,
    ) -> None:
        indices, present = find_positions(row_ids, query_ids)
        self._queries = np.where(present, indices, -1)
        self.items = np.full(width, -1)
        self.items[columns[find_positions(gallery_ids, item_ids)[0]]] = np.arange(gallery_ids.size)
        self._foreign = np.flatnonzero(self.items < 0)
        self._all_items = bool((self.items[columns] >= 0).all())

    def rows(self, block: NDArray[Any], start: int) -> tuple[IntArray, IntArray]:
        """Positions in ``query_ids`` of the reader's queries in a block, and their rows in it."""
        queries = self._queries[start : start + len(block)]
        rows = np.flatnonzero(queries >= 0)
        return queries[rows], rows

    def strips(self, block: NDArray[Any], start: int, *, blank: bool = True) -> Iterator[tuple[IntArray, NDArray[Any]]]:
        """Positions in ``query_ids`` and scores of a few rows at a time; minus infinity at items of other readers."""
        queries = self._queries[start : start + len(block)]
        needed = self.rows(block, start)[1]
        size = max(1, ROW_SCORES_AT_ONCE // block.shape[1])
        gaps = np.flatnonzero(np.diff(needed) > 1) + 1
        # Adjacent rows are a view of the block; if few are adjacent, one copy costs less than many strips.
        for run in np.split(needed, gaps if gaps.size * FEWEST_TOGETHER < needed.size else []):
            for first in range(0, run.size, size):
                rows = run[first : first + size]
                in_sequence = rows[-1] - rows[0] == rows.size - 1
                scores = block[rows[0] : rows[-1] + 1] if in_sequence else block[rows]
                if blank and not self._all_items:
                    scores = scores.copy()
                    scores[:, self._foreign] = -np.inf
                yield queries[rows], scores


def refuse_shallow(
    query_ids: IntArray, scores: NDArray[Any], lowest: NDArray[Any], depths: IntArray, reason: str
) -> None:
    """Raise RunTooShallow if a query has fewer items than needed, so that its ``lowest`` score is minus infinity."""
    short = np.flatnonzero(np.isneginf(lowest))
    if short.size:
        row = short[0]
        raise RunTooShallow(
            f"query {query_ids[row]} needs {depths[row]} ranked items {reason}, but its ranking holds "
            f"{np.count_nonzero(np.isfinite(scores[row]))} of the gallery. Rank the whole gallery, or at least as many "
            "items."
        )


def score_at_depth(scores: NDArray[Any], depth: int) -> NDArray[Any]:
    """(B,) scores at one depth of the rows of (B, N) scores."""
    index = scores.shape[1] - depth
    return np.asarray(np.partition(scores, index, axis=1)[:, index])


def best_candidates(scores: NDArray[Any], depth: int) -> tuple[NDArray[Any], IntArray]:
    """A few scores of each row that include the best ``depth`` and ties with the last of these.

    The columns are split into groups; scores below the ``depth``-th best of the groups' maxima cannot be among the best
    ``depth`` of the row. Returns (B, C) scores, padded with minus infinity, and (B, C) columns, padded with -1.
    """
    n_groups = GROUPS_PER_DEPTH * depth
    size = scores.shape[1] // n_groups
    if size < FEWEST_PER_GROUP:
        return scores, np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
    best = scores[:, : n_groups * size].reshape(len(scores), size, n_groups).max(axis=1)
    bound = np.partition(best, n_groups - depth, axis=1)[:, n_groups - depth, None]
    rows, columns = np.divmod(np.flatnonzero(scores >= bound), scores.shape[1])
    counts = np.bincount(rows, minlength=len(scores))
    within = number_within(counts)
    shape = len(scores), counts.max()
    values = np.full(shape, -np.inf, dtype=scores.dtype)
    indices = np.full(shape, -1)
    values[rows, within], indices[rows, within] = scores[rows, columns], columns
    return values, indices


class RowReader:
    """A reader of the rows of (Q,) queries ``query_ids`` over (N,) items ``gallery_ids``.

    With ``without_self`` a query does not rank itself. ``deepest`` is the number of items needed of a row, or None if
    it has no limit. A reader stops if a ranking is too short; its ``result`` then raises the error.
    """

    without_self = False
    deepest: int | None

    def __init__(self, query_ids: IntArray, gallery_ids: IntArray) -> None:
        self.query_ids = query_ids
        self.gallery_ids = gallery_ids
        self.error: RunTooShallow | None = None
        self.n_cut = 0  # rankings that end within a tie among the items that the reader needs

    @property
    def needs(self) -> IntArray:
        """(Q,) number of items that the ranking of each query must hold."""
        raise NotImplementedError

    @property
    def result(self) -> Any:  # noqa: ANN401 - of any type
        """What was read, after all blocks."""
        raise NotImplementedError

    def attach(self, row_ids: IntArray, item_ids: IntArray, columns: IntArray, width: int) -> None:
        """Set the layout of the matrix: the (R,) queries of its rows, and its (M,) items with their columns."""
        self._own = OwnRows(self.query_ids, self.gallery_ids, row_ids, item_ids, columns, width)

    def read(self, block: NDArray[Any], start: int) -> None:
        """Read a block whose first row is ``start``; blocks may come in any order and concurrently."""
        self._unless_too_short(self._read, block, start)

    def take(self, queries: IntArray, scores: NDArray[Any], items: IntArray) -> None:
        """Read the best items of B queries, given by positions in ``query_ids``.

        The (B, C) scores include the best ones that the reader ``needs`` and ties with the last of these, in any order,
        padded with minus infinity. ``items`` are positions in ``gallery_ids``, padded with -1.
        """
        self._unless_too_short(self._take, queries, scores, items)

    def _read(self, block: NDArray[Any], start: int) -> None:
        raise NotImplementedError

    def _take(self, queries: IntArray, scores: NDArray[Any], items: IntArray) -> None:
        raise NotImplementedError

    def _unless_too_short(self, read: Callable[..., None], *arguments: Any) -> None:  # noqa: ANN401 - as it takes them
        if self.error is None:
            try:
                read(*arguments)
            except RunTooShallow as error:
                self.error = error

    def _refuse_too_short(self) -> None:
        if self.error is not None:
            raise self.error


class BestRows(RowReader):
    """A reader of the items that score at least as high as the K-th best of every query."""

    def __init__(self, judgments: Judgments, depth: int) -> None:
        check_whole("the top k of a ranking: k", depth)
        super().__init__(judgments.query_ids, judgments.gallery_ids)
        self.judgments = judgments
        self.without_self = judgments.without_self
        in_gallery = find_positions(self.query_ids, self.gallery_ids)[1] if self.without_self else np.zeros(1, bool)
        self.depth = min(depth, self.gallery_ids.size - int(in_gallery.any()))
        self.deepest = self.depth
        self._judged = judgments.rows * self.gallery_ids.size + judgments.indices  # ascending

    def _read(self, block: NDArray[Any], start: int) -> None:
        for queries, scores in self._own.strips(block, start):
            best, columns = best_candidates(scores, self.depth)
            self._take(queries, best, self._own.items[columns])

    def _take(self, queries: IntArray, scores: NDArray[Any], items: IntArray) -> None:
        depths = np.full(queries.size, self.depth)
        lowest = score_at_depth(scores, self.depth)
        refuse_shallow(self.query_ids[queries], scores, lowest, depths, self.reason)
        top = np.flatnonzero(scores >= lowest[:, None])
        self._keep(queries, lowest, top // scores.shape[1], items.ravel()[top], scores.ravel()[top])

    @property
    def needs(self) -> IntArray:
        """(Q,) the depth."""
        return np.full(self.query_ids.size, self.depth)

    @property
    def reason(self) -> str:
        """Why a ranking must hold these items, for messages."""
        return f"for its top {self.depth}"

    def _keep(
        self, queries: IntArray, lowest: NDArray[Any], rows: IntArray, items: IntArray, scores: NDArray[Any]
    ) -> None:
        """Store what is needed of P candidates, the items of ``queries[rows]`` that score at least ``lowest[rows]``."""
        raise NotImplementedError


class TopRows(BestRows):
    """Reads the top K of every query under the pessimistic tie rule.

    Among equal scores, judged items without gain come first, then unjudged items, then the others in ascending order of
    gain (without gains, the positives); remaining ties are broken by id.
    """

    def __init__(self, judgments: Judgments, depth: int) -> None:
        super().__init__(judgments, depth)
        gains = np.ones(self._judged.size) if judgments.gains is None else judgments.gains
        self._codes, self._unjudged = make_keys(gains)
        self._order_of_ids = np.argsort(np.argsort(self.gallery_ids))
        shape = self.query_ids.size, self.depth
        self._ids = np.zeros(shape, dtype=np.int64)
        self._scores = np.zeros(shape)  # float64, as scores of a matrix may differ only in float64
        self._cut = np.zeros(self.query_ids.size, dtype=np.int64)
        self._helped: list[tuple[IntArray, IntArray]] = []  # queries, and their top if ties help

    @property
    def result(self) -> TopK:
        """The top items, after all blocks."""
        self._refuse_too_short()
        top = TopK(self.query_ids, self._ids, self._scores, self._cut)
        if not self._helped:
            return top
        ids = self._ids.copy()
        for queries, ids_of_queries in self._helped:
            ids[queries] = ids_of_queries
        return replace(top, if_ties_help=replace(top, ids=ids))

    def _keep(
        self, queries: IntArray, lowest: NDArray[Any], rows: IntArray, items: IntArray, scores: NDArray[Any]
    ) -> None:
        """Store the top K of the candidates, which score at least as high as the last item of the top K."""
        codes = self._find_codes(queries[rows], items)
        keys = codes * self.gallery_ids.size + self._order_of_ids[items]
        order, cut = choose_top(rows, scores, keys, lowest, self.depth)
        shape = queries.size, self.depth
        ordered = scores[order].reshape(shape)
        self._ids[queries] = self.gallery_ids[items[order]].reshape(shape)
        self._scores[queries] = ordered
        self._cut[queries] = cut
        has_ties = (cut > 0) | (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        tied = has_ties[rows]
        if tied.any():
            self._keep_if_ties_help(queries, lowest, rows[tied], items[tied], scores[tied], codes[tied])

    def _keep_if_ties_help(
        self,
        queries: IntArray,
        lowest: NDArray[Any],
        rows: IntArray,
        items: IntArray,
        scores: NDArray[Any],
        codes: IntArray,
    ) -> None:
        """Store the top K of the rows whose gains would differ if of equal scores the higher gain came first."""
        tied_rows, rows = np.unique(rows, return_inverse=True)
        keys = codes * self.gallery_ids.size + self._order_of_ids[items]
        shape = tied_rows.size, self.depth
        order = choose_top(rows, scores, keys, lowest[tied_rows], self.depth)[0]
        reverse = choose_top(rows, scores, -keys, lowest[tied_rows], self.depth)[0]
        differs = (codes[order] != codes[reverse]).reshape(shape).any(axis=1)
        if differs.any():
            ids = self.gallery_ids[items[reverse]].reshape(shape)
            self._helped.append((queries[tied_rows[differs]], ids[differs]))

    def _find_codes(self, queries: IntArray, items: IntArray) -> IntArray:
        """(P,) codes of the gains of items, by which items of equal scores are sorted."""
        pairs = queries * self.gallery_ids.size + items
        codes = np.full(pairs.size, self._unjudged)
        if not self._judged.size:
            return codes
        indices = np.minimum(np.searchsorted(self._judged, pairs), self._judged.size - 1)
        return np.where(self._judged[indices] == pairs, self._codes[indices], codes)


class JudgedRows(RowReader):
    """Reads the rank of every judged item in the whole gallery, judged negatives too.

    Of items with equal scores judged negatives stand first, then those that nobody judged, then positives.
    """

    reason = "for the ranks of its judged items"

    def __init__(self, judgments: Judgments) -> None:
        super().__init__(judgments.query_ids, judgments.gallery_ids)
        self.without_self = judgments.without_self
        self._judgments = judgments
        self.deepest = self.gallery_ids.size
        itself = np.isin(self.query_ids, self.gallery_ids) & self.without_self
        self._sizes = self.gallery_ids.size - itself.astype(np.int64)
        self._verdicts = np.asarray(judgments.gains).astype(np.int64)
        self._ranks = np.zeros_like(judgments.indices)
        self._helped = np.zeros_like(judgments.indices)  # the ranks if ties help
        self._ties = np.zeros_like(self.query_ids)

    def _read(self, block: NDArray[Any], start: int) -> None:
        for queries, scores in self._own.strips(block, start):
            self._take(queries, scores, np.broadcast_to(self._own.items, scores.shape))

    def _take(self, queries: IntArray, scores: NDArray[Any], items: IntArray) -> None:
        scores = np.where(items >= 0, scores, -np.inf)
        depths = self.needs[queries]
        # The lowest of so many as a ranking must hold: minus infinity where it holds fewer.
        lowest = np.sort(scores, axis=1)[np.arange(queries.size), scores.shape[1] - depths]
        refuse_shallow(self.query_ids[queries], scores, lowest, depths, self.reason)
        columns = np.empty(self.gallery_ids.size, dtype=np.int64)
        for query, row, of_row in zip(queries.tolist(), scores, items, strict=True):
            columns[of_row[of_row >= 0]] = np.flatnonzero(of_row >= 0)
            entries = slice(*self._judgments.indptr[query : query + 2])
            judged = row[columns[self._judgments.indices[entries]]]
            positive = self._verdicts[entries] > 0
            self._ranks[entries], self._helped[entries], self._ties[query] = rank_judged(row, judged, positive)

    @property
    def needs(self) -> IntArray:
        """(Q,) items that a ranking must hold: all."""
        return self._sizes

    @property
    def result(self) -> JudgedRanks:
        """The ranks, after all blocks were read."""
        self._refuse_too_short()
        ranks = self._sort(self._ranks)
        if np.array_equal(self._ranks, self._helped):
            return ranks
        return replace(ranks, if_ties_help=self._sort(self._helped))

    def _sort(self, ranks: IntArray) -> JudgedRanks:
        """The judged items of every query by ascending ranks."""
        judgments = self._judgments
        order = np.lexsort((ranks, judgments.rows))
        return JudgedRanks(
            self.query_ids,
            judgments.indptr,
            ranks[order],
            self._verdicts[order],
            judgments.n_relevant,
            self._sizes,
            self._ties,
        )


FEW_ITEMS = 64
"""If criteria need at most 1 / FEW_ITEMS of the items, only the candidates for these are compared."""


class PlausibleRows(RowReader):
    """Counts the matches among the top R of every query at several criteria.

    The score at depth R is selected, and the matches that reach it are counted; nothing is sorted or listed. Of items
    that tie at depth R, non-matches come first.
    """

    reason = "for its plausible matches"

    def __init__(self, matches: CategoryMatches, criteria: Sequence[Criterion]) -> None:
        super().__init__(matches.query_ids, matches.gallery_ids)
        self.criteria = tuple(criteria)
        self._matches = matches
        self._n_matches = _count_matching(matches, [zeta for zeta, _ in self.criteria])
        self._hits = np.zeros_like(self._n_matches)
        self._helped = np.zeros_like(self._n_matches)  # the hits if ties help
        self._ties = np.zeros(self.query_ids.size, dtype=np.int64)
        cuts = self._cuts
        self.deepest = max(cuts) if max(cuts) * FEW_ITEMS <= self.gallery_ids.size else None

    def _read(self, block: NDArray[Any], start: int) -> None:
        if counts_matches(block, self._matches.distances, len(self.criteria)):
            queries, rows = self._own.rows(block, start)
            self._count(queries, block, rows, self._own.items)
        elif self.deepest is None:
            for queries, scores in self._own.strips(block, start, blank=False):
                self._take(queries, scores, self._own.items)
        else:
            for queries, scores in self._own.strips(block, start):
                best, columns = best_candidates(scores, self.deepest)
                self._take(queries, best, self._own.items[columns])

    def _take(self, queries: IntArray, scores: NDArray[Any], items: IntArray) -> None:
        self._count(queries, scores, np.arange(queries.size), items)

    def _count(self, queries: IntArray, scores: NDArray[Any], rows: IntArray, items: IntArray) -> None:
        matches = self._matches
        zetas = [zeta for zeta, _ in self.criteria]
        depths = np.minimum(self._n_matches[queries], self._cuts)
        classes = matches.query_classes[queries]
        counts = match_counts(scores, rows, items, matches.gallery_classes, matches.distances, classes, zetas, depths)
        worst = counts.lowest.min(axis=1)
        short = np.flatnonzero(np.isneginf(worst))[:1]
        ids = self.query_ids[queries[short]]
        deepest = depths[short].max(axis=1)
        refuse_shallow(ids, scores[rows[short]], worst[short], deepest, self.reason)
        surplus = counts.at_least - depths
        out, out_if_helped, others = count_pushed_out(surplus, counts.tied, counts.tied_matches)
        self._hits[queries] = counts.matches - out
        self._helped[queries] = counts.matches - out_if_helped
        self._ties[queries] = others.sum(axis=1)

    @property
    def needs(self) -> IntArray:
        """(Q,) number of items that a ranking must hold."""
        return np.asarray(np.minimum(self._n_matches, self._cuts).max(axis=1))

    @property
    def _cuts(self) -> list[int]:
        return [self.gallery_ids.size if cut is None else cut for _, cut in self.criteria]

    @property
    def result(self) -> PlausibleHits:
        """The counts, after all blocks."""
        self._refuse_too_short()
        hits = PlausibleHits(self.query_ids, self.criteria, self._n_matches, self._hits, self._ties)
        if np.array_equal(self._hits, self._helped):
            return hits
        return replace(hits, if_ties_help=replace(hits, hits=self._helped))


def _count_matching(matches: CategoryMatches, zetas: Sequence[int]) -> IntArray:
    """(Q, L) number of gallery items that match each query at each zeta."""
    sizes = np.bincount(matches.gallery_classes, minlength=len(matches.distances))
    near = np.flatnonzero(matches.distances <= max(zetas))  # few pairs of classes
    of_queries, of_items = np.divmod(near, len(sizes))
    apart = matches.distances.ravel()[near]
    counts = [
        np.bincount(of_queries[apart <= zeta], sizes[of_items[apart <= zeta]], len(sizes)).astype(np.int64)
        for zeta in zetas
    ]
    return np.stack(counts, axis=1)[matches.query_classes]
