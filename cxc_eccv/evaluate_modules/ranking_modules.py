"""``evaluate`` modules of metrics on rankings that a user gives: of ranks, judged items and plausible matches.

Rankings do not show the size of the gallery, which the option ``gallery_size`` gives.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import DataError, InvalidOption, MalformedRun, RunTooShallow, UnknownIds
from cxc_eccv.evaluate_modules.module import (
    Column,
    Example,
    MetricModule,
    Parameters,
    Results,
    id_lists,
    names,
    number_lists,
)
from cxc_eccv.judgments.plausible import CategoryMatches
from cxc_eccv.metrics.kinds import PlausibleMetric, WholeMetric
from cxc_eccv.ranking.by_lists import ByLists
from cxc_eccv.ranking.cut_rankings import GivenRanks, values_at_known_depth
from cxc_eccv.ranking.readers import JudgedRows, PlausibleRows, TopRows
from cxc_eccv.runs.rankings import RankedLists, RankingsRun
from cxc_eccv.runs.run import whole_ids
from cxc_eccv.types import FloatArray, IntArray, JudgedRanks, Judgments, check_whole, look_up_gains
from cxc_eccv.types.ids import make_indptr

DIRECTION = "i2t"
"""A run needs a direction, although the rows of a module have none."""

RANKINGS_COLUMN = Column(
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


@dataclass(frozen=True, slots=True)
class GivenRankings:
    """Rankings of queries 0 to Q - 1 and their references, each with a gain if there are gains."""

    predictions: list[list[int]]
    references: list[list[int]]
    gains: list[list[float]] | None = None

    def make_run(self) -> RankingsRun:
        """The rankings as a run."""
        return RankingsRun({DIRECTION: RankedLists.of(dict(enumerate(self.predictions)), "predictions")})

    def judge(self, run: RankingsRun, rows: IntArray | None = None, *, whole: bool = False) -> Judgments:
        """Judgments of these queries, in a gallery of all ids or, with ``whole``, of the ids in their rankings."""
        rows = np.arange(len(self.references)) if rows is None else rows
        references = [whole_ids(self.references[row], f"references of query {row}") for row in rows.tolist()]
        items = np.concatenate(references)
        gains = None if self.gains is None else np.concatenate([self.gains[row] for row in rows.tolist()])
        if whole:
            gallery = np.unique(np.concatenate([self.predictions[row] for row in rows.tolist()]))
        else:
            gallery = np.union1d(run.lists[DIRECTION].item_ids, items)
        return Judgments.from_pairs(
            rows, gallery, np.repeat(rows, [ids.size for ids in references]), items, gains=gains
        )

    def rank_references(self, gallery_size: ArrayLike | None = None) -> GivenRanks:
        """Ranks of the references, as far as the predictions hold them."""
        run = self.make_run()
        sizes = check_sizes(gallery_size, run)
        ranks = ByLists(run).rank(self.judge(run), DIRECTION)
        n_gallery = ranks.depths if sizes is None else sizes
        complete = np.zeros_like(n_gallery, dtype=bool) if sizes is None else ranks.depths == sizes
        return replace(ranks, n_gallery=n_gallery, complete=complete)


def check_sizes(gallery_size: ArrayLike | None, run: RankingsRun) -> IntArray | None:
    """(Q,) number of items that each query ranks, from one number or one per query; None if unknown."""
    if gallery_size is None:
        return None
    numbers = np.asarray(gallery_size)
    depths = run.lists[DIRECTION].depths
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


RANKED: Example = {"predictions": [[10, 30, 20, 40], [20, 10, 40, 30]]}
POSITIVES = Column(id_lists, "list of int64", "ids of the positives of each query, in any order; at least one.")


class RankingModule(MetricModule):
    """A metric of ranks; predictions are rankings, references are positives."""

    columns: ClassVar[Mapping[str, Column]] = {"predictions": RANKINGS_COLUMN, "references": POSITIVES}
    limits = RANKING_LIMITS
    example: ClassVar[Example] = {**RANKED, "references": [[30, 20], [20]]}
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
        "predictions": RANKINGS_COLUMN,
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
        ranks = GivenRankings(predictions, references).rank_references(gallery_size)
        averaged = cls.spec.of
        direction_of_query = np.array(directions)
        values = []
        for direction, options in itertools.product(("i2t", "t2i"), cls.spec.inputs.values()):
            of_queries = values_at_known_depth(averaged.function, ranks, **options)
            values.append(averaged.average(of_queries[direction_of_query == direction]))
        return {cls.spec.name: float(cls.spec.function(np.array(values), **parameters))}


class GradedRankingModule(MetricModule):
    """A metric of the top K or R; predictions are rankings, references the judged items, gains their grades."""

    columns: ClassVar[Mapping[str, Column]] = {
        "predictions": RANKINGS_COLUMN,
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
    example: ClassVar[Example] = {**RANKED, "references": [[10, 30], [40]], "gains": [[1, 0], [1]]}
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
        sizes = check_sizes(gallery_size, run)
        results = Results()
        for chosen in cls.variants(parameters):
            k = chosen.get("k")
            targets = _find_targets(cls.spec.name, gains, k)
            depths = targets if sizes is None else np.minimum(targets, sizes)
            name = cls.spec.name if k is None else f"{cls.spec.name}(k={k})"
            _refuse_short(name, run.depths(DIRECTION), targets, depths)
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
        values = np.empty(depths.size)
        judged = np.empty(depths.size, dtype=np.int64)
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


def _refuse_short(name: str, lengths: IntArray, targets: IntArray, depths: IntArray) -> None:
    """Raise RunTooShallow if a ranking ends above the depth that the metric looks at."""
    if (short := np.flatnonzero(lengths < depths)).size:
        query = short[0]
        needed = targets[short[0]]
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


ALLOWED_VERDICTS = (0, 1, 2)


class JudgedRankingModule(MetricModule):
    """A metric of judged items: predictions are whole rankings, references the judged items, with a verdict each."""

    columns: ClassVar[Mapping[str, Column]] = {
        "predictions": RANKINGS_COLUMN,
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
        **RANKED,
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
            if wrong := [verdict for verdict in given if verdict not in ALLOWED_VERDICTS]:
                raise DataError(f"query {row} has the verdict {wrong[0]}; a verdict is 0, 1 or 2")
            if lost := sorted(set(items) - set(ranking)):
                raise RunTooShallow(
                    f"{cls.spec.name} of query {row}: its ranking lacks the judged item {lost[0]}. Rank the whole "
                    "gallery."
                )
        gains = [list(map(float, of_query)) for of_query in verdicts]
        ranks = _rank_judged(GivenRankings(predictions, references, gains))
        return cls.report(partial(cls.spec.function, ranks), parameters, per_query=per_query)


def _rank_judged(rankings: GivenRankings) -> JudgedRanks:
    """Ranks of all judged items; each query has a gallery of its own, that of its ranking."""
    run = rankings.make_run()
    ranks = []
    for row in range(len(rankings.references)):
        reader = JudgedRows(rankings.judge(run, np.array([row]), whole=True))
        ByLists(run).rank_all({}, {DIRECTION: [reader]})
        ranks.append(reader.result)
    return JudgedRanks(
        query_ids=np.arange(len(ranks)),
        indptr=make_indptr([each.ranks.size for each in ranks]),
        ranks=np.concatenate([each.ranks for each in ranks]),
        verdicts=np.concatenate([each.verdicts for each in ranks]),
        n_positives=np.concatenate([each.n_positives for each in ranks]),
        n_gallery=np.concatenate([each.n_gallery for each in ranks]),
        ties=np.concatenate([each.ties for each in ranks]),
    )


class PlausibleMatchModule(MetricModule):
    """A metric of plausible matches; predictions are rankings, references the items of the query's image."""

    spec: ClassVar[PlausibleMetric]
    columns: ClassVar[Mapping[str, Column]] = {
        "predictions": RANKINGS_COLUMN,
        "references": Column(
            id_lists,
            "list of int64",
            "ids of the gallery items of the query's image, which give its categories: the captions of an image, or "
            "the image of a caption.",
        ),
    }
    option_texts: ClassVar[Mapping[str, str]] = {
        "categories": "a dict of every gallery item to the ids of its image's categories; required. Items with an "
        "empty list are left out of gallery and rankings.",
    }
    limits = RANKING_LIMITS
    example: ClassVar[Example] = {**RANKED, "references": [[10], [20]]}
    example_options: ClassVar[Example] = {"categories": {10: [1, 18], 20: [3], 30: [3, 44, 62], 40: [18, 1]}}

    @classmethod
    def scores(
        cls,
        predictions: list[list[int]],
        references: list[list[int]],
        *,
        categories: Mapping[int | str, ArrayLike] | None = None,
        per_query: bool = False,
        **parameters: object,
    ) -> Results:
        """Name to value of the result; items without a category are left out of the rankings."""
        rankings = GivenRankings(predictions, references)
        sets = _read_sets(categories)
        rows = np.arange(len(references))
        run = rankings.make_run()
        rankings.judge(run)  # refuses references that are missing or repeated
        lists = run.lists[DIRECTION]
        unknown = np.flatnonzero(np.isin(lists.items, np.setdiff1d(lists.item_ids, list(sets))))
        if unknown.size:
            query = np.searchsorted(lists.indptr, unknown[0], side="right") - 1
            raise UnknownIds(
                f"the ranking of query {query} holds item {lists.items[unknown[0]]}, which is not in categories"
            )
        gallery = np.array([item for item, category_ids in sets.items() if category_ids.size], dtype=np.int64)
        queries = [_find_set(sets, row, items) for row, items in enumerate(references)]
        present = _make_vectors([*queries, *(sets[item] for item in gallery.tolist())])
        matches = CategoryMatches.of(rows, present[: rows.size], gallery, present[rows.size :])
        reader = PlausibleRows(matches, cls.spec.criteria)
        ByLists(run).rank_all({}, {DIRECTION: [reader]})
        return cls.report(partial(cls.spec.function, reader.result), parameters, per_query=per_query)


