"""Random: pairs by chance, which every other strategy must beat."""

from __future__ import annotations

import numpy as np

from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.annotation.proposing.pool import Chosen, Pool, Strategy
from cxc_eccv.types import IntArray


def choose(pool: Pool) -> Chosen:
    """Open pairs of which one side is a query, each with the same chance."""
    if pool.budget is None:
        raise InvalidOption("random pairs have no end: say how many with a budget (--budget)")
    return Chosen(draw_pairs(pool, pool.budget, *pool.queries), None)


def draw_pairs(pool: Pool, number: int, images: IntArray, captions: IntArray) -> IntArray:
    """Open pairs of any of these images or of these captions, all with the same chance, in the order of the draw."""
    every, others = pool.pairs.caption_ids.size, np.setdiff1d(np.arange(pool.pairs.image_ids.size), images)
    of_images = images.size * every
    total = of_images + others.size * captions.size
    drawn = pool.random.choice(total, min(total, number + pool.closed.size), replace=False)
    pairs, own = np.empty_like(drawn), drawn < of_images
    rest = drawn[~own] - of_images
    pairs[own] = pool.pairs.number(images[drawn[own] // every], drawn[own] % every)
    pairs[~own] = pool.pairs.number(others[rest // captions.size], captions[rest % captions.size])
    return pairs[pool.is_open(pairs)][:number]


STRATEGY = Strategy(
    name="random",
    choose=choose,
    models=(0, None),
    directions=(),
)
