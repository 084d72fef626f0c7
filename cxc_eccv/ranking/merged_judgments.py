"""What one direction must count: the judgments of several tasks merged, so that they share one product."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import DataError
from cxc_eccv.types import IntArray, Judgments, positions_of
from cxc_eccv.types.ids import distinct_of

if TYPE_CHECKING:
    from cxc_eccv.ranking.readers import RowReader

__all__ = ["MergedJudgments", "Share"]


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """One task's share of merged judgments.

    Attributes:
        judgments: the task's own judgments.
        kept: (E,) entries of ``judgments.indices`` whose item competes for their query (same fold).
        pairs: (E,) the merged pair behind each kept entry.
        competes: (Q, S) whether the items of a segment are in the gallery that a query ranks.
    """

    judgments: Judgments
    kept: IntArray
    pairs: IntArray
    competes: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class MergedJudgments:
    """Judgments over a common set of queries and gallery items.

    A *segment* is a largest set of gallery items that every judgment treats alike: a fold, or what one task leaves
    out of its gallery. Counting per segment serves all tasks with one pass.

    Attributes:
        query_ids: (Q,) ids of all queries.
        gallery_ids: (N,) ids of all gallery items.
        segments: (N,) segment of each gallery item, 0 to ``n_segments - 1``.
        queries, items: (P,) positions in ``query_ids`` and ``gallery_ids`` of each distinct positive pair, by query.
        without_self: a query is left out of its own ranking.
        shares: each task's part, by name.
    """

    query_ids: IntArray
    gallery_ids: IntArray
    segments: IntArray
    queries: IntArray
    items: IntArray
    without_self: bool
    shares: dict[str, Share]

    @property
    def n_segments(self) -> int:
        """Number of segments."""
        return int(self.segments.max()) + 1

    @classmethod
    def of(cls, judgments: Mapping[str, Judgments], readers: Sequence[RowReader] = ()) -> MergedJudgments:
        """Merge the judgments of one direction.

        Args:
            judgments: task name to judgments; all with the same ``without_self``.
            readers: whose queries and items take part too.

        Raises:
            DataError: a query is its own positive, or only some judgments leave the query out.

        Example:
            >>> both = {"a": Judgments.from_pairs([1], [7, 8], [1], [7]), "b": Judgments.from_pairs([1], [7], [1], [7])}
            >>> merged = MergedJudgments.of(both)
            >>> merged.items.tolist(), merged.segments.tolist(), merged.shares["b"].competes.tolist()
            ([0], [1, 0], [[False, True]])
        """
        every = list(judgments.values())
        asking: list[Judgments | RowReader] = [*every, *readers]
        without_self = {one.without_self for one in asking}
        if len(without_self) > 1:
            raise DataError("judgments that leave the query out of its ranking cannot be merged with those that do not")
        query_ids = _union([one.query_ids for one in asking])
        gallery_ids = _union([one.gallery_ids for one in asking])
        segments = _segments(every, gallery_ids)
        kept = [_entries_in_own_fold(one) for one in every]
        keys = [
            positions_of(one.query_ids, query_ids)[0][one.rows[entries]] * gallery_ids.size
            + positions_of(one.gallery_ids, gallery_ids)[0][one.indices[entries]]
            for one, entries in zip(every, kept, strict=True)
        ]
        pairs, inverse = np.unique(np.concatenate([np.empty(0, np.int64), *keys]), return_inverse=True)
        queries, items = np.divmod(pairs, gallery_ids.size)
        if without_self == {True} and np.any(query_ids[queries] == gallery_ids[items]):
            raise DataError("a query is among its own positives although it is left out of its ranking")
        ends = itertools.accumulate(len(key) for key in keys)
        own_pairs = [inverse[end - len(key) : end] for key, end in zip(keys, ends, strict=True)]
        shares = {
            name: Share(one, entries, pairs_of_one, _competes(one, gallery_ids, segments))
            for (name, one), entries, pairs_of_one in zip(judgments.items(), kept, own_pairs, strict=True)
        }
        return cls(query_ids, gallery_ids, segments, queries, items, without_self == {True}, shares)

    def own_columns(self, column: IntArray) -> IntArray | None:
        """(Q,) column of each query's own item, -1 where it is no item; None where a query ranks itself too.

        Args:
            column: (N,) column of each gallery item.
        """
        if not self.without_self:
            return None
        places, known = positions_of(self.query_ids, self.gallery_ids)
        return np.where(known, column[places], -1)


def _union(ids: list[IntArray]) -> IntArray:
    if all(np.array_equal(ids[0], other) for other in ids[1:]):
        return ids[0]
    return distinct_of(np.concatenate(ids))


def _labels(judgments: Judgments, gallery_ids: IntArray) -> IntArray:
    """(N,) 0 for items outside these judgments' gallery, else 1 + the fold."""
    places, known = positions_of(gallery_ids, judgments.gallery_ids)
    folds = np.zeros(judgments.gallery_ids.size, dtype=np.int64)
    if judgments.gallery_folds is not None:
        folds = np.unique(judgments.gallery_folds, return_inverse=True)[1]
    return np.where(known, folds[places] + 1, 0)


def _segments(every: list[Judgments], gallery_ids: IntArray) -> IntArray:
    segments = np.zeros(gallery_ids.size, dtype=np.int64)
    for judgments in every:
        labels = _labels(judgments, gallery_ids)
        segments = np.unique(segments * (labels.max() + 1) + labels, return_inverse=True)[1]
    return segments


def _entries_in_own_fold(judgments: Judgments) -> IntArray:
    if judgments.query_folds is None or judgments.gallery_folds is None:
        return np.arange(judgments.indices.size)
    same = judgments.query_folds[judgments.rows] == judgments.gallery_folds[judgments.indices]
    return np.flatnonzero(same)


def _competes(judgments: Judgments, gallery_ids: IntArray, segments: IntArray) -> NDArray[np.bool_]:
    """(Q, S) whether a segment is in the gallery of each query."""
    n_segments = int(segments.max()) + 1
    first = np.array([np.flatnonzero(segments == segment)[0] for segment in range(n_segments)])
    places, inside = positions_of(gallery_ids[first], judgments.gallery_ids)
    if judgments.query_folds is None or judgments.gallery_folds is None:
        return np.broadcast_to(inside, (judgments.query_ids.size, n_segments))
    return np.asarray(inside & (judgments.query_folds[:, None] == judgments.gallery_folds[places]))