def _read_sets(categories: Mapping[int | str, ArrayLike] | None) -> dict[int, IntArray]:
    """Item id to the ids of its categories."""
    if not isinstance(categories, Mapping) or not categories:
        raise InvalidOption(f"categories is {categories!r}; give a dict of every gallery id to its category ids")
    return {
        _read_id(item): np.unique(whole_ids(category_ids, f"categories of item {item}"))
        for item, category_ids in categories.items()
    }


def _read_id(key: object) -> int:
    try:
        return int(str(key))  # JSON writes keys as text
    except ValueError:
        raise InvalidOption(f"categories has the key {key!r:.60}; item ids must be whole numbers") from None


def _find_set(sets: Mapping[int, IntArray], row: int, references: Sequence[int]) -> IntArray:
    unknown = [item for item in references if item not in sets]
    if unknown:
        raise UnknownIds(f"references of query {row}: item {unknown[0]} is not in categories")
    first, *others = (sets[item] for item in references)
    if not first.size or any(not np.array_equal(first, other) for other in others):
        fault = "show no category" if not first.size else "show different categories"
        raise DataError(f"the references of query {row} {fault}; give the items of one image with categories")
    return first


def _make_vectors(sets: Sequence[IntArray]) -> NDArray[np.bool_]:
    """(N, C) bool, whether each set has each category that occurs."""
    present_ids = np.unique(np.concatenate(sets))
    return np.stack([np.isin(present_ids, present) for present in sets])
