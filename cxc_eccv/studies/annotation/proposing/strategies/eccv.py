"""ECCV Caption: what any of several models retrieves."""

from __future__ import annotations

import numpy as np

from cxc_eccv.studies.annotation.proposing.pool import Chosen, Pool, Strategy


def choose(pool: Pool) -> Chosen:
    """Every pair of the lists once; first the one whose reciprocal ranks sum up to most."""
    pairs, places = pool.retrieved
    summed = np.bincount(places, 1 / pool.entries.ranks, minlength=pairs.size)
    return Chosen(pairs, np.asarray(summed, dtype=np.float64), pool.entries)


STRATEGY = Strategy(
    name="eccv",
    choose=choose,
    depth=5,
)
