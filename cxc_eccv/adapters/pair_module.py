"""``evaluate`` modules of metrics on rated pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from cxc_eccv.adapters.module import Column, Example, MetricModule, Results, finite_numbers, ids
from cxc_eccv.types import RatedPairs


class RatedPairsModule(MetricModule):
    """A rank correlation; predictions are similarities of pairs, references their ratings."""

    columns: ClassVar[Mapping[str, Column]] = {
        "predictions": Column(finite_numbers, "float64", "the model's similarity of each rated pair, finite."),
        "references": Column(finite_numbers, "float64", "the human rating of each pair."),
        "query_ids": Column(
            ids,
            "int64",
            "id of each pair's query: the caption for STS, the image for SIS and SITS. List a pair in both orders if "
            "it counts for both items.",
        ),
        "item_ids": Column(ids, "int64", "id of the item rated with the query."),
    }
    n_inputs = 2
    result_texts: ClassVar[Mapping[str, str]] = {"{}_std": "standard deviation over the samples (ddof 0)."}
    limits = """\
- Ratings or similarities that are all equal, NaN, infinite values, empty input and unequal lengths raise an error.
- The value depends on which item of a pair is the query; the paper's choice is given above."""
    example: ClassVar[Example] = {
        "predictions": [0.91, 0.35, 0.54, 0.18, 0.77, 0.32, 0.62, 0.09],
        "references": [4.8, 2.1, 3.0, 0.6, 4.1, 1.9, 3.6, 0.2],
        "query_ids": [1, 1, 2, 3, 4, 5, 6, 6],
        "item_ids": [11, 12, 13, 14, 15, 16, 17, 18],
    }

    @classmethod
    def scores(
        cls,
        predictions: list[float],
        references: list[float],
        query_ids: list[int],
        item_ids: list[int],
        *,
        per_sample: bool = False,
        **parameters: object,
    ) -> Results:
        """Name to value; for a metric with samples their mean and standard deviation."""
        pairs = RatedPairs(np.array(query_ids), np.array(item_ids), np.array(references))
        values = cls.spec.function(pairs, np.array(predictions), **parameters)
        name = cls.spec.name
        spread = {f"{name}_std": float(np.std(values))} if values.ndim else {}
        samples = {f"{name}_samples": np.atleast_1d(values).tolist()} if per_sample else {}
        return {name: float(values.mean()), **spread, **samples}
