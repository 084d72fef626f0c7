"""Strategies, which choose pairs: those of the papers, by disagreement, by chance, and for one number (``active``)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation import Request
from cxc_eccv.evaluation.calls import measure_request, split_key
from cxc_eccv.statistics import choose_probabilities, draw
from cxc_eccv.statistics.prediction_powered import FEWEST_UNITS
from cxc_eccv.studies.annotation.proposing.alike import CXC
from cxc_eccv.studies.annotation.proposing.pool import Choice, Entries, Pool, Strategy
from cxc_eccv.types import DIRECTIONS, FloatArray, IntArray
from cxc_eccv.unjudged.judges import PairValues


def _choose_eccv(pool: Pool) -> Choice:
    """Every distinct pair of the lists; first the pair with the largest sum of reciprocal ranks."""
    pairs, places = pool.retrieved
    summed = np.bincount(places, 1 / pool.entries.ranks, minlength=pairs.size)
    return Choice(pairs, np.asarray(summed, dtype=np.float64), pool.entries)


ECCV = Strategy(name="eccv", choose=_choose_eccv, depth=5)
"""ECCV Caption: the pairs that any of several models retrieves."""


def _choose_disagreement(pool: Pool) -> Choice:
    """Every distinct pair of the lists; first the pair with the largest spread of reciprocal ranks."""
    pairs, places = pool.retrieved
    spread = np.zeros(pairs.size)
    for direction in np.unique(pool.entries.directions):
        of_direction = pool.entries.directions == direction
        reciprocal = np.zeros((len(pool.runs), pairs.size))
        reciprocal[pool.entries.models[of_direction], places[of_direction]] = 1 / pool.entries.ranks[of_direction]
        spread += reciprocal.std(axis=0)
    return Choice(pairs, spread, pool.entries)


DISAGREEMENT = Strategy(name="disagreement", choose=_choose_disagreement, depth=25, models=(2, None))
"""Pairs that some models rank near the top and others do not."""


def _choose_random(pool: Pool) -> Choice:
    """Random open pairs with a query on one side, all equally likely."""
    if pool.options.budget is None:
        raise InvalidOption("strategy random needs a budget (--budget)")
    return Choice(draw_pairs(pool, pool.options.budget, *pool.queries), None)


def draw_pairs(pool: Pool, number: int, images: IntArray, captions: IntArray) -> IntArray:
    """Random open pairs with any of these images or captions, all equally likely, in the order of the draw."""
    every = pool.pairs.caption_ids.size
    others = np.setdiff1d(np.arange(pool.pairs.image_ids.size), images)
    of_images = images.size * every
    total = of_images + others.size * captions.size
    drawn = pool.random.choice(total, min(total, number + pool.closed.size), replace=False)
    pairs = np.empty_like(drawn)
    by_image = drawn < of_images
    rest = drawn[~by_image] - of_images
    pairs[by_image] = pool.pairs.number(images[drawn[by_image] // every], drawn[by_image] % every)
    pairs[~by_image] = pool.pairs.number(others[rest // captions.size], captions[rest % captions.size])
    return pairs[pool.is_open(pairs)][:number]


RANDOM = Strategy(name="random", choose=_choose_random, models=(0, None), directions=())
"""Random pairs, the baseline of all other strategies."""


RANDOM_SHARE = 0.1
"""Share of random pairs. The paper only says "a small part"."""


def _choose_entailment(pool: Pool) -> Choice:
    """A random open pair of each image's top 30 captions, in random order of the images, and random pairs."""
    lists = next(iter(pool.lists.values()))["i2t"][:, : pool.depth]
    images = pool.random.permutation(pool.queries[0])
    chances = np.where(pool.is_open(lists[images]), pool.random.random((images.size, lists.shape[1])), -1.0)
    places = chances.argmax(axis=1)
    able = np.flatnonzero(chances.max(axis=1) >= 0)
    most = round(able.size / (1 - RANDOM_SHARE))
    total = most if pool.options.budget is None else min(pool.options.budget, most)
    n_random = round(total * RANDOM_SHARE)
    able = able[: total - n_random]
    rows = images[able]
    places = places[able]
    drawn = lists[rows, places]
    by_chance = draw_pairs(pool, n_random + drawn.size, images, images[:0])
    by_chance = by_chance[~np.isin(by_chance, drawn)][:n_random]
    pairs = pool.random.permutation(np.concatenate([drawn, by_chance]))
    of_list = np.zeros_like(drawn)
    return Choice(pairs, None, Entries(drawn, of_list, of_list + DIRECTIONS.index("i2t"), places + 1))


ENTAILMENT = Strategy(name="entailment", choose=_choose_entailment, depth=30, models=(1, 1), directions=("i2t",))
"""The multi-modal entailment paper: one of the top captions of each image, and some random pairs."""


def _choose_active(pool: Pool) -> Choice:
    """All pairs of the drawn units of a number; the priority of a pair is the probability with which it was drawn."""
    options = pool.options
    number = pool.options.number or ""
    if options.budget is None or number.count("/") != 2:
        raise InvalidOption(
            "strategy active needs a number and a budget, such as --number coco_5k/t2i/recall_at_1 --budget 500"
        )
    (run,) = pool.runs.values()
    request = _make_request(pool, number)
    variant, measured = measure_request(run, request, pool.split.library)[0]
    if variant.label != request.metrics:
        raise InvalidOption(f"{number} is not one number: name its K too, such as {variant.label}")
    judge = request.with_judge_for(pool.split.library, measured.metric_input.task.collection)
    units = measured.with_judge(judge.policy, judge.probabilities_of).find_unjudged(variant)
    costs = units.costs
    rows = np.flatnonzero(costs)
    if not rows.size:
        raise InvalidOption(f"{number}: all pairs that can change it are labelled; there is nothing to ask")
    chances = np.zeros(costs.size)
    chances[rows] = _share_budget(units.deviations[rows], costs[rows], options.budget, number)
    drawn = rows[draw(chances[rows], pool.random, costs=costs[rows])]
    asked = np.isin(units.owners, drawn)
    pairs = pool.pairs.of_ids(units.images[asked], units.captions[asked], number)
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
            f"budget {budget} is too small: an interval needs {FEWEST_UNITS} units of {key}, each of which takes "
            f"{costs.mean():.1f} answers on average; give at least {math.ceil(needed) + dearest}"
        )
    chances = choose_probabilities(deviations, left, costs=costs)
    if chances[chances < 1].sum() < FEWEST_UNITS:  # nearly all are certain; the others would be too few for an interval
        return choose_probabilities(deviations, left, costs=costs, uniform=1)
    return chances


def _make_request(pool: Pool, key: str) -> Request:
    """What the number asks for, with the judge of the pool."""
    judge = pool.options.judge
    if judge is None:
        raise InvalidOption("strategy active needs a judge: give a file of probabilities, or a classifier (--judge)")
    if pool.probabilities is not None:
        judge = PairValues(pool.options.judge, "probability", "probabilities")
    part, metric = split_key(key)
    return Request(
        tasks=part, metrics=metric, split=pool.split.name, sources=pool.options.sources, bounds=True, judge=judge
    )


ACTIVE = Strategy(
    name="active",
    choose=_choose_active,
    models=(1, 1),
    directions=(),
    takes=("judge", "number"),
    draws=True,
)
"""Pairs drawn by chance, the more likely the more their labels can narrow the interval of one number."""


def strategies() -> Mapping[str, Strategy]:
    """All strategies by name."""
    return {each.name: each for each in (ACTIVE, CXC, DISAGREEMENT, ECCV, ENTAILMENT, RANDOM)}
