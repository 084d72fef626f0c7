"""Rankings for readers of score rows: their best items, or whole rows where what a ranking lacks is minus infinity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.from_rankings import rows_of
from cxc_eccv.ranking.list_blocks import ITEMS_AT_ONCE, GalleryPlaces, joined
from cxc_eccv.ranking.product import Layout
from cxc_eccv.ranking.row_readers import RowReader
from cxc_eccv.runs.ranked_lists import RankedLists
from cxc_eccv.runs.rankings import RankingsRun
from cxc_eccv.types import FloatArray, IntArray

__all__ = ["read_rankings"]

SCORES_AT_ONCE = 2**22


def read_rankings(run: RankingsRun, direction: str, readers: Sequence[RowReader]) -> None:
    """Let readers read the rankings of one direction, each with its own queries and gallery.

    Items outside the gallery are left out, and so is the query where the reader says so. Scores that come with the
    rankings are read as they are; without them the order is trusted.

    Args:
        run: rankings of the direction.
        direction: ``i2t``, ``t2i``, ``t2t`` or ``i2i``.
        readers: what reads.

    Raises:
        MissingIds: the run lacks the direction, or the rankings of some queries.
        RunTooShallow: a ranking ends before a reader has what it needs.

    Example:
        >>> from cxc_eccv.ranking.top_rows import TopRows
        >>> from cxc_eccv.types import Judgments
        >>> run = RankingsRun.from_dicts(i2t={5: [30, 10, 20]})
        >>> reader = TopRows(Judgments.from_pairs([5], [10, 20, 30], [5], [20]), depth=2)
        >>> read_rankings(run, "i2t", [reader])
        >>> reader.result.ids.tolist()
        [[30, 10]]
    """
    for reader in readers:
        rows = rows_of(run, direction, reader.query_ids)
        lists = run.lists[direction]
        gallery = GalleryPlaces(lists.item_ids, reader.gallery_ids)
        layout = Layout.of(np.zeros(reader.gallery_ids.size, dtype=np.int64))
        reader.attach(reader.query_ids, reader.gallery_ids, layout.column, layout.width)
        for block in _blocks(lists, rows, reader, layout.width):
            if reader.ended:
                break
            ranked = _ranked(lists, rows[block], reader, gallery)
            if reader.deepest is None:
                reader.read(_whole(ranked, block.size, layout), int(block[0]))
            else:
                reader.take(block, *_best(ranked, block.size, reader.deepest))


def _blocks(lists: RankedLists, rows: IntArray, reader: RowReader, width: int) -> list[IntArray]:
    """Queries that are read together, so that their items, or whole rows, stay small."""
    filled = np.cumsum(lists.depths[rows]) // ITEMS_AT_ONCE
    if reader.deepest is None:
        filled = np.arange(rows.size) // max(1, SCORES_AT_ONCE // width)
    return np.split(np.arange(rows.size), np.flatnonzero(np.diff(filled)) + 1)


class _Ranked(NamedTuple):
    """The gallery items in the lists of B queries, list after list, best first.

    Attributes:
        owners: (P,) query of each, 0 to B - 1.
        places: (P,) position in the gallery.
        scores: (P,) not rising within a list.
    """

    owners: IntArray
    places: NDArray[np.int32]
    scores: FloatArray


def _ranked(lists: RankedLists, rows: IntArray, reader: RowReader, gallery: GalleryPlaces) -> _Ranked:
    depths = lists.depths[rows]
    owners, items = np.repeat(np.arange(rows.size), depths), joined(lists, lists.items, rows)
    places = gallery.of(items)
    kept = places >= 0
    if reader.without_self:
        kept &= items != lists.query_ids[rows][owners]
    if lists.scores is None:
        ranks = np.arange(items.size) - np.repeat(np.cumsum(depths) - depths, depths)
        scores = -ranks.astype(np.float64)
    else:
        scores = joined(lists, lists.scores, rows)
    return _Ranked(owners[kept], places[kept], scores[kept])


def _whole(ranked: _Ranked, n_queries: int, layout: Layout) -> NDArray[Any]:
    """(B, width) scores."""
    block = np.full((n_queries, layout.width), -np.inf, dtype=np.float64)
    block[ranked.owners, layout.column[ranked.places]] = ranked.scores
    return block


def _best(ranked: _Ranked, n_queries: int, depth: int) -> tuple[FloatArray, IntArray]:
    """(B, C) scores of the best ``depth`` of each query and of what ties with the last of these, and their places."""
    counts = np.bincount(ranked.owners, minlength=n_queries)
    starts = np.cumsum(counts) - counts
    lowest = np.full(n_queries, -np.inf)
    lowest[counts >= depth] = ranked.scores[starts[counts >= depth] + depth - 1]
    looked = np.flatnonzero(ranked.scores >= lowest[ranked.owners])
    owners, within = ranked.owners[looked], looked - starts[ranked.owners[looked]]
    shape = n_queries, max(depth, within.max(initial=0) + 1)
    scores, places = np.full(shape, -np.inf), np.zeros(shape, dtype=np.int64)
    scores[owners, within], places[owners, within] = ranked.scores[looked], ranked.places[looked]
    return scores, places
