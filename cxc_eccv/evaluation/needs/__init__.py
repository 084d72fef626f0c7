"""What a metric can need: a class and a file each, with what it asks of a run, what it learns, and the values of it.

A :class:`Need` stands for what some metrics of one part of a task are computed from. A new one is a file of this room
and its line in :data:`NEEDS`, under a name that :mod:`cxc_eccv.metrics.spec` allows; ``Spec.needs`` and ``Task.offers``
speak of it by that name, and no other stage of an evaluation does.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from cxc_eccv.evaluation.needs.alterations import Alterations
from cxc_eccv.evaluation.needs.compared_scores import ComparedScores
from cxc_eccv.evaluation.needs.match_counts import MatchCounts
from cxc_eccv.evaluation.needs.need import AnyRanks, Need, QueryValues, Scored, Variant
from cxc_eccv.evaluation.needs.other_scores import OtherScores
from cxc_eccv.evaluation.needs.pair_similarities import PairSimilarities
from cxc_eccv.evaluation.needs.ranks import Ranks
from cxc_eccv.evaluation.needs.rows import StoppingReader
from cxc_eccv.evaluation.needs.top_items import TopItems

__all__ = [
    "NEEDS",
    "Alterations",
    "AnyRanks",
    "MatchCounts",
    "Need",
    "OtherScores",
    "QueryValues",
    "Ranks",
    "Scored",
    "StoppingReader",
    "TopItems",
    "Variant",
]

NEEDS: Mapping[str, type[Need[Any]]] = MappingProxyType(
    {
        "ranks": Ranks,
        "top_k": TopItems,
        "plausible_hits": MatchCounts,
        "rated_pairs": PairSimilarities,
        "altered_ranks": Alterations,
        "scores": OtherScores,
        "comparisons": ComparedScores,
    }
)
"""What ``Spec.needs`` calls them."""
