"""Random: random pairs, the baseline of all other strategies."""

from __future__ import annotations

import numpy as np

from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.annotation.proposing.pool import Chosen, Pool, Strategy
from cxc_eccv.types import IntArray


def choose(pool: Pool) -> Chosen:
    """Random open pairs with a query on one side, all equally likely."""
    if pool.budget is None:
        raise InvalidOption("strategy random needs a budget (--budget)")
    return Chosen(draw_pairs(pool, pool.budget, *pool.queries), None)


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


STRATEGY = Strategy(
    name="random",
    choose=choose,
    models=(0, None),
    directions=(),
)
