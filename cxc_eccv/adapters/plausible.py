"""``evaluate`` modules of metrics that need plausible matches: items whose images show nearly the same categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.adapters.inputs import Column, id_lists
from cxc_eccv.adapters.module import MetricModule, results_of
from cxc_eccv.errors import DataError, InvalidOption, RunTooShallow, UnknownIds
from cxc_eccv.judgments.plausible import CategoryMatches, Look, PlausibleHits
from cxc_eccv.ranking.lists import given_ranks, id_array
from cxc_eccv.types import IntArray, positions_of

__all__ = ["PlausibleMatchModule"]

Sets = dict[int, IntArray]
"""Item id to the ids of its categories."""


class PlausibleMatchModule(MetricModule):
    """A metric of plausible matches: predictions are rankings, references the query's own items.

    Example:
        >>> from cxc_eccv.metrics.pmrp_at_50 import SPEC
        >>> class PmrpAt50(PlausibleMatchModule):
        ...     spec = SPEC
        >>> shown = {7: [1, 18], 8: [1], 9: [18, 1]}
        >>> PmrpAt50.scores({"predictions": [[8, 7, 9]], "references": [[7]]}, categories=shown)
        {'pmrp_at_50': 0.5}
    """

    columns: ClassVar[Mapping[str, Column]] = {"predictions": id_lists, "references": id_lists}

    @classmethod
    def scores(
        cls,
        inputs: Mapping[str, list[Any]],
        *,
        categories: Mapping[Any, ArrayLike] | None = None,
        per_query: bool = False,
        **parameters: Any,  # noqa: ANN401 - the metric's own
    ) -> dict[str, Any]:
        """Name to value of the one result.

        Args:
            inputs: ``predictions``, Q lists of ranked gallery ids, and ``references``, Q lists of the items of the
                query's own image: the captions of an image, the image of a caption.
            categories: every gallery item to the ids of its image's categories; needed. Items without any are left out
                of the rankings.
            per_query: add the Q values behind the result.
            **parameters: of the metric.

        Raises:
            RunTooShallow: a ranking ends before the number of plausible matches.
            UnknownIds: an item that is not in ``categories``.
            DataError: a query whose items have no categories, or not the same.
            RunError, InvalidOption: bad rankings, categories, options.
        """
        given_ranks(inputs["predictions"], inputs["references"])
        sets = _sets(categories)
        shown = np.array([item for item, own in sets.items() if own.size], dtype=np.int64)
        queries = [_query_set(sets, row, own) for row, own in enumerate(inputs["references"])]
        present = _vectors([*queries, *(sets[item] for item in shown.tolist())])
        rows = np.arange(len(queries))
        matches = CategoryMatches.of(rows, present[: rows.size], shown, present[rows.size :])
        ranked = [_known(sets, row, ids, shown) for row, ids in enumerate(inputs["predictions"])]
        values = cls.spec.function(_hits(matches, ranked, cls.spec.looks, cls.spec.name), **parameters)
        return results_of(cls.spec, cls.spec.name, values, per_query=per_query)


def _sets(categories: Mapping[Any, ArrayLike] | None) -> Sets:
    if not isinstance(categories, Mapping) or not categories:
        raise InvalidOption(f"categories is {categories!r}; give a dict of every gallery id to its category ids")
    return {_item_id(item): np.unique(id_array(own, f"categories of item {item}")) for item, own in categories.items()}


def _item_id(key: object) -> int:
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return int(key)
    if isinstance(key, str) and key.isascii() and key.isdecimal():  # as JSON writes them
        return int(key)
    raise InvalidOption(f"categories has the key {key!r}; item ids are whole numbers")


def _query_set(sets: Sets, row: int, references: Sequence[int]) -> IntArray:
    unknown = [item for item in references if item not in sets]
    if unknown:
        raise UnknownIds(f"references of query {row}: item {unknown[0]} is not in categories")
    own, *others = (sets[item] for item in references)
    if not own.size or any(not np.array_equal(own, other) for other in others):
        found = "show no category" if not own.size else "show different categories"
        raise DataError(f"the references of query {row} {found}; they are the items of its own image, which needs one")
    return own


def _vectors(sets: Sequence[IntArray]) -> NDArray[np.bool_]:
    """(N, C) presence of each category that occurs."""
    sizes = [own.size for own in sets]
    present_ids, columns = np.unique(np.concatenate(sets), return_inverse=True)
    vectors = np.zeros((len(sets), present_ids.size), dtype=bool)
    vectors[np.repeat(np.arange(len(sets)), sizes), columns] = True
    return vectors


def _known(sets: Sets, row: int, ranking: Sequence[int], shown: IntArray) -> IntArray:
    """Positions in the gallery of the ranked items that show a category."""
    unknown = [item for item in ranking if item not in sets]
    if unknown:
        raise UnknownIds(f"the ranking of query {row} holds item {unknown[0]}, which is not in categories")
    places, kept = positions_of(ranking, shown)
    return places[kept]


def _hits(matches: CategoryMatches, ranked: Sequence[IntArray], looks: tuple[Look, ...], metric: str) -> PlausibleHits:
    sizes = np.bincount(matches.gallery_classes, minlength=len(matches.distances))
    n_matches = np.array([(matches.distances <= zeta) @ sizes for zeta, _ in looks])[:, matches.query_classes].T
    cuts = np.array([np.iinfo(np.int64).max if cut is None else cut for _, cut in looks])
    depths = np.minimum(n_matches, cuts)
    hits = np.zeros_like(depths)
    for row, places in enumerate(ranked):
        if places.size < depths[row].max():
            raise RunTooShallow(
                f"{metric} of query {row} looks at the top {depths[row].max()}, but its ranking ends at rank "
                f"{places.size} (items without categories left out). Rank at least {depths.max()} items, or the whole "
                "gallery."
            )
        distances = matches.distances[matches.query_classes[row], matches.gallery_classes[places]]
        for look, (zeta, _) in enumerate(looks):
            hits[row, look] = np.count_nonzero(distances[: depths[row, look]] <= zeta)
    return PlausibleHits(matches.query_ids, looks, n_matches, hits, np.zeros(len(ranked), dtype=np.int64))
