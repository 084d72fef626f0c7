"""Strategies that ask for the sake of a number: the labels that could move it most, or narrow its interval most."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation.bounds import Retrieved, TopOfKnown
from cxc_eccv.evaluation.calls import open_units
from cxc_eccv.evaluation.settings import PairValues, Settings
from cxc_eccv.judgments.qrels import merged_qrels
from cxc_eccv.ranking.lists import FAR, GivenRanks, needed_depth
from cxc_eccv.ranking.rank import ranks_of_run
from cxc_eccv.registry import metric_labelled
from cxc_eccv.runs import Run
from cxc_eccv.statistics import choose_probabilities, draw
from cxc_eccv.statistics.prediction_powered import FEWEST_UNITS
from cxc_eccv.studies.annotation.proposing.pool import Chosen, Pool, Strategy, find_similarity
from cxc_eccv.types import CROSS_MODAL, FloatArray, IntArray, Judgments, PositiveRanks, positions_of

Score = Callable[[PositiveRanks], FloatArray]


def _choose_bounds(pool: Pool) -> Chosen:
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


BOUNDS = Strategy(name="bounds", choose=_choose_bounds, depth=25, takes=("queries", "metric"))
"""Pairs whose label would change a metric most."""


def _choose_active(pool: Pool) -> Chosen:
    """All pairs of the drawn units of a number; the priority of a pair is the probability with which it was drawn."""
    if pool.budget is None or pool.metric.count("/") != 2:
        raise InvalidOption(
            "strategy active needs a number and a budget, such as --for coco_5k/t2i/recall_at_1 --budget 500"
        )
    (run,) = pool.runs.values()
    units = open_units(run, pool.metric, pool.library, pool.split, _settings(pool), pool.given_sources)
    costs = units.costs
    rows = np.flatnonzero(costs)
    if not rows.size:
        raise InvalidOption(f"{pool.metric}: all pairs that can change it are labelled; there is nothing to ask")
    chances = np.zeros(costs.size)
    chances[rows] = _share_budget(units.deviations[rows], costs[rows], pool.budget, pool.metric)
    drawn = rows[draw(chances[rows], pool.random, costs=costs[rows])]
    asked = np.isin(units.owners, drawn)
    pairs = pool.pairs.of_ids(units.images[asked], units.captions[asked], pool.metric)
    entries = pool.entries.only(np.isin(pool.entries.pairs, pairs))
    facts = {"frame": units.fingerprint, "open_pairs": int(costs.sum()), "units": rows.size}
    return Chosen(pairs, chances[units.owners[asked]], entries, facts)


def _share_budget(deviations: FloatArray, costs: IntArray, budget: int, key: str) -> FloatArray:
    """(U,) probabilities with which units are drawn, so that their pairs are at most the budget."""
    if costs.sum() <= budget:
        return np.ones(costs.size)
    dearest = int(costs.max())  # a sample of units of unequal cost may cost this much more than on average
    left = budget if dearest == 1 else budget - dearest
    needed = FEWEST_UNITS * float(costs.mean())
    if left < needed:
        raise InvalidOption(
            f"budget {budget}: a unit of {key} takes {costs.mean():.1f} answers on average, and an interval "
            f"{FEWEST_UNITS} units; give a budget of at least {math.ceil(needed) + dearest}"
        )
    chances = choose_probabilities(deviations, left, costs=costs)
    if chances[chances < 1].sum() < FEWEST_UNITS:  # nearly all are certain; the others would be too few for an interval
        return choose_probabilities(deviations, left, costs=costs, uniform=1)
    return chances


def _settings(pool: Pool) -> Settings:
    """Settings with the judge of the pool."""
    if (pool.probabilities is None) == (pool.classifier is None):
        raise InvalidOption(
            "strategy active needs a judge: give a file of probabilities, or a classifier (--probabilities)"
        )
    if pool.probabilities is None:
        return Settings(bounds=True, unjudged=pool.classifier)
    pairs, values = pool.probabilities
    images, captions = pool.pairs.ids(pairs)
    table = pa.table({"image_id": images, "caption_id": captions, "probability": values})
    return Settings(bounds=True, probabilities=PairValues(table, "probability", "probabilities"))


ACTIVE = Strategy(
    name="active",
    choose=_choose_active,
    models=(1, 1),
    directions=(),
    takes=("classifier", "probabilities", "metric"),
    draws=True,
)
"""Pairs drawn by chance, the more likely the more their labels can narrow the interval of one number."""
