"""Strategy ``active``: pairs drawn by chance for one number, whose interval their labels narrow most."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation import Request
from cxc_eccv.evaluation.calls import measure_request, split_key
from cxc_eccv.evaluation.policies import PairValues
from cxc_eccv.statistics import choose_probabilities, draw
from cxc_eccv.statistics.prediction_powered import FEWEST_UNITS
from cxc_eccv.studies.annotation.proposing.pool import Choice, Pool, Strategy
from cxc_eccv.types import FloatArray, IntArray


def _choose_active(pool: Pool) -> Choice:
    """All pairs of the drawn units of a number; the priority of a pair is the probability with which it was drawn."""
    options, metric = pool.options, pool.options.metric or ""
    if options.budget is None or metric.count("/") != 2:
        raise InvalidOption(
            "strategy active needs a number and a budget, such as --for coco_5k/t2i/recall_at_1 --budget 500"
        )
    (run,) = pool.runs.values()
    request = _make_request(pool, metric)
    variant, measured = measure_request(run, request, pool.split.library)[0]
    if variant.label != request.metrics:
        raise InvalidOption(f"{metric} is not one number: name its K too, such as {variant.label}")
    judge = request.on(pool.split.library, measured.need.task.collection)
    units = measured.judged_by(judge.unjudged, judge.probabilities_of).unjudged(variant)
    costs = units.costs
    rows = np.flatnonzero(costs)
    if not rows.size:
        raise InvalidOption(f"{metric}: all pairs that can change it are labelled; there is nothing to ask")
    chances = np.zeros(costs.size)
    chances[rows] = _share_budget(units.deviations[rows], costs[rows], options.budget, metric)
    drawn = rows[draw(chances[rows], pool.random, costs=costs[rows])]
    asked = np.isin(units.owners, drawn)
    pairs = pool.pairs.of_ids(units.images[asked], units.captions[asked], metric)
    entries = pool.entries.only(np.isin(pool.entries.pairs, pairs))
    of_pairs = chances[units.owners[asked]]
    facts = {
        "frame": units.fingerprint,
        "open_pairs": int(costs.sum()),
        "units": rows.size,
        "sum_of_probabilities": math.fsum(of_pairs),
    }
    return Choice(pairs, of_pairs, entries, facts)


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


def _make_request(pool: Pool, key: str) -> Request:
    """What the number asks for, with the judge of the pool."""
    probabilities, classifier = pool.probabilities, pool.options.classifier
    if (probabilities is None) == (classifier is None):
        raise InvalidOption(
            "strategy active needs a judge: give a file of probabilities, or a classifier (--probabilities)"
        )
    part, metric = split_key(key)
    request = Request(tasks=part, metrics=metric, split=pool.split.name, sources=pool.options.sources, bounds=True)
    if classifier is not None:
        return replace(request, unjudged=classifier)
    return replace(request, probabilities=PairValues(pool.options.probabilities, "probability", "probabilities"))


ACTIVE = Strategy(
    name="active",
    choose=_choose_active,
    models=(1, 1),
    directions=(),
    takes=("classifier", "probabilities", "metric"),
    draws=True,
)
"""Pairs drawn by chance, the more likely the more their labels can narrow the interval of one number."""
