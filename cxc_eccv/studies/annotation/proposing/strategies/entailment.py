"""The multi-modal entailment paper: one of the top captions of each image, and some random pairs."""

from __future__ import annotations

import numpy as np

from cxc_eccv.studies.annotation.proposing.pool import Chosen, Entries, Pool, Strategy
from cxc_eccv.studies.annotation.proposing.strategies.random import draw_pairs
from cxc_eccv.types import DIRECTIONS

RANDOM_SHARE = 0.1
"""Share of random pairs. The paper only says "a small part"."""


def choose(pool: Pool) -> Chosen:
    """A random open pair of each image's top 30 captions, in random order of the images, and random pairs."""
    lists = next(iter(pool.lists.values()))["i2t"][:, : pool.depth]
    images = pool.random.permutation(pool.queries[0])
    chances = np.where(pool.is_open(lists[images]), pool.random.random((images.size, lists.shape[1])), -1.0)
    places = chances.argmax(axis=1)
    able = np.flatnonzero(chances.max(axis=1) >= 0)
    most = round(able.size / (1 - RANDOM_SHARE))
    total = most if pool.budget is None else min(pool.budget, most)
    n_random = round(total * RANDOM_SHARE)
    able = able[: total - n_random]
    rows, places = images[able], places[able]
    drawn = lists[rows, places]
    by_chance = draw_pairs(pool, n_random + drawn.size, images, images[:0])
    by_chance = by_chance[~np.isin(by_chance, drawn)][:n_random]
    pairs = pool.random.permutation(np.concatenate([drawn, by_chance]))
    of_list = np.zeros_like(drawn)
    return Chosen(pairs, None, Entries(drawn, of_list, of_list + DIRECTIONS.index("i2t"), places + 1))


STRATEGY = Strategy(
    name="entailment",
    choose=choose,
    depth=30,
    models=(1, 1),
    directions=("i2t",),
)
