"""Bounds: pairs whose label would change a metric most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation.bounds import Retrieved, TopOfKnown
from cxc_eccv.judgments.qrels import merged_qrels
from cxc_eccv.ranking.lists import FAR, GivenRanks, needed_depth
from cxc_eccv.ranking.rank import ranks_of_run
from cxc_eccv.registry import metric_labelled
from cxc_eccv.runs import Run
from cxc_eccv.studies.annotation.proposing.pool import Chosen, Pool, Strategy, find_similarity
from cxc_eccv.types import CROSS_MODAL, FloatArray, IntArray, Judgments, PositiveRanks, positions_of

Score = Callable[[PositiveRanks], FloatArray]


def choose(pool: Pool) -> Chosen:
    """Every open pair of the lists; first the pair whose label changes the metric most."""
    score = _find_metric(pool.metric)
    retrieved = pool.retrieved[0]
    pairs = retrieved[pool.is_open(retrieved)]
    widths = np.zeros(pairs.size)
    for direction, queries in zip(CROSS_MODAL, pool.queries, strict=True):
        judged = _judge(pool, direction, queries)
        if judged is not None:
            for run in pool.runs.values():
                widths += _measure_widths(pool, run, direction, judged, score, pairs)
    return Chosen(pairs, widths, pool.entries)


def _find_metric(label: str) -> Score:
    spec, parameters = metric_labelled(label)
    score = partial(spec.function, **parameters)
    if spec.needs != "ranks" or spec.aggregate != "mean" or needed_depth(score, np.array([1]))[0] == FAR:
        raise InvalidOption(
            f"metric {label} does not suit the strategy bounds: choose a mean over queries that reads only the top of "
            "the lists, such as recall_at_1, mrr_at_10, r_precision or map_at_r"
        )
    return score


def _judge(pool: Pool, direction: str, queries: IntArray) -> Judgments | None:
    """The known positives of the queries of a direction; None if there are none."""
    judged = merged_qrels(pool.library, pool.split, direction, sources=pool.sources)
    ids = (pool.pairs.image_ids, pool.pairs.caption_ids)[CROSS_MODAL.index(direction)]
    asked = np.isin(judged.query_ids, ids[queries])
    return judged.without(judged.query_ids[~asked], np.empty(0, dtype=np.int64)) if asked.any() else None


def _measure_widths(
    pool: Pool, run: Run, direction: str, judged: Judgments, score: Score, pairs: IntArray
) -> FloatArray:
    """(P,) the change of one model's metric in one direction by a label of each pair."""
    depth = int(needed_depth(score, np.unique(judged.n_positives) + 1).max())
    images, captions = pool.pairs.ids(pool.closed)
    top = TopOfKnown(judged, (images, captions) if direction == "i2t" else (captions, images), depth)
    similarity = find_similarity(run)
    ranks = ranks_of_run(run, {"": (direction, judged)}, readers={direction: top.readers}, similarity=similarity)[""]
    retrieved = top.retrieved(ranks.ranks if isinstance(ranks, GivenRanks) else ranks)
    near, far = _move(retrieved, score)
    images, captions = pool.pairs.ids(pairs)
    queries, items = (images, captions) if direction == "i2t" else (captions, images)
    rows, asked = positions_of(queries, judged.query_ids)
    size = judged.gallery_ids.size
    listed = np.arange(len(near))[:, None] * size + positions_of(retrieved.ids, judged.gallery_ids)[0]
    order = np.argsort(listed, axis=None)
    wanted = rows * size + positions_of(items, judged.gallery_ids)[0]
    places = order[np.minimum(np.searchsorted(listed.ravel()[order], wanted), order.size - 1)]
    moved = np.where(listed.ravel()[places] == wanted, near.ravel()[places], far[rows])
    return np.asarray(np.where(asked, moved, 0.0) / len(near))


def _move(retrieved: Retrieved, score: Score) -> tuple[FloatArray, FloatArray]:
    """Changes of each query's value by a label: (Q, D) for each unjudged item of the top, (Q,) for one below it."""
    ranks, base, near = retrieved.ranks, score(retrieved.ranks), []
    for place, flags in enumerate(retrieved.unjudged.T):
        label = np.zeros_like(retrieved.unjudged)
        label[:, place] = flags
        near.append(np.abs(score(retrieved.relabel(label)) - base))
    below = score(replace(ranks, n_positives=ranks.n_positives + 1))
    return np.stack(near, axis=1), np.abs(below - base)


STRATEGY = Strategy(
    name="bounds",
    choose=choose,
    depth=25,
    takes=("queries", "metric"),
)
