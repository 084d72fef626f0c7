"""Shown queries: which ones, what the run retrieves for them, and what every source of labels says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.builders.lookup import caption_texts, file_names, images_of
from cxc_eccv.errors import RunTooShallow
from cxc_eccv.judgments.merge import MergedPairs, merge
from cxc_eccv.ranking.rank import top_k
from cxc_eccv.report.charts import BestRanks, best_ranks
from cxc_eccv.report.examples.disagreement import COCO, aligned, directions_judged
from cxc_eccv.report.examples.pair_provenance import reads_categories, same_categories, sources_of, verdicts_of_pairs
from cxc_eccv.report.examples.table import SCHEMA, no_examples
from cxc_eccv.runs import RankingsRun, Run
from cxc_eccv.runs.run import sides_of
from cxc_eccv.sources.library import Library
from cxc_eccv.types import FloatArray, IntArray, Judgments, Report, TopK, positions_of

__all__ = [
    "GROUPS",
    "SHOWN_ITEMS",
    "Chosen",
    "chosen_queries",
    "collect_examples",
    "files_of",
    "images_behind_items",
    "texts_of",
]


def collect_examples(run: Run, report: Report, library: Library) -> pa.Table:
    """The queries that a report shows, with the top ten items of each and their provenance.

    Labels are those that the report's tasks have read. The order is exact; of items that tie, positives stand last.

    Args:
        run: what the report was computed from.
        report: with per-query values.
        library: the raw sources it was computed from.

    Returns:
        The table of :data:`cxc_eccv.report.examples.table.SCHEMA`; empty, with the reason in its metadata, where no
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
        merged = merge(library, split, direction, sources=sources)
        chosen = chosen_queries(ranks, direction)
        try:
            top = _retrieved(run, direction, _positives(merged, direction, chosen), similarity)
        except RunTooShallow as error:
            reasons.append(str(error))
            continue
        parts.append(_table(merged, direction, chosen, top, library, split, categories=reads_categories(report)))
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
    in_sight = np.where(positive.any(axis=1), positive.argmax(axis=1) + 1.0, np.inf)
    best = np.minimum([one.best_rank or np.inf for one in chosen], in_sight)
    depth = positive.shape[1]
    return {
        "group": [one.group for one in chosen for _ in range(depth)],
        "coco_rank": [one.coco_rank for one in chosen for _ in range(depth)],
        "best_rank": [_known(rank) for rank in best for _ in range(depth)],
    }


GROUPS = {"label_dependent": 6, "worst": 4, "plain": 4}
"""Group to the number of queries shown of it, per direction."""

SHOWN_ITEMS = 10

BEYOND = 2**40
"""In gaps, a positive that no ranking holds counts as this far down, beyond every gallery: the better rank decides."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """One query to show.

    Attributes:
        query_id: of the direction.
        group: one of ``GROUPS``.
        coco_rank: rank of its best positive under the original COCO links, or None where they do not judge it or
            it is not found.
        best_rank: rank of its best positive under all label tasks of the report, or None likewise.
    """

    query_id: int
    group: str
    coco_rank: int | None
    best_rank: int | None


def chosen_queries(ranks: Mapping[str, BestRanks], direction: str) -> list[Chosen]:
    """The queries shown of one direction, group by group.

    ``label_dependent``: a right item stands among the ten that are shown, and the gap between the best rank under COCO
    and the best rank under all labels is largest. ``worst``: the best rank under all labels is largest, so that no
    label excuses the model. ``plain``: spread evenly over the remaining queries, whatever their ranks.

    Args:
        ranks: ``task/direction`` to best ranks.
        direction: one that a label task ranks.

    Example:
        >>> coco, cxc = np.array([1, 70, 30, 90]), np.array([1, 2, 3, 90])
        >>> ranks = {"coco_5k/i2t": BestRanks(np.arange(4), coco), "cxc/i2t": BestRanks(np.arange(4), cxc)}
        >>> [(one.group, one.query_id, one.coco_rank, one.best_rank) for one in chosen_queries(ranks, "i2t")]
        [('label_dependent', 1, 70, 2), ('label_dependent', 2, 30, 3), ('worst', 3, 90, 90), ('plain', 0, 1, 1)]
    """
    queries, by_task = aligned(ranks, direction)
    best = np.fmin.reduce(list(by_task.values()))
    coco = by_task.get(COCO, np.full_like(best, np.nan))
    judged = ~np.isnan(coco) & (best <= SHOWN_ITEMS)
    gap = np.where(judged, np.minimum(coco, BEYOND) - best, 0)
    taken = np.zeros(queries.size, dtype=bool)
    chosen = []
    for group, places in (
        ("label_dependent", _largest(gap, 0)),
        ("worst", _largest(best, 1)),
        ("plain", np.arange(queries.size)),
    ):
        free = places[~taken[places]]
        shown = _spread(free, GROUPS[group]) if group == "plain" else free[: GROUPS[group]]
        taken[shown] = True
        chosen += [Chosen(int(queries[q]), group, _known(coco[q]), _known(best[q])) for q in shown]
    return chosen


def _known(rank: float) -> int | None:
    return int(rank) if np.isfinite(rank) else None


def _largest(values: FloatArray, above: int) -> IntArray:
    """Positions of the values above a bound, the largest first, equal ones in their order."""
    order = np.argsort(-values, kind="stable")
    return order[values[order] > above]


def _spread(places: IntArray, number: int) -> IntArray:
    """So many of the positions, at even distances."""
    if places.size <= number:
        return places
    return places[(np.arange(number) * places.size) // number + places.size // (2 * number)]


def files_of(library: Library, split: str, side: str, ids: IntArray) -> pa.Array:
    """(N,) file names of images; nulls for captions.

    Args:
        library: the raw sources.
        split: of the items.
        side: ``images`` or ``captions``.
        ids: (N,) ids of the side.
    """
    return file_names(library, split, ids) if side == "images" else pa.nulls(ids.size, pa.string())


def texts_of(library: Library, split: str, side: str, ids: IntArray) -> pa.ListArray:
    """(N,) the caption of each caption id, or all captions of each image id, as lists of raw texts.

    Example:
        >>> library = Library("sample")
        >>> image = library.images("test")["image_id"].to_numpy()[:1]
        >>> len(texts_of(library, "test", "images", image)[0])
        5
    """
    if side == "captions":
        return pa.ListArray.from_arrays(np.arange(ids.size + 1, dtype=np.int32), caption_texts(library, split, ids))
    content = library.karpathy(split)
    rows = [np.flatnonzero(content.caption_image_ids == image) for image in ids]
    offsets = np.append(0, np.cumsum([own.size for own in rows])).astype(np.int32)
    captions = content.caption_ids[np.concatenate(rows)]
    return pa.ListArray.from_arrays(offsets, caption_texts(library, split, captions))


def images_behind_items(library: Library, split: str, side: str, ids: IntArray) -> IntArray:
    """(N,) image ids: the images themselves, or those that captions were written for."""
    return ids if side == "images" else images_of(library, split, ids)
