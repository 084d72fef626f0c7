"""What a metric can need: a class each, with what it asks of a run, what it learns, and the values of it.

A :class:`Need` stands for what some metrics of one part of a task are computed from. A new one is a class of this room
and its line in :data:`NEEDS`, under a name that :mod:`cxc_eccv.metrics.spec` allows; ``Spec.needs`` and ``Task.offers``
speak of it by that name, and no other stage of an evaluation does.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from cxc_eccv.evaluation.needs.need import AnyRanks, Need, OtherScores, QueryValues, Scored, Variant
from cxc_eccv.evaluation.needs.pairs import ComparedScores, PairSimilarities
from cxc_eccv.evaluation.needs.ranks import Alterations, Ranks
from cxc_eccv.evaluation.needs.rows import JudgedItems, MatchCounts, TopItems

__all__ = [
    "NEEDS",
    "Alterations",
    "AnyRanks",
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
        "altered_ranks": Alterations,
        "scores": OtherScores,
        "comparisons": ComparedScores,
    }
)
"""What ``Spec.needs`` calls them."""
