"""Needs of metrics: one class for each kind of input that a run is read for.

A :class:`Need` is the input of some metrics of one part of a task; a :class:`Measured` is what a pass over a run found,
from which values, bounds and unjudged pairs follow. Neither changes. To add a kind of metric, declare its class in
:mod:`cxc_eccv.metrics.kinds`, write both here, and add the need to :data:`NEEDS`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from cxc_eccv.evaluation.needs.need import (
    Measured,
    MeasuredRanks,
    Need,
    QueryValues,
    Ranks,
    Reading,
    Scored,
    Undefined,
    Values,
)
from cxc_eccv.evaluation.needs.row_inputs import JudgedItems, MatchCounts, PairSimilarities, TopItems
from cxc_eccv.metrics.kinds import JudgedMetric, PlausibleMetric, RankMetric, RatedMetric, Spec, TopMetric

__all__ = [
    "NEEDS",
    "JudgedItems",
    "MatchCounts",
    "Measured",
    "MeasuredRanks",
    "Need",
    "PairSimilarities",
    "QueryValues",
    "Ranks",
    "Reading",
    "Scored",
    "TopItems",
    "Undefined",
    "Values",
]

NEEDS: Mapping[type[Spec], type[Need[Any, Any]]] = MappingProxyType(
    {
        RankMetric: Ranks,
        JudgedMetric: JudgedItems,
        TopMetric: TopItems,
        PlausibleMetric: MatchCounts,
        RatedMetric: PairSimilarities,
    }
)
"""Kind of metric to what it needs of a run."""
