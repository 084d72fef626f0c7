"""The values of a metric's queries, with what a report must say of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cxc_eccv.errors import DataError
from cxc_eccv.evaluation.plan import Variant
from cxc_eccv.evaluation.top_items import judged_share, queries_with_judged, tied_queries
from cxc_eccv.evaluation.unjudged import Unjudged, policy_name, policy_of
from cxc_eccv.types import FloatArray, IntArray, Judgments, PositiveRanks, TopK

__all__ = ["Values", "values_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """One metric's value for each query.

    Attributes:
        query_ids: (Q,) int64.
        values: (Q,) float64.
        best_ranks: (Q,) rank of the best positive, 0 where none was found; None where no positives are ranked.
        ties: queries that the tie rule touched.
        coverage: share of judged among the needed pairs, or None where every pair is judged.
        parameters: what the metric was called with.
    """

    query_ids: IntArray
    values: FloatArray
    best_ranks: IntArray | None
    ties: int
    coverage: float | None
    parameters: dict[str, Any]


def values_of(variant: Variant, inputs: tuple[Any, ...], unjudged: Unjudged) -> Values:
    """Call a metric.

    Args:
        variant: the metric.
        inputs: its leading arguments.
        unjudged: policy for retrieved pairs without a label, where the metric has one.

    Raises:
        DataError: no query at all has a labelled pair, with ``leave_out``.

    Example:
        >>> from cxc_eccv.metrics.mrr import SPEC
        >>> values_of(Variant(SPEC, {}), (PositiveRanks.of([[2]]),), "not_entailed").values.tolist()
        [0.5]
    """
    if variant.spec.needs == "top_k":
        return _of_top_items(variant, inputs[0], inputs[1], unjudged)
    measured = inputs[0]
    values = variant.spec.function(measured, **variant.parameters)
    best = None
    if isinstance(measured, PositiveRanks):
        best = np.where(np.diff(measured.indptr) > 0, measured.best, 0)
    tied = int(np.count_nonzero(measured.ties))
    return Values(measured.query_ids, values, best, tied, None, dict(variant.parameters))


def _of_top_items(variant: Variant, top: TopK, judgments: Judgments, unjudged: Unjudged) -> Values:
    k = variant.parameters["k"]
    coverage, tied = judged_share(top, judgments, k), tied_queries(top, judgments, k)
    parameters, options = dict(variant.parameters), variant.spec.accepted({"unjudged": policy_of(unjudged)})
    if options:
        parameters["unjudged"] = policy_name(unjudged)
    if options.get("unjudged") == "leave_out":
        n_queries = top.query_ids.size
        top, judgments = queries_with_judged(top, judgments, k)
        parameters["queries_left_out"] = n_queries - top.query_ids.size
        if not top.query_ids.size:
            raise DataError(f"{variant.label}: no query has a labelled pair among its top {k}; choose another policy")
    values = variant.spec.function(top, judgments, **variant.parameters, **options)
    return Values(top.query_ids, values, None, tied, coverage, parameters)
