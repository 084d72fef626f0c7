"""Uncertainty: where a classifier of entailment is in doubt."""

from __future__ import annotations

import numpy as np

from cxc_eccv.annotation.proposing.pool import Pool, holds
from cxc_eccv.annotation.proposing.strategies.strategy import Chosen, Strategy
from cxc_eccv.errors import InvalidOption

__all__ = ["STRATEGY"]


def choose(pool: Pool) -> Chosen:
    """The pairs of a table of probabilities, or of the models' lists; first the one nearest to the threshold.

    The priority is -|probability - threshold|. A classifier is asked about open pairs alone.
    """
    if pool.probabilities is not None:
        pairs, found = pool.probabilities
    elif pool.classifier is not None:
        retrieved = pool.retrieved[0]
        pairs = retrieved[pool.is_open(retrieved)]
        found = pool.classifier.on(pool.library, pool.split).probabilities(*pool.pairs.ids(pairs))
    else:
        raise InvalidOption(
            "strategy uncertainty takes probabilities or a classifier: give one of the two (--probabilities, "
            "--classifier)"
        )
    asked_of = pool.entries.only(holds(np.sort(pairs), pool.entries.pairs)) if pool.classifier is None else pool.entries
    return Chosen(pairs, -np.abs(found - pool.threshold), asked_of)


STRATEGY = Strategy(
    name="uncertainty",
    title="where a classifier is in doubt",
    rule="the pairs of a table of probabilities, or of the models' top 5; first the pair whose probability is nearest "
    "to the threshold",
    choose=choose,
    depth=5,
    models=(0, None),
    takes=("queries", "classifier", "probabilities", "threshold"),
)
