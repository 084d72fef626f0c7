"""``evaluate`` modules of metrics on plausible matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.adapters.given_rankings import DIRECTION, RANKING_LIMITS, RANKINGS, GivenRankings
from cxc_eccv.adapters.module import Column, Example, MetricModule, Results, id_lists
from cxc_eccv.errors import DataError, InvalidOption, UnknownIds
from cxc_eccv.judgments.plausible import CategoryMatches
from cxc_eccv.metrics.kinds import PlausibleMetric
from cxc_eccv.ranking.by_lists import ByLists
from cxc_eccv.ranking.readers import PlausibleRows
from cxc_eccv.runs.run import whole_ids
from cxc_eccv.types import IntArray

Sets = dict[int, IntArray]
"""Item id to the ids of its categories."""


class PlausibleMatchModule(MetricModule):
    """A metric of plausible matches; predictions are rankings, references the items of the query's image."""

    spec: ClassVar[PlausibleMetric]
    columns: ClassVar[Mapping[str, Column]] = {
        "predictions": RANKINGS,
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
    example: ClassVar[Example] = {
        "predictions": [[10, 30, 20, 40], [20, 10, 40, 30]],
        "references": [[10], [20]],
    }
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
        rankings, sets, rows = (
            GivenRankings(predictions, references),
            _read_sets(categories),
            np.arange(len(references)),
        )
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


def _read_sets(categories: Mapping[int | str, ArrayLike] | None) -> Sets:
    if not isinstance(categories, Mapping) or not categories:
        raise InvalidOption(f"categories is {categories!r}; give a dict of every gallery id to its category ids")
    return {
        _read_id(item): np.unique(whole_ids(category_ids, f"categories of item {item}"))
        for item, category_ids in categories.items()
    }


def _read_id(key: object) -> int:
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return int(key)
    if isinstance(key, str) and key.isascii() and key.isdecimal() and len(key) < 19:  # as JSON writes them
        return int(key)
    raise InvalidOption(f"categories has the key {key!r:.60}; item ids must be whole numbers")


def _find_set(sets: Sets, row: int, references: Sequence[int]) -> IntArray:
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
    sizes = [present.size for present in sets]
    present_ids, columns = np.unique(np.concatenate(sets), return_inverse=True)
    vectors = np.zeros((len(sets), present_ids.size), dtype=bool)
    vectors[np.repeat(np.arange(len(sets)), sizes), columns] = True
    return vectors
