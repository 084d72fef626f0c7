"""Needs of metrics: one class for each kind of input that a run is read for.

A :class:`Need` is the input of some metrics of one part of a task; a :class:`Measured` is what a pass over a run found,
from which values, bounds and unjudged pairs follow. Neither changes. To add a kind, write both here and add the need to
:data:`NEEDS` under a name that :mod:`cxc_eccv.metrics.spec` lists; ``Spec.needs`` and ``Task.offers`` use this name.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from cxc_eccv.evaluation.needs.items_and_pairs import JudgedItems, MatchCounts, PairSimilarities, TopItems
from cxc_eccv.evaluation.needs.need import (
    Measured,
    Need,
    Outputs,
    QueryValues,
    Reading,
    Scored,
    Undefined,
    Values,
    Variant,
)
from cxc_eccv.evaluation.needs.ranks import MeasuredRanks, Ranks

__all__ = [
    "NEEDS",
    "JudgedItems",
    "MatchCounts",
    "Measured",
    "MeasuredRanks",
    "Need",
    "Outputs",
    "PairSimilarities",
    "QueryValues",
    "Ranks",
    "Reading",
    "Scored",
    "TopItems",
    "Undefined",
    "Values",
    "Variant",
]

NEEDS: Mapping[str, type[Need[Any]]] = MappingProxyType(
    {
        "ranks": Ranks,
        "judged_ranks": JudgedItems,
        "top_k": TopItems,
        "plausible_hits": MatchCounts,
        "rated_pairs": PairSimilarities,
    }
)
"""Name in ``Spec.needs`` to class."""
