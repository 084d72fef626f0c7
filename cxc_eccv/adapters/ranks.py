"""``evaluate`` modules of metrics on ranks, and their predictions and references as a rankings run and judgments.

They do not show the size of the gallery, which the option ``gallery_size`` gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from cxc_eccv.adapters.module import Column, MetricModule, id_lists, label, names, results_of, variants
from cxc_eccv.errors import InvalidOption, MalformedRun
from cxc_eccv.metrics.kinds import WholeMetric
from cxc_eccv.ranking.lists import GivenRanks, ranks_from_rankings, values_at_known_depth
from cxc_eccv.runs.rankings import RankedLists, RankingsRun
from cxc_eccv.runs.run import whole_ids
from cxc_eccv.types import IntArray, Judgments

DIRECTION = "i2t"
"""A run needs a direction, although the rows of a module have none."""

RANKINGS = Column(
    id_lists,
    "list of int64",
    "ranked gallery ids of each query, best first, without the query itself. Ids must be whole numbers without "
    "repeats. Rankings may be cut short if the metric allows it.",
)
RANKING_LIMITS = """\
- Rankings have no scores, so ties are not visible and the given order is trusted. Use `cxc-eccv evaluate` with
  embeddings or scores for a model with many equal scores; it counts ties against the model.
- Rankings that are too short raise `RunTooShallow`, which names the query and the depth it needs. Empty input, repeated
  ids, unequal lengths and ids that are not whole numbers raise an error too.
- All queries have the same weight. Leave out queries without positives."""


def run_of(predictions: Sequence[ArrayLike]) -> RankingsRun:
    """The rankings of queries 0 to Q - 1."""
    return RankingsRun({DIRECTION: RankedLists.of(dict(enumerate(predictions)), "predictions")})


def judgments_of(
    inputs: Mapping[str, Sequence[Any]], run: RankingsRun, rows: IntArray, *, whole: bool = False
) -> Judgments:
    """Judgments of some queries, in a gallery of all ids or, with ``whole``, of the ids in their rankings."""
    references = [whole_ids(inputs["references"][row], f"references of query {row}") for row in rows.tolist()]
    items = np.concatenate(references)
    gains = np.concatenate([inputs["gains"][row] for row in rows.tolist()]) if "gains" in inputs else None
    if whole:
        gallery = np.unique(np.concatenate([inputs["predictions"][row] for row in rows.tolist()]))
    else:
        gallery = np.union1d(run.lists[DIRECTION].item_ids, items)
    return Judgments.from_pairs(rows, gallery, np.repeat(rows, [ids.size for ids in references]), items, gains=gains)


def gallery_sizes(gallery_size: ArrayLike | None, run: RankingsRun) -> IntArray | None:
    """(Q,) number of items that each query ranks, from one number or one per query; None if unknown."""
    if gallery_size is None:
        return None
    numbers, depths = np.asarray(gallery_size), run.lists[DIRECTION].depths
    if numbers.dtype.kind not in "iu" or numbers.shape not in ((), depths.shape) or np.any(numbers < 1):
        raise InvalidOption(
            f"gallery_size is {gallery_size!r}, expected a whole number of at least 1, or one per query"
        )
    sizes = np.broadcast_to(numbers.astype(np.int64), depths.shape)
    if (beyond := np.flatnonzero(depths > sizes)).size:
        query = beyond[0]
        raise MalformedRun(
            f"the ranking of query {query} holds {depths[query]} items, more than gallery_size {sizes[query]}"
        )
    return sizes


def find_positives(inputs: Mapping[str, Sequence[Any]], gallery_size: ArrayLike | None = None) -> GivenRanks:
    """Ranks of the references, as far as the predictions hold them."""
    run = run_of(inputs["predictions"])
    sizes = gallery_sizes(gallery_size, run)
    given = ranks_from_rankings(run, DIRECTION, judgments_of(inputs, run, np.arange(len(inputs["references"]))))
    known = given.depths if sizes is None else sizes
    complete = np.zeros_like(known, dtype=bool) if sizes is None else given.depths == sizes
    return replace(given, n_gallery=known, complete=complete)


POSITIVES = Column(id_lists, "list of int64", "ids of the positives of each query, in any order; at least one.")


class RankingModule(MetricModule):
    """A metric of ranks; predictions are rankings, references are positives."""

    columns: ClassVar[Mapping[str, Column]] = {"predictions": RANKINGS, "references": POSITIVES}
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
        given, of = find_positives(inputs, gallery_size), cls.spec.of
        values = [
            of.average(values_at_known_depth(of.function, given, **chosen)[directions == direction])
            for direction in ("i2t", "t2i")
            for chosen in cls.spec.inputs.values()
        ]
        return {cls.spec.name: float(cls.spec.function(np.array(values), **parameters))}
