"""The gains of the items at the top of rankings, and which of them were judged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, InvalidOption, RunTooShallow
from cxc_eccv.types import FloatArray, Judgments, TopK, positions_of

__all__ = ["TopGains", "check_depth"]


@dataclass(frozen=True, slots=True, eq=False)
class TopGains:
    """Gains of the top K items of Q queries, in ranked order; a gallery of fewer items has a shorter top.

    Attributes:
        gains: (Q, K) gain of each item, 0 where it was not judged.
        judged: (Q, K) whether it was.
    """

    gains: FloatArray
    judged: NDArray[np.bool_]

    @classmethod
    def of(cls, top: TopK, judgments: Judgments, k: int, metric: str) -> TopGains:
        """Look the top items up in the judgments.

        Args:
            top: the best items of each query.
            judgments: judged items of the same queries, in the same order, with gains.
            k: items to look at, at least 1.
            metric: its name, for messages.

        Raises:
            InvalidOption: k is not a whole number of at least 1.
            RunTooShallow: the top is not deep enough.
            DataError: the judgments have other queries, or no gains; or there is no query.

        Example:
            >>> qrels = Judgments(np.array([5]), np.array([7, 8, 9]), [0, 2], [0, 2], [0], gains=np.array([1.0, 0.5]))
            >>> TopGains.of(TopK(np.array([5]), np.array([[9, 8, 7]])), qrels, 2, "ndcg_at_k").gains.tolist()
            [[0.5, 0.0]]
        """
        check_depth(k, metric)
        if judgments.gains is None or not np.array_equal(top.query_ids, judgments.query_ids):
            raise DataError(f"{metric}: needs judgments with gains, of the queries that were ranked and in their order")
        if not top.query_ids.size:
            raise DataError(f"{metric}: there is no query to measure")
        shown = min(k, judgments.gallery_ids.size - judgments.without_self)
        if top.depth < shown:
            raise RunTooShallow(
                f"{metric} of query {top.query_ids[0]} looks at the top {shown}, but its ranking holds {top.depth} "
                f"items. Rank at least {shown} items."
            )
        columns, known = positions_of(top.ids[:, :shown], judgments.gallery_ids)
        size = judgments.gallery_ids.size
        pairs = np.arange(top.query_ids.size)[:, None] * size + columns
        judged_pairs = judgments.rows * size + judgments.indices  # ascending
        places = np.minimum(np.searchsorted(judged_pairs, pairs), judged_pairs.size - 1)
        judged = known & (judged_pairs[places] == pairs)
        return cls(np.where(judged, judgments.gains[places], 0.0), judged)


def check_depth(k: int, metric: str) -> None:
    """Raise unless K is a whole number of at least 1.

    Args:
        k: items to look at.
        metric: its name, for the message.

    Raises:
        InvalidOption: it is not.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InvalidOption(f"{metric}: k is {k!r}, expected a whole number of at least 1")
