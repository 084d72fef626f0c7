"""Concepts that images show, for the metrics that explain failed queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cxc_eccv.errors import DataError
from cxc_eccv.types.ids import FloatArray, IntArray

Concepts = Mapping[str, FloatArray]
"""Concepts of one image: name to the areas of its instances as shares of the image, NaN where unknown.

A source that names concepts without instances gives empty arrays.
"""

Similarity = Callable[[Sequence[str]], FloatArray]
"""Maps N concepts to their (N, N) similarities, symmetric and in [0, 1] or NaN; called once for all concepts."""


@dataclass(frozen=True, slots=True, eq=False)
class ConceptPairs:
    """Concepts of the right image and of the wrongly retrieved image, for every failed query.

    Attributes:
        query_ids: (F,) ids.
        truths: for each query the concepts of its right image, at least one.
        retrieved: for each query the concepts of the image at rank 1, possibly none.

    Raises:
        DataError: lengths differ, a right image shows no concept, or an area is not a share of an image.

    Example:
        >>> import numpy as np
        >>> dog, cat = {"dog.n.01": np.array([0.2])}, {"cat.n.01": np.array([0.1])}
        >>> len(ConceptPairs(np.array([7]), [dog], [cat]))
        1
        >>> ConceptPairs(np.array([7]), [{"dog.n.01": np.array([512.0])}], [cat])
        Traceback (most recent call last):
        cxc_eccv.errors.DataError: query 7: dog.n.01 has an instance of area 512.0; need shares of the image, above 0 \
and at most 1, or NaN where unknown
    """

    query_ids: IntArray
    truths: Sequence[Concepts]
    retrieved: Sequence[Concepts]

    def __post_init__(self) -> None:
        if not len(self.query_ids) == len(self.truths) == len(self.retrieved):
            raise DataError(
                f"{len(self.query_ids)} queries, {len(self.truths)} ground truths and {len(self.retrieved)} retrieved "
                "images: give one of each for every failure"
            )
        for query_id, truth in zip(self.query_ids, self.truths, strict=True):
            if not truth:
                raise DataError(
                    f"the ground truth of query {query_id} shows no concept, so no agreement can be measured; leave "
                    "this failure out"
                )
        for query_id, concepts in self._each_image():
            _check_areas(query_id, concepts)

    def __len__(self) -> int:
        return len(self.query_ids)

    def refuse_uncounted(self, metric: str, *, sized: bool = False) -> None:
        """Raise DataError where a concept has no instances, which would silently count as 0.

        Args:
            metric: the metric that counts instances, for the message.
            sized: whether the metric also needs the area of every instance.
        """
        for query_id, concepts in self._each_image():
            for concept, areas in concepts.items():
                if not areas.size or (sized and np.isnan(areas).any()):
                    lack = "an instance of unknown area" if areas.size else "no instances"
                    raise DataError(
                        f"query {query_id}: {concept} has {lack}, but {metric} needs "
                        f"{'the size of each' if sized else 'their number'}; use a source with a box for every "
                        "instance, such as instances_val2014.json, not categories alone"
                    )

    def _each_image(self) -> Iterator[tuple[int, Concepts]]:
        """The concepts of every distinct image, with the first query that has it."""
        seen: set[int] = set()
        for query_id, *both in zip(self.query_ids, self.truths, self.retrieved, strict=True):
            for concepts in both:
                if id(concepts) not in seen:
                    seen.add(id(concepts))
                    yield int(query_id), concepts


def _check_areas(query_id: int, concepts: Concepts) -> None:
    for concept, areas in concepts.items():
        wrong = areas[(areas <= 0) | (areas > 1)]
        if wrong.size:
            raise DataError(
                f"query {query_id}: {concept} has an instance of area {wrong[0]}; need shares of the image, above 0 "
                "and at most 1, or NaN where unknown"
            )
