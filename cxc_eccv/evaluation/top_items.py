"""Top items of rankings beside their judgments: how many are judged, and which queries have any."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cxc_eccv.metrics.top_gains import TopGains
from cxc_eccv.types import IntArray, Judgments, TopK

__all__ = ["judged_share", "queries_with_judged", "tied_queries"]


def judged_share(top: TopK, judgments: Judgments, k: int) -> float:
    """Share of the top K items of all queries that are judged.

    Example:
        >>> qrels = Judgments(np.array([5]), np.array([7, 8, 9]), [0, 1], [0], [0], gains=np.array([1.0]))
        >>> judged_share(TopK(np.array([5]), np.array([[9, 7]])), qrels, 2)
        0.5
    """
    return float(TopGains.of(top, judgments, k, "coverage").judged.mean())


def queries_with_judged(top: TopK, judgments: Judgments, k: int) -> tuple[TopK, Judgments]:
    """The top items and judgments of those queries that have a judged item among their top K.

    Example:
        >>> qrels = Judgments(np.array([5]), np.array([7, 8, 9]), [0, 1], [0], [0], gains=np.array([1.0]))
        >>> queries_with_judged(TopK(np.array([5]), np.array([[9, 7]])), qrels, 1)[0].query_ids.size
        0
    """
    rows = np.flatnonzero(TopGains.of(top, judgments, k, "coverage").judged.any(axis=1))
    kept = TopK(top.query_ids[rows], top.ids[rows])
    return kept, _rows_of(judgments, rows)


def _rows_of(judgments: Judgments, rows: IntArray) -> Judgments:
    entries = np.isin(judgments.rows, rows)
    return replace(
        judgments,
        query_ids=judgments.query_ids[rows],
        indptr=np.concatenate([[0], np.cumsum(np.diff(judgments.indptr)[rows])]),
        indices=judgments.indices[entries],
        unreachable=judgments.unreachable[rows],
        gains=None if judgments.gains is None else judgments.gains[entries],
    )


def tied_queries(top: TopK, judgments: Judgments, k: int) -> int:
    """Queries in which the tie rule decided: items of unequal gain tie in the top K, or a tie goes beyond its end.

    Example:
        >>> qrels = Judgments(np.array([5]), np.array([7, 8, 9]), [0, 1], [0], [0], gains=np.array([1.0]))
        >>> scores = np.array([[0.5, 0.5]], dtype=np.float32)
        >>> tied_queries(TopK(np.array([5]), np.array([[9, 7]]), scores, np.array([0])), qrels, 2)
        1
    """
    if top.scores is None or top.cut is None:
        return 0
    gains = TopGains.of(top, judgments, k, "ties").gains
    equal = top.scores[:, 1:] == top.scores[:, :-1]
    shown = gains.shape[1]
    within = (equal[:, : shown - 1] & (gains[:, 1:] != gains[:, :-1])).any(axis=1)
    beyond = equal[:, shown - 1] if shown < top.depth else top.cut > 0
    return int(np.count_nonzero(within | beyond))
