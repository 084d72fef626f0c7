"""``evaluate`` modules of metrics on judged items: on their gains, or on the ranks of all of them, negatives too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from cxc_eccv.adapters.module import (
    Column,
    MetricModule,
    id_lists,
    label,
    number_lists,
    results_of,
    variants,
)
from cxc_eccv.adapters.ranks import (
    DIRECTION,
    RANKING_LIMITS,
    RANKINGS,
    gallery_sizes,
    judgments_of,
    run_of,
)
from cxc_eccv.errors import DataError, RunTooShallow
from cxc_eccv.ranking.lists import read_rankings
from cxc_eccv.ranking.readers import JudgedRows, TopRows
from cxc_eccv.runs import RankingsRun
from cxc_eccv.types import FloatArray, IntArray, JudgedRanks, check_whole, look_up_gains


class GradedRankingModule(MetricModule):
    """A metric of the top K or R; predictions are rankings, references the judged items, gains their grades."""

    columns: ClassVar[Mapping[str, Column]] = {
        "predictions": RANKINGS,
        "references": Column(
            id_lists, "list of int64", "ids of all judged items of each query, including those of gain 0; at least one."
        ),
        "gains": Column(
            number_lists,
            "list of float64",
            "gain of each reference, in the same order: a rating, a label 0 or 1, or a degree from 0 to 1.",
            beside="references",
        ),
    }
    n_inputs = 2
    shows_options = True
    result_texts: ClassVar[Mapping[str, str]] = {"{}_coverage": "share of the retrieved items that are judged."}
    limits = (
        RANKING_LIMITS
        + """
