"""Uncertainty: where a classifier of entailment is in doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.annotation.proposing.pool import Chosen, Pool, Strategy, holds

if TYPE_CHECKING:
    from cxc_eccv.studies.entailment.judge import ClassifierJudge


def choose(pool: Pool) -> Chosen:
    """The pairs of a table of probabilities, or of the models' lists; first the one nearest to the threshold."""
    if (pool.probabilities is None) == (pool.classifier is None):
        raise InvalidOption(
            "strategy uncertainty needs a file of probabilities or a classifier: give one of the two (--probabilities)"
        )
    if pool.probabilities is not None:
        pairs, found = pool.probabilities
        images, captions = pool.pairs.rows(pairs)
        asked = np.isin(images, pool.queries[0]) | np.isin(captions, pool.queries[1])
        pairs, found = pairs[asked], found[asked]
        entries = pool.entries.only(holds(np.sort(pairs), pool.entries.pairs))
        return Chosen(pairs, -np.abs(found - pool.threshold), entries)
    if not pool.runs:
        raise InvalidOption("a classifier is asked about what models retrieve: give at least one model")
    retrieved = pool.retrieved[0]
    pairs = retrieved[pool.is_open(retrieved)]
    found = cast("ClassifierJudge", pool.classifier).on(pool.library, pool.split).probabilities(*pool.pairs.ids(pairs))
    return Chosen(pairs, -np.abs(found - pool.threshold), pool.entries)


STRATEGY = Strategy(
    name="uncertainty",
    choose=choose,
    depth=5,
    models=(0, None),
    takes=("queries", "classifier", "probabilities", "threshold"),
)
