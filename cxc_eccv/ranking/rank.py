"""Ranks of all positives, top items and similarities of pairs, from a run of any kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import InvalidOption, MissingIds
from cxc_eccv.kernels import pair_products
from cxc_eccv.ranking.counts import CountRows, Counts, MergedJudgments, RowPairs, count_rows, rank_positives
from cxc_eccv.ranking.device import DeviceProduct, full_precision, torch_on
from cxc_eccv.ranking.lists import ranks_from_rankings, read_rankings
from cxc_eccv.ranking.readers import RowReader, TopRows, can_read_columns
from cxc_eccv.ranking.scores import (
    GivenScores,
    Layout,
    Options,
    Product,
    ScoreRows,
    Scores,
    places_of,
    prepare_side,
    refuse_embedding_options,
    refuse_extremes,
    refuse_zero_vectors,
    scan,
    similarity_of,
)
from cxc_eccv.ranking.shared_product import count_both, count_within
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, Run, ScoresRun
from cxc_eccv.types import (
    CROSS_MODAL,
    FloatArray,
    IntArray,
    Judgments,
    PositiveRanks,
    RatedPairs,
    TopK,
    find_positions,
    find_sides,
)

SCORED_AT_ONCE = 256

Requests = Mapping[str, tuple[str, Judgments]]
"""Name to direction and judgments."""

Readers = Mapping[str, Sequence[RowReader]]
"""Direction to further readers of its scores."""

NO_READERS: Readers = MappingProxyType({})


def ranks_of_run(
    run: Run,
    judgments: Requests,
    *,
    readers: Readers = NO_READERS,
    progress: bool = False,
    **options: Any,  # noqa: ANN401 - similarity, block_size and device, as in Options
) -> dict[str, PositiveRanks]:
    """Exact ranks by name for several sets of judgments; those over the same modalities share one product.

    Ranks of rankings are GivenRanks, which may be incomplete.
    """
    if not isinstance(run, EmbeddingsRun):
        refuse_embedding_options(run, **options)
    if isinstance(run, RankingsRun):
        for direction, readers_of_direction in readers.items():
            read_rankings(run, direction, readers_of_direction)
        return {name: ranks_from_rankings(run, direction, judged) for name, (direction, judged) in judgments.items()}
    merged = {
        direction: MergedJudgments.of(named, readers.get(direction, ()))
        for direction, named in _by_direction(judgments, readers).items()
    }
    if isinstance(run, ScoresRun):
        counts = {name: _count_matrix(run, name, each, readers.get(name, ())) for name, each in merged.items()}
    else:
        similarity = similarity_of(run, options.pop("similarity", None))
        counts = _count(run, merged, Options(similarity, progress=progress, **options), readers)
    return {
        name: rank_positives(merged[direction].shares[name], counts[direction])
        for name, (direction, _) in judgments.items()
    }


def _count_matrix(run: ScoresRun, direction: str, merged: MergedJudgments, readers: Sequence[RowReader]) -> Counts:
    query_side, gallery_side = find_sides(direction)
    rows, items = places_of(merged.query_ids, run, query_side), places_of(merged.gallery_ids, run, gallery_side)
    scores = partial(_score_rows, run.scores if direction == "i2t" else run.scores.T)
    return _count_scores(scores, rows, items, merged, readers)


def positive_ranks(run: EmbeddingsRun, judgments: Judgments, direction: str, **options: Any) -> PositiveRanks:  # noqa: ANN401
    """Exact ranks of all positives of every query; options as in :func:`ranks_of_run`."""
    return ranks_of_run(run, {"": (direction, judgments)}, **options)[""]


def _by_direction(judgments: Requests, readers: Readers) -> dict[str, dict[str, Judgments]]:
    grouped: dict[str, dict[str, Judgments]] = {direction: {} for direction in readers}
    for name, (direction, judged) in judgments.items():
        grouped.setdefault(direction, {})[name] = judged
    return grouped


def _count(
    run: EmbeddingsRun, merged: dict[str, MergedJudgments], options: Options, readers: Readers
) -> dict[str, Counts]:
    """Count every direction, with one product for two directions or half a product for one where possible."""
    counts: dict[str, Counts] = {}
    if options.device is None:
        if shared := _rows_first({name: merged[name] for name in CROSS_MODAL if name in merged}, readers):
            counts |= count_both(run, shared, options, readers)
        for direction, judged in merged.items():
            if direction not in CROSS_MODAL and not readers.get(direction):
                counts |= count_within(run, direction, judged, options)
    for direction, judged in merged.items():
        if direction not in counts:
            counts[direction] = count_by_row(run, direction, judged, options, readers.get(direction, ()))
    return counts


def _rows_first(merged: dict[str, MergedJudgments], readers: Readers) -> dict[str, MergedJudgments]:
    """The cross-modal directions if they can share a product, first the one whose queries are rows."""
    deep = [direction for direction in merged if not all(map(can_read_columns, readers.get(direction, ())))]
    if len(merged) < len(CROSS_MODAL) or len(deep) == len(CROSS_MODAL):
        return {}
    first = deep[0] if deep else max(merged, key=lambda direction: merged[direction].query_ids.size)
    return dict(sorted(merged.items(), key=lambda item: item[0] != first))


def count_by_row(
    run: EmbeddingsRun,
    direction: str,
    merged: MergedJudgments,
    options: Options,
    readers: Sequence[RowReader],
) -> Counts:
    """Count one direction row by row, on the CPU or a torch device; readers read on the CPU."""
    query_side, gallery_side = find_sides(direction)
    layout = Layout.of(merged.segments)
    rows = prepare_side(run, query_side, merged.query_ids, options.similarity)
    columns = prepare_side(run, gallery_side, merged.gallery_ids, options.similarity, layout)
    if options.similarity == "dot":
        refuse_extremes(rows, columns, merged.query_ids, layout.spread(merged.gallery_ids))
    self_columns = merged.self_columns(layout.column)
    if options.device is None:
        scores = Product(rows, columns, layout.padding, self_columns=self_columns)
        return _scan_rows(scores, merged, layout, readers, options, direction)
    torch = torch_on(options.device)
    with full_precision(torch, options.device):
        product = DeviceProduct(torch, options.device, rows, columns, layout.padding, self_columns)
        size = options.block_size or product.rows_at_once
        return _scan_rows(
            product, merged, layout, readers, options, direction, count=product.count_rows, rows_at_once=size, threads=1
        )


def _scan_rows(
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


def ranks_from_scores(
    score_rows: ScoreRows,
    query_ids: IntArray,
    gallery_ids: IntArray,
    judgments: Mapping[str, Judgments],
    readers: Sequence[RowReader] = (),
) -> dict[str, PositiveRanks]:
    """Ranks by name for several judgments of one direction, from a function that returns rows of scores.

    Raises:
        MissingIds: a query or an item of the judgments is not among the ids.
    """
    merged = MergedJudgments.of(judgments, readers)
    (rows, asked), (items, ranked) = (
        find_positions(wanted, ids)
        for wanted, ids in ((merged.query_ids, query_ids), (merged.gallery_ids, gallery_ids))
    )
    if not (asked.all() and ranked.all()):
        raise MissingIds("the scores lack queries or items of the judgments; score all")
    counts = _count_scores(score_rows, rows, items, merged, readers)
    return {name: rank_positives(share, counts) for name, share in merged.shares.items()}


def _count_scores(
    score_rows: ScoreRows, rows: IntArray, items: IntArray, merged: MergedJudgments, readers: Sequence[RowReader]
) -> Counts:
    layout = Layout.of(merged.segments)
    scores = GivenScores(score_rows, rows, items, layout, merged.self_columns(layout.column))
    counts = _scan_rows(scores, merged, layout, readers, Options(), rows_at_once=SCORED_AT_ONCE, threads=1)
    # Positives are ordered by the number of items above them: counts fit float32, float64 scores may not.
    return Counts(-counts.above.sum(axis=1).astype("float32"), counts.at_least, counts.above)


def _score_rows(scores: NDArray[Any], rows: IntArray) -> NDArray[Any]:
    chosen = scores[rows]
    return chosen.astype("float32") if chosen.dtype.itemsize < 4 else chosen


def top_k(run: Run, judgments: Judgments, direction: str, k: int, **options: Any) -> TopK:  # noqa: ANN401
    """The exact top k items of every query, under the pessimistic tie rule."""
    reader = TopRows(judgments, k)
    ranks_of_run(run, {}, readers={direction: [reader]}, **options)
    return reader.result


def similarities_of_run(run: Run, direction: str, rated: RatedPairs, *, similarity: str | None = None) -> FloatArray:
    """(P,) similarities of rated pairs, or scores if the run has scores."""
    if isinstance(run, EmbeddingsRun):
        return pair_similarities(run, direction, rated, similarity=similarity)
    refuse_embedding_options(run, similarity=similarity)
    if not isinstance(run, ScoresRun) or direction != "i2t":
        raise InvalidOption(f"{run.kind} have no similarities of rated pairs in the direction {direction}")
    rows, columns = places_of(rated.query_ids, run, "images"), places_of(rated.item_ids, run, "captions")
    return np.asarray(run.scores[rows, columns], dtype=np.float64)


def pair_similarities(
    run: EmbeddingsRun, direction: str, rated: RatedPairs, *, similarity: str | None = None
) -> FloatArray:
    """(P,) similarities of rated pairs, summed in float64."""
    similarity = similarity_of(run, similarity)
    query_side, item_side = find_sides(direction)
    if query_side == item_side:  # the smaller row first, so that both orders are the same pair
        both = np.split(_rows_of(run, query_side, np.concatenate([rated.query_ids, rated.item_ids])), 2)
        queries, items = np.minimum(*both), np.maximum(*both)
    else:
        queries, items = _rows_of(run, query_side, rated.query_ids), _rows_of(run, item_side, rated.item_ids)
    left, right = getattr(run, query_side).vectors, getattr(run, item_side).vectors
    if similarity == "cosine":
        for side, vectors, rows in ((query_side, left, queries), (item_side, right, items)):
            distinct = np.unique(rows)
            zero = distinct[~vectors[distinct].any(axis=1)]
            refuse_zero_vectors(run.ids(side)[zero], distinct.size, side, run.path or "run")
    pairs, occurrence = np.unique(queries * len(right) + items, return_inverse=True)
    queries, items = np.divmod(pairs, len(right))
    values = pair_products(left, right, queries, items)[0]
    if similarity == "cosine":
        # The root of the product, not the product of roots, gives identical vectors exactly 1.
        values /= np.sqrt(_squares(left, queries) * _squares(right, items))
    return np.asarray(values[occurrence])


def _rows_of(run: EmbeddingsRun, side: str, ids: IntArray) -> IntArray:
    distinct, occurrence = np.unique(ids, return_inverse=True)
    return places_of(distinct, run, side)[occurrence]


def _squares(vectors: NDArray[np.float32], rows: IntArray) -> FloatArray:
    """(P,) squared lengths of the chosen vectors."""
    distinct, occurrence = np.unique(rows, return_inverse=True)
    return np.asarray(pair_products(vectors, vectors, distinct, distinct)[0][occurrence])