- Judged items outside the gallery count in the ideal ranking or towards R; leave them out of the references.
- A classifier gets the positions of the queries and the ids of the items."""
    )
    example: ClassVar[Mapping[str, list[Any]]] = {
        "predictions": [[10, 30, 20, 40], [20, 10, 40, 30]],
        "references": [[10, 30], [40]],
        "gains": [[1, 0], [1]],
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
        """Name to value and coverage, for every combination of parameters."""
        run = run_of(inputs["predictions"])
        sizes = gallery_sizes(gallery_size, run)
        results: dict[str, Any] = {}
        for chosen in variants(cls.spec, parameters):
            name, looks = label(cls.spec, chosen), cls._looks(inputs, chosen)
            depths = cls._depths(run, sizes, looks, chosen)
            if "k" in chosen:
                _refuse_outside(inputs, np.flatnonzero(looks > depths), chosen["k"])
            values, judged = cls._values(inputs, run, looks, depths, chosen)
            results |= results_of(cls.spec, name, values, per_query=per_query)
            results[f"{name}_coverage"] = float(judged.sum() / depths.sum())
        # Options that are not part of the names of results.
        others = {name: value for name, value in parameters.items() if name not in cls.spec.parameters}
        return results | {name: "classifier" if callable(value) else value for name, value in others.items()}

    @classmethod
    def _looks(cls, inputs: Mapping[str, list[Any]], chosen: Mapping[str, Any]) -> IntArray:
        """(Q,) depth of the metric: K, or without K the number of items with a gain."""
        n_queries = len(inputs["gains"])
        if "k" in chosen:
            check_whole(f"{cls.spec.name}: k", chosen["k"])
            return np.full(n_queries, chosen["k"])
        relevant = (np.count_nonzero(np.asarray(gains) > 0) for gains in inputs["gains"])
        return np.maximum(np.fromiter(relevant, np.int64, n_queries), 1)

    @classmethod
    def _depths(cls, run: RankingsRun, sizes: IntArray | None, looks: IntArray, chosen: Mapping[str, Any]) -> IntArray:
        """(Q,) number of items that the metric looks at, at most the size of the gallery."""
        held = run.depths(DIRECTION)
        depths = looks if sizes is None else np.minimum(looks, sizes)
        if (short := np.flatnonzero(held < depths)).size:
            query, wanted = short[0], looks[short[0]]
            name = f"{cls.spec.name}(k={wanted})" if "k" in chosen else cls.spec.name
            raise RunTooShallow(
                f"{name} of query {query} looks at the top {wanted}, but its ranking ends at rank {held[query]}. Rank "
                f"at least {wanted} items, or the whole gallery and state its size."
            )
        return depths

    @classmethod
    def _values(
        cls,
        inputs: Mapping[str, list[Any]],
        run: RankingsRun,
        looks: IntArray,
        depths: IntArray,
        chosen: Mapping[str, Any],
    ) -> tuple[FloatArray, IntArray]:
        """(Q,) values and (Q,) numbers of judged items, computed together for queries of equal depth.

        A query with positives outside its complete ranking is computed alone, in the gallery of its ranking.
        """
        values, judged = np.empty(depths.size), np.empty(depths.size, dtype=np.int64)
        beyond = (looks > depths) & ("k" not in chosen)
        groups = [np.flatnonzero((depths == depth) & ~beyond) for depth in np.unique(depths[~beyond]).tolist()]
        for rows in [*groups, *np.flatnonzero(beyond)[:, None]]:
            depth = int(depths[rows[0]])
            judgments = judgments_of(inputs, run, rows, whole=bool(beyond[rows[0]]))
            reader = TopRows(judgments, depth)
            read_rankings(run, DIRECTION, [reader])
            options = {**chosen, "k": depth} if "k" in chosen else chosen
            values[rows] = cls.spec.function(reader.result, judgments, **options)
            judged[rows] = look_up_gains(reader.result, judgments, depth, cls.spec.name)[1].sum(axis=1)
        return values, judged


def _refuse_outside(inputs: Mapping[str, list[Any]], rows: IntArray, k: int) -> None:
    """Raise DataError if a gallery of fewer than K items lacks a positive: the ideal ranking would lack it too."""
    for row in rows.tolist():
        judged = zip(inputs["references"][row], inputs["gains"][row], strict=True)
        if outside := {item for item, gain in judged if gain > 0}.difference(inputs["predictions"][row]):
            raise DataError(
                f"query {row}: its gallery of fewer than {k} items lacks the judged item {min(outside)}; leave it "
                "out of the references"
            )


VERDICTS = (0, 1, 2)


class JudgedRankingModule(MetricModule):
    """A metric of judged items: predictions are whole rankings, references the judged items, with a verdict each."""

    columns: ClassVar[Mapping[str, Column]] = {
        "predictions": RANKINGS,
        "references": Column(id_lists, "list of int64", "ids of all judged items of each query, negatives too."),
        "verdicts": Column(
            id_lists,
            "list of int64",
            "the verdict on each reference, in the same order: 0 for a judged negative, 1 for a positive, 2 for a "
            "positive that the original links of the benchmark lack; at least one positive.",
            beside="references",
        ),
    }
    limits = RANKING_LIMITS + "\n- A ranking must hold the whole gallery of its query, every judged item among it."
    example: ClassVar[Mapping[str, list[Any]]] = {
        "predictions": [[10, 30, 20, 40], [20, 10, 40, 30]],
        "references": [[10, 30], [40, 20, 10]],
        "verdicts": [[0, 1], [2, 0, 1]],
    }

    @classmethod
    def scores(
        cls, inputs: Mapping[str, list[Any]], *, per_query: bool = False, **parameters: object
    ) -> dict[str, Any]:
        """Name to value, one for every combination of parameters."""
        ranks, results = cls._find_ranks(inputs), dict[str, Any]()
        for chosen in variants(cls.spec, parameters):
            values = cls.spec.function(ranks, **chosen)
            results |= results_of(cls.spec, label(cls.spec, chosen), values, per_query=per_query)
        return results

    @classmethod
    def _find_ranks(cls, inputs: Mapping[str, list[Any]]) -> JudgedRanks:
        rows = zip(*(inputs[name] for name in ("predictions", "references", "verdicts")), strict=True)
        for row, (ranked, items, verdicts) in enumerate(rows):
            if wrong := [verdict for verdict in verdicts if verdict not in VERDICTS]:
                raise DataError(f"query {row} has the verdict {wrong[0]}; a verdict is 0, 1 or 2")
            if lost := sorted(set(items) - set(ranked)):
                raise RunTooShallow(
                    f"{cls.spec.name} of query {row}: its ranking lacks the judged item {lost[0]}. Rank the whole "
                    "gallery."
                )
        run = run_of(inputs["predictions"])
        ranks = []
        for row in range(len(inputs["references"])):  # each query has a gallery of its own, that of its ranking
            judged = {**inputs, "gains": inputs["verdicts"]}
            reader = JudgedRows(judgments_of(judged, run, np.array([row]), whole=True))
            read_rankings(run, DIRECTION, [reader])
            ranks.append(reader.result)
        columns = ("ranks", "verdicts", "n_positives", "n_gallery", "ties")
        values = [np.concatenate([getattr(each, name) for each in ranks]) for name in columns]
        indptr = np.append(0, np.cumsum([each.ranks.size for each in ranks]))
        return JudgedRanks(np.arange(len(ranks)), indptr, *values)
