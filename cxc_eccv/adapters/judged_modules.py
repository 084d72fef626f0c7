"""``evaluate`` modules of metrics on judged items: on their gains, or on the ranks of all of them, negatives too."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from cxc_eccv.adapters.given_rankings import DIRECTION, RANKING_LIMITS, RANKINGS, GivenRankings, check_sizes
from cxc_eccv.adapters.module import Column, Example, MetricModule, Parameters, Results, id_lists, number_lists
from cxc_eccv.errors import DataError, RunTooShallow
from cxc_eccv.ranking.by_lists import ByLists
from cxc_eccv.ranking.readers import JudgedRows, TopRows
from cxc_eccv.runs import RankingsRun
from cxc_eccv.types import FloatArray, IntArray, JudgedRanks, check_whole, look_up_gains
from cxc_eccv.types.ids import make_indptr


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
    example: ClassVar[Example] = {
        "predictions": [[10, 30, 20, 40], [20, 10, 40, 30]],
        "references": [[10, 30], [40]],
        "gains": [[1, 0], [1]],
    }
    example_options: ClassVar[Example] = {"gallery_size": 4}

    @classmethod
    def scores(
        cls,
        predictions: list[list[int]],
        references: list[list[int]],
        gains: list[list[float]],
        *,
        gallery_size: ArrayLike | None = None,
        per_query: bool = False,
        **parameters: object,
    ) -> Results:
        """Name to value and coverage, for every combination of parameters; and the options that no name has."""
        rankings = GivenRankings(predictions, references, gains)
        run = rankings.make_run()
        sizes, results = check_sizes(gallery_size, run), Results()
        for chosen in cls.variants(parameters):
            k = chosen.get("k")
            targets = _find_targets(cls.spec.name, gains, k)
            depths = targets if sizes is None else np.minimum(targets, sizes)
            _refuse_short(cls.spec.name, run.depths(DIRECTION), targets, depths, k)
            if k is not None:
                _refuse_outside(rankings, np.flatnonzero(targets > depths), k)
            values, judged = cls._compute_by_depth(rankings, run, targets, depths, chosen)
            results |= cls.name_values(chosen, values, per_query=per_query)
            results[f"{cls.label(chosen)}_coverage"] = float(judged.sum() / depths.sum())
        others = {name: value for name, value in parameters.items() if name not in cls.spec.parameters}
        return results | {name: "classifier" if callable(value) else str(value) for name, value in others.items()}

    @classmethod
    def _compute_by_depth(
        cls, rankings: GivenRankings, run: RankingsRun, targets: IntArray, depths: IntArray, chosen: Parameters
    ) -> tuple[FloatArray, IntArray]:
        """(Q,) values and (Q,) numbers of judged items, computed together for queries of equal depth.

        A query with positives outside its complete ranking is computed alone, in the gallery of its ranking.
        """
        values, judged = np.empty(depths.size), np.empty(depths.size, dtype=np.int64)
        beyond = (targets > depths) & ("k" not in chosen)
        groups = [np.flatnonzero((depths == depth) & ~beyond) for depth in np.unique(depths[~beyond]).tolist()]
        for rows in [*groups, *np.flatnonzero(beyond)[:, None]]:
            depth = int(depths[rows[0]])
            judgments = rankings.judge(run, rows, whole=bool(beyond[rows[0]]))
            reader = TopRows(judgments, depth)
            ByLists(run).rank_all({}, {DIRECTION: [reader]})
            options = {**chosen, "k": depth} if "k" in chosen else chosen
            values[rows] = cls.spec.function(reader.result, judgments, **options)
            judged[rows] = look_up_gains(reader.result, judgments, depth, cls.spec.name)[1].sum(axis=1)
        return values, judged


def _find_targets(metric: str, gains: list[list[float]], k: int | None) -> IntArray:
    """(Q,) depth of the metric: K, or without K the number of items with a gain."""
    if k is not None:
        check_whole(f"{metric}: k", k)
        return np.full(len(gains), k)
    relevant = (np.count_nonzero(np.asarray(row) > 0) for row in gains)
    return np.maximum(np.fromiter(relevant, np.int64, len(gains)), 1)


def _refuse_short(metric: str, lengths: IntArray, targets: IntArray, depths: IntArray, k: int | None) -> None:
    """Raise RunTooShallow if a ranking ends above the depth that the metric looks at."""
    if (short := np.flatnonzero(lengths < depths)).size:
        query, needed = short[0], targets[short[0]]
        name = metric if k is None else f"{metric}(k={k})"
        raise RunTooShallow(
            f"{name} of query {query} looks at the top {needed}, but its ranking ends at rank {lengths[query]}. Rank "
            f"at least {needed} items, or the whole gallery and state its size."
        )


def _refuse_outside(rankings: GivenRankings, rows: IntArray, k: int) -> None:
    """Raise DataError if a gallery of fewer than K items lacks a positive: the ideal ranking would lack it too."""
    for row in rows.tolist():
        judged = zip(rankings.references[row], (rankings.gains or [])[row], strict=True)
        if outside := {item for item, gain in judged if gain > 0}.difference(rankings.predictions[row]):
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
    example: ClassVar[Example] = {
        "predictions": [[10, 30, 20, 40], [20, 10, 40, 30]],
        "references": [[10, 30], [40, 20, 10]],
        "verdicts": [[0, 1], [2, 0, 1]],
    }

    @classmethod
    def scores(
        cls,
        predictions: list[list[int]],
        references: list[list[int]],
        verdicts: list[list[int]],
        *,
        per_query: bool = False,
        **parameters: object,
    ) -> Results:
        """Name to value, one for every combination of parameters."""
        for row, (ranking, items, given) in enumerate(zip(predictions, references, verdicts, strict=True)):
            if wrong := [verdict for verdict in given if verdict not in VERDICTS]:
                raise DataError(f"query {row} has the verdict {wrong[0]}; a verdict is 0, 1 or 2")
            if lost := sorted(set(items) - set(ranking)):
                raise RunTooShallow(
                    f"{cls.spec.name} of query {row}: its ranking lacks the judged item {lost[0]}. Rank the whole "
                    "gallery."
                )
        gains = [[float(verdict) for verdict in given] for given in verdicts]
        ranks = _rank_judged(GivenRankings(predictions, references, gains))
        return cls.report(partial(cls.spec.function, ranks), parameters, per_query=per_query)


def _rank_judged(rankings: GivenRankings) -> JudgedRanks:
    """Ranks of all judged items; each query has a gallery of its own, that of its ranking."""
    run, ranks = rankings.make_run(), []
    for row in range(len(rankings.references)):
        reader = JudgedRows(rankings.judge(run, np.array([row]), whole=True))
        ByLists(run).rank_all({}, {DIRECTION: [reader]})
        ranks.append(reader.result)
    columns = ("ranks", "verdicts", "n_positives", "n_gallery", "ties")
    values = [np.concatenate([getattr(each, name) for each in ranks]) for name in columns]
    indptr = make_indptr([each.ranks.size for each in ranks])
    return JudgedRanks(np.arange(len(ranks)), indptr, *values)
