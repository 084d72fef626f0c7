"""Needs of metrics: one class for each kind of input, which reads it from a run and computes values from it.

A :class:`Need` is the input of some metrics of one part of a task. To add one, write a class here and add it to
:data:`NEEDS` under a name that :mod:`cxc_eccv.metrics.spec` lists; ``Spec.needs`` and ``Task.offers`` use this name.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from cxc_eccv.evaluation.needs.items_and_pairs import (
    JudgedItems,
    MatchCounts,
    PairSimilarities,
    TopItems,
)
from cxc_eccv.evaluation.needs.need import (
    Need,
    OtherScores,
    QueryValues,
    Ranks,
    Scored,
    Variant,
)

__all__ = [
    "NEEDS",
    "JudgedItems",
    "MatchCounts",
    "Need",
    "OtherScores",
    "QueryValues",
    "Ranks",
    "Scored",
    "TopItems",
    "Variant",
]

NEEDS: Mapping[str, type[Need[Any]]] = MappingProxyType(
    {
        "ranks": Ranks,
        "judged_ranks": JudgedItems,
        "top_k": TopItems,
        "plausible_hits": MatchCounts,
        "rated_pairs": PairSimilarities,
        "scores": OtherScores,
    }
)
"""Name in ``Spec.needs`` to class."""
