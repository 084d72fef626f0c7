"""``evaluate`` modules of metrics that need the top K and graded judgments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from cxc_eccv.adapters.inputs import Column, id_lists, number_lists
from cxc_eccv.adapters.module import MetricModule, label, results_of, variants
from cxc_eccv.errors import DataError, InvalidOption, RunTooShallow
from cxc_eccv.metrics.top_gains import TopGains
from cxc_eccv.ranking.lists import GivenRanks, given_ranks
from cxc_eccv.types import FloatArray, IntArray, Judgments, TopK

__all__ = ["GradedRankingModule"]


class GradedRankingModule(MetricModule):
    """A metric of the top K: predictions are rankings, references the judged items, gains their grades.

    Example:
        >>> from cxc_eccv.metrics.ndcg_at_k import SPEC
        >>> class NdcgAtK(GradedRankingModule):
        ...     spec = SPEC
        >>> NdcgAtK.scores({"predictions": [[8, 9, 7]], "references": [[7]], "gains": [[4.0]]}, k=3)
        {'ndcg_at_3': 0.5, 'ndcg_at_3_coverage': 0.3333333333333333}
    """

    columns: ClassVar[Mapping[str, Column]] = {
        "predictions": id_lists,
        "references": id_lists,
        "gains": number_lists,
    }
    n_inputs: ClassVar[int] = 2

    @classmethod
    def scores(
        cls,
        inputs: Mapping[str, list[Any]],
        *,
        gallery_size: ArrayLike | None = None,
        per_query: bool = False,
        **parameters: Any,  # noqa: ANN401 - the metric's own
    ) -> dict[str, Any]:
        """Name to value, one for every combination of parameters; and the coverage, the share of judged pairs.

        Args:
            inputs: ``predictions``, Q lists of ranked gallery ids; ``references``, Q lists of judged ids; ``gains``, Q
                lists of their gains.
            gallery_size: items that a query ranks, one number or Q; None where unknown.
            per_query: add the Q values behind each result, as ``<name>_per_query``.
            **parameters: of the metric, ``k`` among them; a list gives one result for each of its values.

        Raises:
            RunTooShallow: a ranking holds fewer than K items, and not the whole gallery.
            RunError, DataError, InvalidOption: bad rankings, judgments, options.
        """
        _check_gains(inputs)
        given = given_ranks(inputs["predictions"], inputs["references"], gallery_size=gallery_size)
        results: dict[str, Any] = {}
        for chosen in variants(cls.spec, parameters):
            name, depths = label(cls.spec, chosen), _depths(given, chosen["k"], cls.spec.name)
            values, judged = cls._values(inputs, depths, chosen)
            results |= results_of(cls.spec, name, values, per_query=per_query)
            results[f"{name}_coverage"] = float(judged.sum() / depths.sum())
        return results | cls._stated(parameters)

    @classmethod
    def _values(
        cls, inputs: Mapping[str, list[Any]], depths: IntArray, chosen: Mapping[str, Any]
    ) -> tuple[FloatArray, IntArray]:
        """(Q,) values and (Q,) numbers of judged items; galleries smaller than K are ranked whole."""
        values, judged = np.empty(depths.size), np.empty(depths.size, dtype=np.int64)
        for depth in np.unique(depths).tolist():
            rows = np.flatnonzero(depths == depth)
            top = TopK(rows, np.array([inputs["predictions"][row][:depth] for row in rows]))
            judgments = _judgments(inputs, rows, top)
            values[rows] = cls.spec.function(top, judgments, **{**chosen, "k": depth})
            judged[rows] = TopGains.of(top, judgments, depth, cls.spec.name).judged.sum(axis=1)
        return values, judged

    @classmethod
    def _stated(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Options that no result's name carries."""
        others = {name: value for name, value in parameters.items() if name not in cls.spec.parameters}
        return {name: "classifier" if callable(value) else value for name, value in others.items()}


def _check_gains(inputs: Mapping[str, list[Any]]) -> None:
    for row, (items, gains) in enumerate(zip(inputs["references"], inputs["gains"], strict=True)):
        if len(items) != len(gains):
            raise DataError(f"query {row} has {len(gains)} gains for {len(items)} references; give one for each")


def _depths(given: GivenRanks, k: int, metric: str) -> IntArray:
    """(Q,) items that the metric looks at."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InvalidOption(f"{metric}: k is {k!r}, expected a whole number of at least 1")
    short = np.flatnonzero((given.depths < k) & ~given.complete)
    if short.size:
        raise RunTooShallow(
            f"{metric}(k={k}) of query {short[0]} looks at the top {k}, but its ranking ends at rank "
            f"{given.depths[short[0]]}. Rank at least {k} items, or the whole gallery and state its size."
        )
    return np.minimum(given.depths, k)


def _judgments(inputs: Mapping[str, list[Any]], rows: IntArray, top: TopK) -> Judgments:
    items = np.concatenate([inputs["references"][row] for row in rows])
    gains = np.concatenate([inputs["gains"][row] for row in rows])
    sizes = [len(inputs["references"][row]) for row in rows]
    gallery, places = np.unique(np.concatenate([top.ids.ravel(), items]), return_inverse=True)
    columns, owners = places[top.ids.size :], np.repeat(np.arange(rows.size), sizes)
    order = np.lexsort((columns, owners))
    indptr = np.append(0, np.cumsum(sizes))
    return Judgments(rows, gallery, indptr, columns[order], np.zeros_like(rows), gains=gains[order])
