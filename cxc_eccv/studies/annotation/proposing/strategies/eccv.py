"""ECCV Caption: the pairs that any of several models retrieves."""

from __future__ import annotations

import numpy as np

from cxc_eccv.studies.annotation.proposing.pool import Chosen, Pool, Strategy


def choose(pool: Pool) -> Chosen:
    """Every distinct pair of the lists; first the pair with the largest sum of reciprocal ranks."""
    pairs, places = pool.retrieved
    summed = np.bincount(places, 1 / pool.entries.ranks, minlength=pairs.size)
    return Chosen(pairs, np.asarray(summed, dtype=np.float64), pool.entries)


STRATEGY = Strategy(
    name="eccv",
    choose=choose,
    depth=5,
)
