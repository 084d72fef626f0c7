"""Ranks from any scorer that yields rows of the score matrix: sparse vectors, a cross-encoder's scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedRun, MissingIds
from cxc_eccv.ranking.assembly import ranks_of_part
from cxc_eccv.ranking.counting import Counts, RowPairs
from cxc_eccv.ranking.demand import Demand
from cxc_eccv.ranking.product import Layout
from cxc_eccv.ranking.row_readers import RowReader
from cxc_eccv.types import IntArray, Judgments, PositiveRanks, positions_of

__all__ = ["ranks_from_scores"]

ROWS_AT_ONCE = 256

ScoreRows = Callable[[IntArray], NDArray[Any]]


def ranks_from_scores(
    score_rows: ScoreRows,
    query_ids: IntArray,
    gallery_ids: IntArray,
    judgments: Mapping[str, Judgments],
    readers: Sequence[RowReader] = (),
) -> dict[str, PositiveRanks]:
    """Ranks of all positives for several judgments of one direction.

    Args:
        score_rows: positions in ``query_ids`` to their (rows, N) scores, float32 or float64; equal items must get equal
            scores.
        query_ids: ids of the scorer's queries.
        gallery_ids: (N,) ids of the columns of the scores.
        judgments: name to judgments.
        readers: what else reads the rows.

    Raises:
        MissingIds: the scorer lacks queries or gallery items of the judgments.
        MalformedRun: a score is NaN or infinite.

    Example:
        >>> scores = np.array([[0.9, 0.1, 0.9]], dtype=np.float32)
        >>> qrels = Judgments.from_pairs([5], [7, 8, 9], [5], [7])
        >>> ranks = ranks_from_scores(lambda rows: scores[rows], np.array([5]), np.array([7, 8, 9]), {"task": qrels})
        >>> ranks["task"].ranks.tolist()
        [2]
    """
    demand = Demand.of(judgments, readers)
    rows, columns = _places(demand.query_ids, query_ids, "queries"), _places(demand.gallery_ids, gallery_ids, "items")
    layout = Layout.of(demand.segments)
    own, in_gallery = positions_of(demand.query_ids, demand.gallery_ids)
    pairs = RowPairs(demand.queries, layout.column[demand.items], layout.bounds)
    for reader in readers:
        reader.attach(demand.query_ids, demand.gallery_ids, layout.column, layout.width)
    for start in range(0, rows.size, ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        scores = score_rows(rows[part])
        if not np.isfinite(scores).all():
            raise MalformedRun(
                f"scores of queries {demand.query_ids[part][:3].tolist()}... hold NaN or infinite values"
            )
        block = np.full((len(scores), layout.width), -np.inf, dtype=scores.dtype)
        block[:, layout.column] = scores[:, columns]
        if demand.without_self:
            known = np.flatnonzero(in_gallery[part])
            block[known, layout.column[own[part][known]]] = -np.inf
        with np.errstate(over="ignore"):  # a float64 score that the table of float32 ones does not hold
            pairs.count(block, start)
        for reader in readers:
            reader.read(block, start)
    counts = _in_order_of_counts(pairs.result)
    return {name: ranks_of_part(demand, one, counts) for name, one in demand.parts.items()}


def _in_order_of_counts(counts: Counts) -> Counts:
    """The counts with scores that order and tie the positives of a query as float64 scores would.

    The more items score higher, the lower a positive; a count of items fits float32, a float64 score may not.
    """
    return Counts(-counts.above.sum(axis=1).astype(np.float32), counts.at_least, counts.above)


def _places(wanted: IntArray, ids: IntArray, kind: str) -> IntArray:
    places, known = positions_of(wanted, ids)
    if not known.all():
        missing = wanted[~known]
        raise MissingIds(f"the scores lack {missing.size} of {wanted.size} {kind}, the first: {missing[0]}")
    return places
