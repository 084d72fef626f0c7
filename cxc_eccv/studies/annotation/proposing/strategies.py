"""Strategies, which choose pairs: those of the papers, by disagreement, for one number, and by chance."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.annotation.proposing.active import ACTIVE
from cxc_eccv.studies.annotation.proposing.alike import CXC
from cxc_eccv.studies.annotation.proposing.pool import Choice, Entries, Pool, Strategy
from cxc_eccv.types import DIRECTIONS, IntArray


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
    every, others = pool.pairs.caption_ids.size, np.setdiff1d(np.arange(pool.pairs.image_ids.size), images)
    of_images = images.size * every
    total = of_images + others.size * captions.size
    drawn = pool.random.choice(total, min(total, number + pool.closed.size), replace=False)
    pairs, by_image = np.empty_like(drawn), drawn < of_images
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
    rows, places = images[able], places[able]
    drawn = lists[rows, places]
    by_chance = draw_pairs(pool, n_random + drawn.size, images, images[:0])
    by_chance = by_chance[~np.isin(by_chance, drawn)][:n_random]
    pairs = pool.random.permutation(np.concatenate([drawn, by_chance]))
    of_list = np.zeros_like(drawn)
    return Choice(pairs, None, Entries(drawn, of_list, of_list + DIRECTIONS.index("i2t"), places + 1))


ENTAILMENT = Strategy(name="entailment", choose=_choose_entailment, depth=30, models=(1, 1), directions=("i2t",))
"""The multi-modal entailment paper: one of the top captions of each image, and some random pairs."""


def strategies() -> Mapping[str, Strategy]:
    """All strategies by name."""
    return {each.name: each for each in (ACTIVE, CXC, DISAGREEMENT, ECCV, ENTAILMENT, RANDOM)}
