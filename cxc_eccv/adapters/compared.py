"""``evaluate`` modules of metrics that compare captions with hard negatives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from cxc_eccv.adapters.inputs import Column, finite_numbers, names
from cxc_eccv.adapters.module import MetricModule, results_of
from cxc_eccv.metrics.spec import Spec

__all__ = ["ComparedPartsModule", "ComparisonsModule"]


class ComparisonsModule(MetricModule):
    """A metric of compared captions: predictions are scores of captions, references those of their hard negatives.

    Example:
        >>> from cxc_eccv.metrics.pairwise_accuracy import SPEC
        >>> class PairwiseAccuracy(ComparisonsModule):
        ...     spec = SPEC
        >>> PairwiseAccuracy.scores({"predictions": [0.9, 0.3], "references": [0.1, 0.3]})
        {'pairwise_accuracy': 0.5}
    """

    columns: ClassVar[Mapping[str, Column]] = {"predictions": finite_numbers, "references": finite_numbers}
    n_inputs: ClassVar[int] = 2

    @classmethod
    def scores(
        cls,
        inputs: Mapping[str, list[Any]],
        *,
        per_query: bool = False,
        **parameters: Any,  # noqa: ANN401 - the metric's own
    ) -> dict[str, Any]:
        """Name to value."""
        values = cls.spec.function(inputs["predictions"], inputs["references"], **parameters)
        return results_of(cls.spec, cls.spec.name, values, per_query=per_query)


class ComparedPartsModule(MetricModule):
    """A metric of the values that parts of compared captions have: each row says which part it belongs to.

    Attributes:
        parts: label to metric and parameters of the one value that each part contributes.

    Example:
        >>> from cxc_eccv.metrics.mean_pairwise_accuracy import SPEC
        >>> from cxc_eccv.metrics.pairwise_accuracy import SPEC as ACCURACY
        >>> class MeanPairwiseAccuracy(ComparedPartsModule):
        ...     spec, parts = SPEC, {"pairwise_accuracy": (ACCURACY, {})}
        >>> rows = {"predictions": [0.9, 0.3, 0.5], "references": [0.1, 0.4, 0.2], "parts": ["add", "add", "swap"]}
        >>> MeanPairwiseAccuracy.scores(rows)
        {'mean_pairwise_accuracy': 0.75}
    """

    columns: ClassVar[Mapping[str, Column]] = {
        "predictions": finite_numbers,
        "references": finite_numbers,
        "parts": names,
    }
    parts: ClassVar[Mapping[str, tuple[Spec, Mapping[str, Any]]]]

    @classmethod
    def scores(cls, inputs: Mapping[str, list[Any]], **parameters: Any) -> dict[str, Any]:  # noqa: ANN401
        """Name to value of the one result."""
        captions, negatives, parts = (np.array(inputs[name]) for name in cls.columns)
        values = [
            spec.average(spec.function(captions[parts == part], negatives[parts == part], **chosen))
            for part in dict.fromkeys(inputs["parts"])
            for spec, chosen in cls.parts.values()
        ]
        return {cls.spec.name: float(cls.spec.function(np.array(values), **parameters))}
