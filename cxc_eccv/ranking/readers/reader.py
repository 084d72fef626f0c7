"""Readers of whole rows of the score matrix, which pass by in blocks; each knows the rows and columns it needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import RunTooShallow
from cxc_eccv.types import IntArray, positions_of

__all__ = ["OwnRows", "RowReader", "refuse_shallow", "too_shallow"]

SCORES_AT_ONCE = 2**18


class RowReader(Protocol):
    """What a pass over the score matrix asks of a reader.

    Attributes:
        query_ids: (Q,) ids of the queries whose rows it reads.
        gallery_ids: (N,) ids of the items that they rank.
        without_self: a query is left out of its own ranking.
        deepest: the most items of a row that it looks at; None for no such limit.
        ended: it needs no further rows, because rankings were too short for it.
    """

    query_ids: IntArray
    gallery_ids: IntArray
    without_self: bool
    deepest: int | None

    @property
    def ended(self) -> bool:
        """Whether it needs no further rows."""

    @property
    def needs(self) -> IntArray:
        """(Q,) items that it looks at of each query."""

    def attach(self, row_ids: IntArray, item_ids: IntArray, columns: IntArray, width: int) -> None:
        """Learn how the matrix is laid out.

        Args:
            row_ids: (R,) query id of each row; holds all of the reader's.
            item_ids: (M,) ids of the items, all of the reader's among them.
            columns: (M,) column of each.
            width: number of columns; those of no item hold minus infinity.
        """

    def read(self, block: NDArray[Any], start: int) -> None:
        """Read a block of rows, of which ``start`` is the first; blocks may come in any order, several at once."""

    def take(self, queries: IntArray, scores: NDArray[Any], items: IntArray) -> None:
        """Read the best items of queries.

        Args:
            queries: (B,) positions in ``query_ids``.
            scores: (B, C) as many of the best as the reader ``needs``, what ties with the last of these, and any
                others, in any order; filled up with minus infinity.
            items: (B, C) their positions in ``gallery_ids``; -1 where there is none.
        """


class OwnRows:
    """A reader's own part of the score matrix.

    Args:
        query_ids, gallery_ids: the reader's.
        row_ids, item_ids, columns, width: as in :meth:`RowReader.attach`.

    Attributes:
        items: (width,) position in ``gallery_ids`` of the item of each column; -1 where there is none of ours.
    """

    def __init__(
        self,
        query_ids: IntArray,
        gallery_ids: IntArray,
        row_ids: IntArray,
        item_ids: IntArray,
        columns: IntArray,
        width: int,
    ) -> None:
        places, known = positions_of(row_ids, query_ids)
        self._queries = np.where(known, places, -1)
        self.items = np.full(width, -1)
        self.items[columns[positions_of(gallery_ids, item_ids)[0]]] = np.arange(gallery_ids.size)
        self._foreign = np.flatnonzero(self.items < 0)
        others = np.setdiff1d(columns, np.flatnonzero(self.items >= 0))
        self._all_items = others.size == 0

    def strips(self, block: NDArray[Any], start: int, *, blank: bool = True) -> Iterator[tuple[IntArray, NDArray[Any]]]:
        """Positions in ``query_ids`` and scores of a few own rows at a time; minus infinity at items not ours.

        The scores may be a view of the block: they are not to be written to. Without ``blank`` all are as they are.
        """
        queries = self._queries[start : start + len(block)]
        own = np.flatnonzero(queries >= 0)
        size = max(1, SCORES_AT_ONCE // block.shape[1])
        for first in range(0, own.size, size):
            rows = own[first : first + size]
            in_sequence = rows[-1] - rows[0] == rows.size - 1
            scores = block[rows[0] : rows[-1] + 1] if in_sequence else block[rows]
            if blank and not self._all_items:
                scores = scores.copy()
                scores[:, self._foreign] = -np.inf
            yield queries[rows], scores


def refuse_shallow(
    query_ids: IntArray, scores: NDArray[Any], lowest: NDArray[Any], depths: IntArray, reason: str
) -> None:
    """Refuse rankings that end before the depth at which they are read.

    Args:
        query_ids: (B,) ids.
        scores: (B, N) their scores, minus infinity for items that a ranking does not hold.
        lowest: (B,) score of the last item read; minus infinity where the ranking ended before.
        depths: (B,) items read.
        reason: why so many, for the message.

    Raises:
        RunTooShallow: names the first query, the depth it has and the depth it needs.

    Example:
        >>> scores = np.array([[3.0, -np.inf, 1.0]])
        >>> refuse_shallow(np.array([5]), scores, np.array([-np.inf]), np.array([3]), "for its top 3")
        Traceback (most recent call last):
        cxc_eccv.errors.RunTooShallow: query 5 needs 3 ranked items for its top 3, but its ranking holds 2 of the \
gallery. Rank the whole gallery, or at least as many items.
    """
    short = np.flatnonzero(np.isneginf(lowest))
    if short.size:
        row = short[0]
        raise too_shallow(query_ids[row], depths[row], int(np.count_nonzero(np.isfinite(scores[row]))), reason)


def too_shallow(query_id: int, needed: int, held: int, reason: str) -> RunTooShallow:
    """The error of a query whose ranking holds fewer items than are read."""
    return RunTooShallow(
        f"query {query_id} needs {needed} ranked items {reason}, but its ranking holds {held} of the gallery. Rank the "
        "whole gallery, or at least as many items."
    )
