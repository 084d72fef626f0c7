"""Disagreement: pairs that some models rank near the top and others do not."""

from __future__ import annotations

import numpy as np

from cxc_eccv.studies.annotation.proposing.pool import Chosen, Pool, Strategy


def choose(pool: Pool) -> Chosen:
    """Every distinct pair of the lists; first the pair with the largest spread of reciprocal ranks."""
    pairs, places = pool.retrieved
    spread = np.zeros(pairs.size)
    for direction in np.unique(pool.entries.directions):
        of_direction = pool.entries.directions == direction
        reciprocal = np.zeros((len(pool.runs), pairs.size))
        reciprocal[pool.entries.models[of_direction], places[of_direction]] = 1 / pool.entries.ranks[of_direction]
        spread += reciprocal.std(axis=0)
    return Chosen(pairs, spread, pool.entries)


STRATEGY = Strategy(
    name="disagreement",
    choose=choose,
    depth=25,
    models=(2, None),
)
