"""``evaluate`` modules of metrics on ranks, of one direction or of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from cxc_eccv.adapters.given_rankings import RANKING_LIMITS, RANKINGS, GivenRankings
from cxc_eccv.adapters.module import Column, Example, MetricModule, Results, id_lists, names
from cxc_eccv.errors import MalformedRun
from cxc_eccv.metrics.kinds import WholeMetric
from cxc_eccv.ranking.known_depth import values_at_known_depth

POSITIVES = Column(id_lists, "list of int64", "ids of the positives of each query, in any order; at least one.")


class RankingModule(MetricModule):
    """A metric of ranks; predictions are rankings, references are positives."""

    columns: ClassVar[Mapping[str, Column]] = {"predictions": RANKINGS, "references": POSITIVES}
    limits = RANKING_LIMITS
    example: ClassVar[Example] = {
        "predictions": [[10, 30, 20, 40], [20, 10, 40, 30]],
        "references": [[30, 20], [20]],
    }
    example_options: ClassVar[Example] = {"gallery_size": 4}

    @classmethod
    def scores(
        cls,
        predictions: list[list[int]],
        references: list[list[int]],
        *,
        gallery_size: ArrayLike | None = None,
        per_query: bool = False,
        **parameters: object,
    ) -> Results:
        """Name to value, one for every combination of parameters."""
        ranks = GivenRankings(predictions, references).rank_references(gallery_size)
        return cls.report(
            lambda **chosen: values_at_known_depth(cls.spec.function, ranks, **chosen), parameters, per_query=per_query
        )


class BothDirectionsModule(MetricModule):
    """A metric of another metric's values in both directions."""

    spec: ClassVar[WholeMetric]
    columns: ClassVar[Mapping[str, Column]] = {
        "predictions": RANKINGS,
        "references": POSITIVES,
        "directions": Column(
            names, "string", "direction of each query, `i2t` (image to text) or `t2i` (text to image); both must occur."
        ),
    }
    limits = RANKING_LIMITS
    example: ClassVar[Example] = {
        "predictions": [[10, 30, 20, 40], [20, 10, 40, 30], [2, 1], [1, 2]],
        "references": [[30, 20], [20], [1], [1]],
        "directions": ["i2t", "i2t", "t2i", "t2i"],
    }
    example_options: ClassVar[Example] = {"gallery_size": [4, 4, 2, 2]}

    @classmethod
    def scores(
        cls,
        predictions: list[list[int]],
        references: list[list[int]],
        directions: list[str],
        *,
        gallery_size: ArrayLike | None = None,
        **parameters: object,
    ) -> Results:
        """Name to value of the result."""
        if set(directions) != {"i2t", "t2i"}:
            named = ", ".join(sorted(set(directions)))
            raise MalformedRun(f"directions are {named}; {cls.spec.name} needs rows of i2t and of t2i, and no others")
        ranks, of = GivenRankings(predictions, references).rank_references(gallery_size), cls.spec.of
        values = [
            of.average(values_at_known_depth(of.function, ranks, **chosen)[np.array(directions) == direction])
            for direction in ("i2t", "t2i")
            for chosen in cls.spec.inputs.values()
        ]
        return {cls.spec.name: float(cls.spec.function(np.array(values), **parameters))}
