"""``evaluate`` modules of metrics on ranks, on ranks among altered items, and on values of other metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from cxc_eccv.adapters.inputs import Column, id_lists, names
from cxc_eccv.adapters.module import PER_QUERY, MetricModule, label, results_of, variants
from cxc_eccv.adapters.rankings import GALLERY_SIZE, RANKING_LIMITS, RANKINGS, find_positives
from cxc_eccv.errors import DataError, InvalidOption, MalformedRun, RunTooShallow
from cxc_eccv.ranking.lists import values_at_known_depth
from cxc_eccv.runs.run import whole_ids
from cxc_eccv.types import check_whole
from cxc_eccv.types.altered import AlteredRanks

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


class AlteredRankingModule(MetricModule):
    """A metric of rankings with altered items; references are the positives, which are originals."""

    columns: ClassVar[Mapping[str, Column]] = {
        "predictions": RANKINGS,
        "references": Column(
            id_lists, "list of int64", "ids of the positives of each query, at least one; they are originals."
        ),
    }
    option_texts: ClassVar[Mapping[str, str]] = {
        "altered": "ids of all altered items of the gallery; required.",
        "per_query": PER_QUERY,
    }
    limits = RANKING_LIMITS
    example: ClassVar[Mapping[str, list[Any]]] = {
        "predictions": [[10, 31, 30, 20], [21, 20, 10, 30]],
        "references": [[30], [20]],
    }
    example_options: ClassVar[Mapping[str, Any]] = {"altered": [11, 21, 31]}

    @classmethod
    def scores(
        cls,
        inputs: Mapping[str, list[Any]],
        *,
        altered: ArrayLike | None = None,
        per_query: bool = False,
        **parameters: object,
    ) -> dict[str, Any]:
        """Name to value, one for every combination of parameters."""
        ids = _check_altered(inputs, altered)
        originals = [[item for item in row if item not in ids] for row in inputs["predictions"]]
        whole, plain = find_positives(inputs), find_positives({**inputs, "predictions": originals})
        first = np.array([row[:1] != kept[:1] for row, kept in zip(inputs["predictions"], originals, strict=True)])
        ranks = AlteredRanks(plain.ranks, whole.ranks, first, np.zeros_like(first))
        results: dict[str, Any] = {}
        for chosen in variants(cls.spec, parameters):
            name = label(cls.spec, chosen)
            # A missing original could rank next, so rankings must be long enough without altered items.
            depths, k = (plain.depths, chosen["k"]) if "k" in chosen else (whole.depths, 1)
            check_whole(f"{name}: k", k)
            if (short := np.flatnonzero(depths < k)).size:
                raise RunTooShallow(
                    f"{name} of query {short[0]} looks at {k} items, but its ranking holds {depths[short[0]]} without "
                    "altered items. Rank more of the gallery."
                )
            results |= results_of(cls.spec, name, cls.spec.function(ranks, **chosen), per_query=per_query)
        return results


def _check_altered(inputs: Mapping[str, list[Any]], altered: ArrayLike | None) -> set[int]:
    if altered is None:
        raise InvalidOption("altered is missing; give the ids of all altered items, including those not in rankings")
    ids = set(whole_ids(altered, "altered").tolist())
    for row, references in enumerate(inputs["references"]):
        for item in ids.intersection(references):
            raise DataError(f"references of query {row}: item {item} is altered; positives must be originals")
    return ids
