"""``evaluate`` modules of metrics on ranks, on values of other metrics, and on rated pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from cxc_eccv.adapters.inputs import Column, finite_numbers, id_lists, ids, names
from cxc_eccv.adapters.module import PER_QUERY, MetricModule, label, results_of, variants
from cxc_eccv.adapters.rankings import GALLERY_SIZE, RANKING_LIMITS, RANKINGS, find_positives
from cxc_eccv.errors import MalformedRun
from cxc_eccv.ranking.lists import values_at_known_depth
from cxc_eccv.types import RatedPairs

POSITIVES = Column(id_lists, "list of int64", "ids of the positives of each query, in any order; at least one.")


class RankingModule(MetricModule):
    """A metric of ranks; predictions are rankings, references are positives."""

    columns: ClassVar[Mapping[str, Column]] = {"predictions": RANKINGS, "references": POSITIVES}
    option_texts: ClassVar[Mapping[str, str]] = {"gallery_size": GALLERY_SIZE, "per_query": PER_QUERY}
    limits = RANKING_LIMITS
    example: ClassVar[Mapping[str, list[Any]]] = {
        "predictions": [[10, 30, 20, 40], [20, 10, 40, 30]],
        "references": [[30, 20], [20]],
    }
    example_options: ClassVar[Mapping[str, Any]] = {"gallery_size": 4}

    @classmethod
    def scores(
        cls,
        inputs: Mapping[str, list[Any]],
        *,
        gallery_size: ArrayLike | None = None,
        per_query: bool = False,
        **parameters: object,
    ) -> dict[str, Any]:
        """Name to value, one for every combination of parameters."""
        given = find_positives(inputs, gallery_size)
        results: dict[str, Any] = {}
        for chosen in variants(cls.spec, parameters):
            values = values_at_known_depth(cls.spec.function, given, **chosen)
            results |= results_of(cls.spec, label(cls.spec, chosen), values, per_query=per_query)
        return results


class BothDirectionsModule(MetricModule):
    """A metric of other metrics' values in both directions."""

    columns: ClassVar[Mapping[str, Column]] = {
        "predictions": RANKINGS,
        "references": POSITIVES,
        "directions": Column(
            names, "string", "direction of each query, `i2t` (image to text) or `t2i` (text to image); both must occur."
        ),
    }
    option_texts: ClassVar[Mapping[str, str]] = {"gallery_size": GALLERY_SIZE}
    limits = RANKING_LIMITS
    example: ClassVar[Mapping[str, list[Any]]] = {
        "predictions": [[10, 30, 20, 40], [20, 10, 40, 30], [2, 1], [1, 2]],
        "references": [[30, 20], [20], [1], [1]],
        "directions": ["i2t", "i2t", "t2i", "t2i"],
    }
    example_options: ClassVar[Mapping[str, Any]] = {"gallery_size": [4, 4, 2, 2]}

    @classmethod
    def scores(
        cls, inputs: Mapping[str, list[Any]], *, gallery_size: ArrayLike | None = None, **parameters: object
    ) -> dict[str, Any]:
        """Name to value of the result."""
        directions = np.array(inputs["directions"])
        if set(inputs["directions"]) != {"i2t", "t2i"}:
            named = ", ".join(sorted(set(inputs["directions"])))
            raise MalformedRun(f"directions are {named}; {cls.spec.name} needs rows of i2t and of t2i, and no others")
        given = find_positives(inputs, gallery_size)
        values = [
            spec.average(values_at_known_depth(spec.function, given, **chosen)[directions == direction])
            for direction in ("i2t", "t2i")
            for spec, chosen in cls.parts.values()
        ]
        return {cls.spec.name: float(cls.spec.function(np.array(values), **parameters))}


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
    option_texts: ClassVar[Mapping[str, str]] = {
        "per_sample": "also return the correlation of every sample, as `<name>_samples`."
    }
    result_texts: ClassVar[Mapping[str, str]] = {"{}_std": "standard deviation over the samples (ddof 0)."}
    limits = """\
- Ratings or similarities that are all equal, NaN, infinite values, empty input and unequal lengths raise an error.
- The value depends on which item of a pair is the query; the paper's choice is given above."""
    example: ClassVar[Mapping[str, list[Any]]] = {
        "predictions": [0.91, 0.35, 0.54, 0.18, 0.77, 0.32, 0.62, 0.09],
        "references": [4.8, 2.1, 3.0, 0.6, 4.1, 1.9, 3.6, 0.2],
        "query_ids": [1, 1, 2, 3, 4, 5, 6, 6],
        "item_ids": [11, 12, 13, 14, 15, 16, 17, 18],
    }

    @classmethod
    def scores(
        cls, inputs: Mapping[str, list[Any]], *, per_sample: bool = False, **parameters: object
    ) -> dict[str, Any]:
        """Name to value; for a metric with samples their mean and standard deviation."""
        pairs = RatedPairs(*(np.array(inputs[name]) for name in ("query_ids", "item_ids", "references")))
        values = cls.spec.function(pairs, np.array(inputs["predictions"]), **parameters)
        name = cls.spec.name
        spread = {f"{name}_std": float(np.std(values))} if values.ndim else {}
        samples = {f"{name}_samples": np.atleast_1d(values).tolist()} if per_sample else {}
        return {name: float(values.mean()), **spread, **samples}
