"""Shown queries: which ones, what the run retrieves for them, and what every source of labels says of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import RunTooShallow
from cxc_eccv.judgments.merge import MergedPairs, merge
from cxc_eccv.ranking.rank import top_k
from cxc_eccv.report.best_ranks import NOT_FOUND, best_ranks
from cxc_eccv.report.chosen_queries import SHOWN_ITEMS, Chosen, chosen_queries
from cxc_eccv.report.disagreement import directions_judged
from cxc_eccv.report.examples_table import SCHEMA, no_examples
from cxc_eccv.report.item_texts import files_of, images_behind_items, texts_of
from cxc_eccv.report.pair_provenance import same_categories, sources_of, verdicts_of_pairs
from cxc_eccv.runs import RankingsRun, Run
from cxc_eccv.runs.sides import sides_of
from cxc_eccv.sources.library import Library
from cxc_eccv.types import IntArray, Judgments, Report, TopK, positions_of

__all__ = ["collect_examples"]


def collect_examples(run: Run, report: Report, library: Library) -> pa.Table:
    """The queries that a report shows, with the top ten items of each and their provenance.

    Labels are those that the report's tasks have read. The order is exact; of items that tie, positives stand last.

    Args:
        run: what the report was computed from.
        report: with per-query values.
        library: the raw sources it was computed from.

    Returns:
        The table of :data:`cxc_eccv.report.examples_table.SCHEMA`; empty, with the reason in its metadata, where no
        task ranked the whole galleries of the split, or where rankings are too short to show.

    Example:
        >>> from cxc_eccv.runs import EmbeddingsRun
        >>> from cxc_eccv.types import Embeddings
        >>> library = Library("sample")
        >>> ids = library.captions("test")["caption_id"].to_numpy()
        >>> run = EmbeddingsRun(None, Embeddings(ids, np.random.default_rng(0).standard_normal((ids.size, 4))))
        >>> rows = {"query_id": ids[:2], "task": ["cxc"] * 2, "direction": ["t2t"] * 2, "metric": ["mrr"] * 2}
        >>> values = pa.table(rows | {"value": [0.5, 0.25], "best_rank": [2, 4]})
        >>> collect_examples(run, Report((), {}, {"split": "test"}, values), library).num_rows
        20
    """
    ranks, sources = best_ranks(report), sources_of(report)
    split, similarity = str(report.provenance["split"]), report.provenance.get("similarity")
    parts, reasons = [], []
    for direction in directions_judged(ranks):
        merged = merge(library, split, direction, sources=[name for name in sources if name != "categories"])
        chosen = chosen_queries(ranks, direction)
        try:
            top = _retrieved(run, direction, _positives(merged, direction, chosen), similarity)
        except RunTooShallow as error:
            reasons.append(str(error))
            continue
        parts.append(_table(merged, direction, chosen, top, library, split, categories="categories" in sources))
    if not parts:
        return no_examples("; ".join(reasons) or "no task ranked the whole galleries of the split")
    return pa.concat_tables(parts)


def _positives(merged: MergedPairs, direction: str, chosen: Sequence[Chosen]) -> Judgments:
    """The positives of the chosen queries under all labels."""
    query_ids = np.array([one.query_id for one in chosen])
    pair_queries, pair_items = merged.query_ids[merged.queries], merged.gallery_ids[merged.items]
    own = merged.positive & positions_of(pair_queries, query_ids)[1]
    within = direction in ("t2t", "i2i")
    return Judgments.from_pairs(query_ids, merged.gallery_ids, pair_queries[own], pair_items[own], without_self=within)


def _retrieved(run: Run, direction: str, judgments: Judgments, similarity: str | None) -> TopK:
    options = {"similarity": similarity} if similarity else {}
    depth = SHOWN_ITEMS
    if isinstance(run, RankingsRun):
        own = run.depths(direction)[positions_of(judgments.query_ids, run.lists[direction].query_ids)[0]]
        depth = min(depth, int(own.min()))
        if not depth:
            raise RunTooShallow(f"a {direction} ranking of those to show holds no item but its query")
    top = top_k(run, judgments, direction, depth, **options)
    if isinstance(run, RankingsRun) and run.lists[direction].scores is None:
        return TopK(top.query_ids, top.ids)
    return top


def _table(
    merged: MergedPairs,
    direction: str,
    chosen: Sequence[Chosen],
    top: TopK,
    library: Library,
    split: str,
    *,
    categories: bool,
) -> pa.Table:
    """One row per query and item."""
    queries, items = np.repeat(top.query_ids, top.depth), top.ids.ravel()
    verdicts = verdicts_of_pairs(merged, queries, items)
    columns = _columns_of_queries(chosen, verdicts.positive.reshape(top.ids.shape)) | {
        "direction": [direction] * items.size,
        "query_id": queries,
        "rank": np.tile(np.arange(1, top.depth + 1), len(chosen)),
        "item_id": items,
        "score": pa.nulls(items.size, pa.float64()) if top.scores is None else top.scores.ravel(),
        "positive": verdicts.positive,
        **verdicts.columns,
    }
    images: list[IntArray] = []
    for name, side, ids in zip(("query", "item"), sides_of(direction), (queries, items), strict=True):
        columns[f"{name}_file"] = files_of(library, split, side, ids)
        columns[f"{name}_texts"] = texts_of(library, split, side, ids)
        images.append(images_behind_items(library, split, side, ids))
    alike = same_categories(library, split, images) if categories else pa.nulls(items.size, pa.bool_())
    columns["same_categories"] = alike
    return pa.table({name: columns[name] for name in SCHEMA.names}, schema=SCHEMA)


def _columns_of_queries(chosen: Sequence[Chosen], positive: NDArray[np.bool_]) -> dict[str, object]:
    """Group and best ranks, once per item; a positive in sight settles the best rank.

    A source that ranks nothing by itself (entailment labels), or a tie between positives of several sources, puts a
    positive higher than any single task does.
    """
    in_sight = np.where(positive.any(axis=1), positive.argmax(axis=1) + 1, NOT_FOUND)
    best = np.minimum([one.best_rank or NOT_FOUND for one in chosen], in_sight)
    depth = positive.shape[1]
    return {
        "group": [one.group for one in chosen for _ in range(depth)],
        "coco_rank": [one.coco_rank for one in chosen for _ in range(depth)],
        "best_rank": pa.array(np.repeat(best, depth), mask=np.repeat(best == NOT_FOUND, depth)),
    }
