"""Disagreement: what some models have near the top and others do not."""

from __future__ import annotations

import numpy as np

from cxc_eccv.studies.annotation.proposing.pool import Chosen, Pool, Strategy


def choose(pool: Pool) -> Chosen:
    """Every pair of the lists once; first the one of which the models say the most different things."""
    pairs, places = pool.retrieved
    spread = np.zeros(pairs.size)
    for direction in np.unique(pool.entries.directions):
        own = pool.entries.directions == direction
        said = np.zeros((len(pool.runs), pairs.size))
        said[pool.entries.models[own], places[own]] = 1 / pool.entries.ranks[own]
        spread += said.std(axis=0)
    return Chosen(pairs, spread, pool.entries)


STRATEGY = Strategy(
    name="disagreement",
    choose=choose,
    depth=25,
    models=(2, None),
)
