"""Inputs of metrics: one class for each kind of input that a run is read for.

A :class:`MetricInput` is what some metrics of one part of a task are computed from. It makes a :class:`PassRequest` of
one pass over a run, and then a :class:`PassResult`, from which values, bounds and unjudged pairs follow. None of them
changes. To add a kind of metric, declare its class in :mod:`cxc_eccv.metrics.kinds`, write its input and its result
here, and add the input to :data:`METRIC_INPUTS`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from cxc_eccv.evaluation.metric_inputs.metric_input import (
    MetricInput,
    MetricValues,
    PassRequest,
    PassResult,
    QueryValues,
    ScoredMetric,
    UndefinedMetric,
)
from cxc_eccv.evaluation.metric_inputs.rank_input import RankInput, RankResult
from cxc_eccv.evaluation.metric_inputs.row_inputs import JudgedRankInput, MatchInput, SimilarityInput, TopInput
from cxc_eccv.metrics.kinds import JudgedMetric, PlausibleMetric, RankMetric, RatedMetric, Spec, TopMetric

__all__ = [
    "METRIC_INPUTS",
    "JudgedRankInput",
    "MatchInput",
    "MetricInput",
    "MetricValues",
    "PassRequest",
    "PassResult",
    "QueryValues",
    "RankInput",
    "RankResult",
    "ScoredMetric",
    "SimilarityInput",
    "TopInput",
    "UndefinedMetric",
]

METRIC_INPUTS: Mapping[type[Spec], type[MetricInput[Any, Any]]] = MappingProxyType(
    {
        RankMetric: RankInput,
        JudgedMetric: JudgedRankInput,
        TopMetric: TopInput,
        PlausibleMetric: MatchInput,
        RatedMetric: SimilarityInput,
    }
)
"""Kind of metric to its input."""
