"""Rankings as rows of a score matrix, for readers of whole rows: what a ranking does not hold is minus infinity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.from_rankings import rows_of
from cxc_eccv.ranking.product import Layout
from cxc_eccv.ranking.row_readers import RowReader
from cxc_eccv.runs.ranked_lists import RankedLists
from cxc_eccv.runs.rankings import RankingsRun
from cxc_eccv.types import IntArray, positions_of

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
        layout = Layout.of(np.zeros(reader.gallery_ids.size, dtype=np.int64))
        reader.attach(reader.query_ids, reader.gallery_ids, layout.column, layout.width)
        size = max(1, SCORES_AT_ONCE // layout.width)
        for start in range(0, rows.size, size):
            reader.read(_block(run.lists[direction], rows[start : start + size], reader, layout), start)


def _block(lists: RankedLists, rows: IntArray, reader: RowReader, layout: Layout) -> NDArray[Any]:
    block = np.full((rows.size, layout.width), -np.inf, dtype=np.float64)
    for place, (items, scores) in enumerate(_rankings(lists, rows)):
        places, known = positions_of(items, reader.gallery_ids)
        if reader.without_self:
            known &= items != lists.query_ids[rows[place]]
        block[place, layout.column[places[known]]] = scores[known]
    return block


def _rankings(lists: RankedLists, rows: IntArray) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Items and falling scores of each ranking."""
    for row in rows.tolist():
        own = slice(lists.indptr[row], lists.indptr[row + 1])
        items = lists.items[own]
        yield items, -np.arange(items.size, dtype=np.float64) if lists.scores is None else lists.scores[own]
