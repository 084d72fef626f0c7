"""``evaluate`` modules of metrics that compare captions with hard negatives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from cxc_eccv.adapters.inputs import Column, finite_numbers, names
from cxc_eccv.adapters.module import MetricModule, results_of

COMPARED = {
    "predictions": Column(finite_numbers, "float64", "the model's score of each image with its caption, finite."),
    "references": Column(
        finite_numbers, "float64", "the score of the same image with the caption's hard negative, finite."
    ),
}
LIMITS = """\
- Only strictly higher scores count, so ties count as wrong. Scores of half precision tie often; compare models in one
  precision.
- NaN, infinite values, empty input and unequal lengths raise an error."""
EXAMPLE = {"predictions": [0.91, 0.35, 0.54, 0.18], "references": [0.48, 0.21, 0.54, 0.27]}


class ComparisonsModule(MetricModule):
    """A metric of compared captions; predictions are scores of captions, references scores of their hard negatives."""

    columns = COMPARED
    n_inputs = 2
    option_texts: ClassVar[Mapping[str, str]] = {
        "per_query": "also return the value of every item, as `<name>_per_query`."
    }
    limits = LIMITS
    example = EXAMPLE

    @classmethod
    def scores(
        cls, inputs: Mapping[str, list[Any]], *, per_query: bool = False, **parameters: object
    ) -> dict[str, Any]:
        """Name to value."""
        values = cls.spec.function(inputs["predictions"], inputs["references"], **parameters)
        return results_of(cls.spec, cls.spec.name, values, per_query=per_query)


class ComparedPartsModule(MetricModule):
    """A metric of the values of several parts of compared captions."""

    columns: ClassVar[Mapping[str, Column]] = {
        **COMPARED,
        "parts": Column(names, "string", "name of the part of each item."),
    }
    limits = LIMITS + "\n- All parts have the same weight, whatever their number of items."
    example: ClassVar[Mapping[str, list[Any]]] = {**EXAMPLE, "parts": ["add_att", "add_att", "swap_obj", "swap_obj"]}

    @classmethod
    def scores(cls, inputs: Mapping[str, list[Any]], **parameters: object) -> dict[str, Any]:
        """Name to value of the result."""
        captions, negatives, parts = (np.array(inputs[name]) for name in cls.columns)
        values = [
            spec.average(spec.function(captions[parts == part], negatives[parts == part], **chosen))
            for part in dict.fromkeys(inputs["parts"])
            for spec, chosen in cls.parts.values()
        ]
        return {cls.spec.name: float(cls.spec.function(np.array(values), **parameters))}
