"""One direction, counted row by row: every query is a row of the score matrix, wherever its scores come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cxc_eccv.errors import MissingIds
from cxc_eccv.ranking.counts import Counts
from cxc_eccv.ranking.merged_judgments import MergedJudgments
from cxc_eccv.ranking.readers import CountRows, RowPairs, RowReader, count_rows
from cxc_eccv.ranking.scan import Options, Scores, scan
from cxc_eccv.ranking.scores import (
    GivenScores,
    Layout,
    Product,
    ScoreRows,
    device_product,
    prepare_side,
    refuse_extremes,
)
from cxc_eccv.ranking.tie_rule import rank_positives
from cxc_eccv.runs.embeddings import EmbeddingsRun
from cxc_eccv.runs.run import sides_of
from cxc_eccv.types import IntArray, Judgments, PositiveRanks, positions_of

__all__ = ["count_by_row", "ranks_from_scores"]

SCORED_AT_ONCE = 256


def count_by_row(
    run: EmbeddingsRun, direction: str, merged: MergedJudgments, options: Options, readers: Sequence[RowReader] = ()
) -> Counts:
    """Count one direction of embeddings, by NumPy or on a torch device; readers read on the processor.

    Raises:
        MissingIds: the run lacks queries or gallery items.
        InvalidOption: no such device.
    """
    query_side, gallery_side = sides_of(direction)
    layout = Layout.of(merged.segments)
    rows = prepare_side(run, query_side, merged.query_ids, options.similarity)
    columns = prepare_side(run, gallery_side, merged.gallery_ids, options.similarity, layout.column, layout.width)
    if options.similarity == "dot":
        refuse_extremes(rows, columns, merged.query_ids, layout.spread(merged.gallery_ids))
    own = merged.own_columns(layout.column)
    if options.device is None:
        return _count(Product(rows, columns, layout.padding, own=own), merged, layout, readers, options, direction)
    with device_product(options.device, rows, columns, layout.padding, own) as product:
        size = options.block_size or product.rows_at_once
        return _count(
            product, merged, layout, readers, options, direction, count=product.count_rows, rows_at_once=size, threads=1
        )


def ranks_from_scores(
    score_rows: ScoreRows,
    query_ids: IntArray,
    gallery_ids: IntArray,
    judgments: Mapping[str, Judgments],
    readers: Sequence[RowReader] = (),
) -> dict[str, PositiveRanks]:
    """Ranks of all positives for several judgments of one direction, from any scorer that yields rows of scores.

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
        >>> import numpy as np
        >>> scores = np.array([[0.9, 0.1, 0.9]], dtype=np.float32)
        >>> qrels = Judgments.from_pairs([5], [7, 8, 9], [5], [7])
        >>> ranks = ranks_from_scores(lambda rows: scores[rows], np.array([5]), np.array([7, 8, 9]), {"task": qrels})
        >>> ranks["task"].ranks.tolist()
        [2]
    """
    merged = MergedJudgments.of(judgments, readers)
    rows, items = _places(merged.query_ids, query_ids, "queries"), _places(merged.gallery_ids, gallery_ids, "items")
    layout = Layout.of(merged.segments)
    scores = GivenScores(score_rows, merged.query_ids, rows, items, layout, merged.own_columns(layout.column))
    counts = _count(scores, merged, layout, readers, Options(), rows_at_once=SCORED_AT_ONCE, threads=1)
    counts = _in_order_of_counts(counts)
    return {name: rank_positives(merged, share, counts) for name, share in merged.shares.items()}


def _count(
    scores: Scores,
    merged: MergedJudgments,
    layout: Layout,
    readers: Sequence[RowReader],
    options: Options,
    label: str = "",
    *,
    count: CountRows = count_rows,
    **how: Any,  # noqa: ANN401 - of the scan
) -> Counts:
    pairs = RowPairs(merged.queries, layout.column[merged.items], layout.bounds, count)
    for reader in readers:
        reader.attach(merged.query_ids, merged.gallery_ids, layout.column, layout.width)

    def read(block: Any, start: int) -> None:  # noqa: ANN401 - an array, or a tensor on a device
        pairs.read(block, start)
        for reader in readers:
            reader.read(block if options.device is None else block.cpu().numpy(), start)

    scan(scores, read, options, label, **how)
    return pairs.result


def _in_order_of_counts(counts: Counts) -> Counts:
    """The counts with scores that order and tie the positives of a query as float64 scores would.

    The more items score higher, the lower a positive; a count of items fits float32, a float64 score may not.
    """
    return Counts(-counts.above.sum(axis=1).astype("float32"), counts.at_least, counts.above)


def _places(wanted: IntArray, ids: IntArray, kind: str) -> IntArray:
    places, known = positions_of(wanted, ids)
    if not known.all():
        missing = wanted[~known]
        raise MissingIds(f"the scores lack {missing.size} of {wanted.size} {kind}, the first: {missing[0]}")
    return places
