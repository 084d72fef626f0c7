"""Uncertainty: pairs that a classifier of entailment is unsure about."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.annotation.proposing.pool import Chosen, Pool, Strategy, holds

if TYPE_CHECKING:
    from cxc_eccv.studies.entailment.judge import ClassifierJudge


def choose(pool: Pool) -> Chosen:
    """The pairs of a table of probabilities, or of the models' lists; first the pair nearest to the threshold."""
    if (pool.probabilities is None) == (pool.classifier is None):
        raise InvalidOption(
            "strategy uncertainty needs a classifier or a file of probabilities: give one of them (--probabilities)"
        )
    if pool.probabilities is not None:
        pairs, probabilities = pool.probabilities
        images, captions = pool.pairs.rows(pairs)
        asked = np.isin(images, pool.queries[0]) | np.isin(captions, pool.queries[1])
        pairs, probabilities = pairs[asked], probabilities[asked]
        entries = pool.entries.only(holds(np.sort(pairs), pool.entries.pairs))
        return Chosen(pairs, -np.abs(probabilities - pool.threshold), entries)
    if not pool.runs:
        raise InvalidOption("a classifier judges the pairs that models retrieve: give at least one model")
    retrieved = pool.retrieved[0]
    pairs = retrieved[pool.is_open(retrieved)]
    judge = cast("ClassifierJudge", pool.classifier).on(pool.library, pool.split)
    return Chosen(pairs, -np.abs(judge.probabilities(*pool.pairs.ids(pairs)) - pool.threshold), pool.entries)


STRATEGY = Strategy(
    name="uncertainty",
    choose=choose,
    depth=5,
    models=(0, None),
    takes=("queries", "classifier", "probabilities", "threshold"),
)
