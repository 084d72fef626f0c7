"""Example queries: what the run retrieves, and which labels judge it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import RunTooShallow
from cxc_eccv.evaluation.plan import Plan
from cxc_eccv.judgments.evidence.source import (
    Thresholds,
    gather,
    label_file_source,
    official_sources,
)
from cxc_eccv.judgments.merging import MergedPairs, merge
from cxc_eccv.ranking import Ranked
from cxc_eccv.report import Report
from cxc_eccv.report.best_ranks import COCO, BestRanks, align, best_ranks, directions_judged
from cxc_eccv.report.example_table import EXAMPLES_SCHEMA, LABELS_COLUMN, no_examples
from cxc_eccv.sources.library import Split
from cxc_eccv.tasks.task import Task
from cxc_eccv.types import FloatArray, IntArray, Judgments, TopK, find_positions, find_sides

QUERIES_SHOWN = {"label_dependent": 6, "worst": 4, "plain": 4}
"""Group to the number of queries shown of it, per direction."""

ITEMS_SHOWN = 10


def collect_examples(ranker: Ranked, plan: Plan, report: Report) -> pa.Table:
    """The example queries of a report with their top ten items; an empty table holds the reason in its metadata.

    A few queries are ranked once more: their choice follows from the ranks of all, and the top items of every query
    would take longer than all ranks, as ranks within one modality need half of a product.
    """
    ranks = _keep_queries_with_results(best_ranks(report), plan)
    directions = directions_judged(ranks)
    if not directions:
        return no_examples("no task ranked the whole galleries of the split")
    computed = {result.task for result in report.results}
    tasks = [part.task for part in plan.parts if part.task.name in computed]
    sources = plan.sources or find_sources_read(tasks)
    whole = plan.library.split(plan.request.split)
    part = plan.splits.get(whole.collection, whole)  # items that the report left out are not shown
    parts = []
    reasons = []
    for direction in directions:
        merged = merge(whole, direction, sources=sources)
        asked = set(merged.query_ids[merged.queries[merged.positive]].tolist())
        queries = choose_queries(ranks, direction, linked=not plan.sources)
        chosen = [query for query in queries if query.query_id in asked]  # others have no positive in the gallery
        try:
            positives = part.cut(_positives(merged, direction, chosen), direction)
            top = _find_top(ranker, direction, positives)
        except RunTooShallow as error:
            reasons.append(str(error))
            continue
        parts.append(_table(merged, direction, chosen, top, whole, categories=read_categories(tasks)))
    if not parts:
        return no_examples("; ".join(reasons))
    return pa.concat_tables(parts, promote_options="default")  # label files do not judge pairs within one modality


def _keep_queries_with_results(ranks: Mapping[str, BestRanks], plan: Plan) -> dict[str, BestRanks]:
    """The best ranks without the queries that count 0, as they retrieve nothing."""
    missing_ids = {each.key: each.missing_ids for each in plan.inputs}
    kept = {}
    for key, best in ranks.items():
        rows = ~np.isin(best.query_ids, missing_ids[key])
        kept[key] = replace(best, query_ids=best.query_ids[rows], ranks=best.ranks[rows])
    return kept


@dataclass(frozen=True, slots=True)
class ExampleQuery:
    """One query to show; a rank is None if the labels do not judge the query or its ranking holds no positive."""

    query_id: int
    group: str
    coco_rank: int | None
    best_rank: int | None


def choose_queries(ranks: Mapping[str, BestRanks], direction: str, *, linked: bool = True) -> list[ExampleQuery]:
    """The queries to show of one direction, group by group.

    ``label_dependent``: a right item is among the top ten, and the gap between the best rank under COCO and under all
    labels is largest. ``worst``: the best rank under all labels is largest. ``plain``: spread evenly over the rest.
    ``linked`` is False for reports whose positives are not COCO's original links.
    """
    queries, by_task = align(ranks, direction)
    best = np.fmin.reduce(list(by_task.values()))
    coco = by_task[COCO] if linked and COCO in by_task else np.full_like(best, np.nan)
    judged = ~np.isnan(coco) & (best <= ITEMS_SHOWN)
    # A positive that no ranking holds counts as ranked behind every gallery.
    gap = np.where(judged, np.minimum(coco, 2**40) - best, 0)
    taken = np.zeros(queries.size, dtype=bool)
    chosen = []
    for group, places in (
        ("label_dependent", _largest(gap, 0)),
        ("worst", _largest(best, 1)),
        ("plain", np.arange(queries.size)),
    ):
        free = places[~taken[places]]
        number = QUERIES_SHOWN[group]
        if group == "plain" and free.size > number:  # at even distances
            free = free[(np.arange(number) * free.size) // number + free.size // (2 * number)]
        shown = free[:number]
        taken[shown] = True
        for place in shown:
            coco_rank = _keep_finite(coco[place])
            best_rank = _keep_finite(best[place])
            chosen.append(ExampleQuery(int(queries[place]), group, coco_rank, best_rank))
    return chosen


def _keep_finite(rank: float) -> int | None:
    return int(rank) if np.isfinite(rank) else None


def _largest(values: FloatArray, above: int) -> IntArray:
    """Positions of the values above a bound, largest first; equal values keep their order."""
    order = np.argsort(-values, kind="stable")
    return order[values[order] > above]


def find_sources_read(tasks: Iterable[Task]) -> tuple[str, ...]:
    """Sources of labels that the tasks have read; showing them needs no further raw file."""
    read = {"coco"}.union(*(task.label_sources for task in tasks))
    return tuple(name for name in official_sources() if name in read)


def read_categories(tasks: Iterable[Task]) -> bool:
    """Whether one of the tasks has read the object categories of images."""
    return any(task.parts_with("matches") for task in tasks)


def _positives(merged: MergedPairs, direction: str, chosen: Sequence[ExampleQuery]) -> Judgments:
    """The positives of the chosen queries under all labels."""
    query_ids = np.array([query.query_id for query in chosen])
    pair_queries = merged.query_ids[merged.queries]
    pair_items = merged.gallery_ids[merged.items]
    kept = merged.positive & find_positions(pair_queries, query_ids)[1]
    within = direction in ("t2t", "i2i")
    return Judgments.from_pairs(
        query_ids, merged.gallery_ids, pair_queries[kept], pair_items[kept], without_self=within
    )


def _find_top(ranker: Ranked, direction: str, judgments: Judgments) -> TopK:
    depth = ranker.limit_depth(ITEMS_SHOWN, judgments, direction)
    if not depth:
        raise RunTooShallow(f"a {direction} ranking to show holds only its query")
    return ranker.find_top(judgments, direction, depth)


def _table(
    merged: MergedPairs,
    direction: str,
    chosen: Sequence[ExampleQuery],
    top: TopK,
    split: Split,
    *,
    categories: bool,
) -> pa.Table:
    """One row per query and item."""
    queries = np.repeat(top.query_ids, top.depth)
    items = top.ids.ravel()
    positive, verdicts = _verdicts_of_pairs(merged, direction, split, queries, items)
    columns = _columns_of_queries(chosen, positive.reshape(top.ids.shape)) | {
        "direction": [direction] * items.size,
        "query_id": queries,
        "rank": np.tile(np.arange(1, top.depth + 1), len(chosen)),
        "item_id": items,
        "score": pa.nulls(items.size, pa.float64()) if top.scores is None else top.scores.ravel(),
        "positive": positive,
        **verdicts,
    }
    images: list[IntArray] = []
    for name, side, ids in zip(("query", "item"), find_sides(direction), (queries, items), strict=True):
        of_images = side == "images"
        columns[f"{name}_file"] = split.files_of(ids) if of_images else pa.nulls(ids.size, pa.string())
        columns[f"{name}_texts"] = _captions(split, ids, of_images=of_images)
        images.append(ids if of_images else split.owners_of(ids))
    columns["same_categories"] = _same_categories(split, *images) if categories else pa.nulls(items.size, pa.bool_())
    of_files = [pa.field(name, pa.bool_()) for name in verdicts if name.startswith(LABELS_COLUMN)]
    schema = pa.schema([*EXAMPLES_SCHEMA, *of_files])
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def _columns_of_queries(chosen: Sequence[ExampleQuery], positive: NDArray[np.bool_]) -> dict[str, object]:
    # A source without a task, or a tie between positives of several sources, can place a positive higher than any task
    # does: a positive among the shown items decides the best rank.
    in_sight = np.where(positive.any(axis=1), positive.argmax(axis=1) + 1.0, np.inf)
    best = np.minimum([query.best_rank or np.inf for query in chosen], in_sight)
    best_ranks = [_keep_finite(rank) for rank in best]
    rows = np.repeat(np.arange(len(chosen)), positive.shape[1]).tolist()
    return {
        "group": [chosen[row].group for row in rows],
        "coco_rank": [chosen[row].coco_rank for row in rows],
        "best_rank": [best_ranks[row] for row in rows],
    }


def _verdicts_of_pairs(
    merged: MergedPairs, direction: str, split: Split, query_ids: IntArray, item_ids: IntArray
) -> tuple[NDArray[np.bool_], dict[str, pa.Array]]:
    """Whether any source calls each of P pairs positive, and the verdict of each source; null if it does not judge.

    Some sources list only positives: a pair that they do not list is false if they searched matches of the query.
    """
    size = merged.gallery_ids.size
    queries = find_positions(query_ids, merged.query_ids)[0]
    keys = queries * size + find_positions(item_ids, merged.gallery_ids)[0]
    judged_keys = merged.queries * size + merged.items  # ascending
    rows = np.minimum(np.searchsorted(judged_keys, keys), judged_keys.size - 1)
    known = judged_keys[rows] == keys
    official = official_sources()
    columns: dict[str, pa.Array] = {}
    for name in dict.fromkeys([*official, *merged.sources]):
        judged, says_yes = _find_verdicts(merged, name, rows, known)
        if name in merged.sources and official.get(name, label_file_source(name)).lists_positives:
            evidence = gather(split, direction, name, Thresholds())
            judged |= np.isin(query_ids, [] if evidence is None else evidence.searched)
        columns[name if name in official else f"{LABELS_COLUMN}{name}"] = pa.array(says_yes, mask=~judged)
    for name, ratings in (("cxc_rating", merged.ratings), ("cxc_reverse", merged.reverse)):
        columns[name] = pa.array(ratings[rows], mask=~known | np.isnan(ratings[rows]))
    return known & merged.positive[rows], columns


def _find_verdicts(
    merged: MergedPairs, source: str, rows: IntArray, known: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(P,) whether a source judged the pair, and (P,) whether it calls it positive."""
    if source not in merged.sources:
        return np.zeros_like(known), np.zeros_like(known)
    column = merged.sources.index(source)
    judged = known & merged.judged[rows, column]
    return judged, judged & merged.said_positive[rows, column]


def _captions(split: Split, ids: IntArray, *, of_images: bool) -> pa.ListArray:
    """(N,) lists of raw texts: the caption of each caption id, or all captions of each image id."""
    captions = [ids[place : place + 1] for place in range(ids.size)]
    if of_images:
        captions = [split.caption_ids[split.caption_image_ids == image] for image in ids]
    offsets = np.append(0, np.cumsum([group.size for group in captions])).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, split.texts_of(np.concatenate(captions)))


def _same_categories(split: Split, images: IntArray, others: IntArray) -> pa.BooleanArray:
    """Whether two images show the same categories (a plausible match at zeta 0); null if either shows none."""
    sets = split.categories()
    left = sets.present[find_positions(images, sets.image_ids)[0]]
    right = sets.present[find_positions(others, sets.image_ids)[0]]
    return pa.array((left == right).all(axis=1), mask=~(left.any(axis=1) & right.any(axis=1)))
