"""Concepts that images show, for the metrics that explain a failed query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cxc_eccv.errors import DataError
from cxc_eccv.types.ids import FloatArray, IntArray

Concepts = Mapping[str, FloatArray]
"""What one image shows: concept to the areas of its instances, each as a share of the image; NaN where unknown.

A source that tells only which concepts there are gives each an empty array.
"""

Similarity = Callable[[Sequence[str]], FloatArray]
"""From N concepts to their (N, N) similarities, symmetric and in [0, 1], or NaN; asked once for all that occur."""


@dataclass(frozen=True, slots=True, eq=False)
class ConceptPairs:
    """What the right image and the one retrieved in its place show, for every failed query.

    Attributes:
        query_ids: (F,) ids.
        truths: F concepts of the ground truth, at least one each.
        retrieved: F concepts of the image at the top; there may be none.

    Raises:
        DataError: lengths differ, a ground truth shows no concept, or an area is not a share of an image.

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
                    f"the ground truth of query {query_id} shows no concept, so that nothing can agree with it; leave "
                    "the failure out and count it"
                )
        for query_id, shown in self._each_image():
            _check_areas(query_id, shown)

    def __len__(self) -> int:
        return len(self.query_ids)

    def refuse_uncounted(self, metric: str, *, sized: bool = False) -> None:
        """Raise where a concept comes without its instances, whose number would silently be 0.

        Args:
            metric: what counts them, for the message.
            sized: whether it needs the area of each as well.

        Raises:
            DataError: names the first such query and concept.
        """
        for query_id, shown in self._each_image():
            for concept, areas in shown.items():
                if not areas.size or (sized and np.isnan(areas).any()):
                    lack = "an instance of unknown area" if areas.size else "no instances"
                    raise DataError(
                        f"query {query_id}: {concept} comes with {lack}, and {metric} needs "
                        f"{'the size of each' if sized else 'their number'}; take a source that has the box of every "
                        "instance, such as instances_val2014.json, not categories alone"
                    )

    def _each_image(self) -> Iterator[tuple[int, Concepts]]:
        """What each image shows, once, as images come again and again; with the first query that has it."""
        seen: set[int] = set()
        for query_id, *both in zip(self.query_ids, self.truths, self.retrieved, strict=True):
            for shown in both:
                if id(shown) not in seen:
                    seen.add(id(shown))
                    yield int(query_id), shown


def _check_areas(query_id: int, shown: Concepts) -> None:
    """Raise where an area is neither a share of the image nor NaN."""
    areas = np.concatenate(list(shown.values())) if shown else np.empty(0)
    if not ((areas <= 0) | (areas > 1)).any():
        return
    concept, area = next((name, area) for name, own in shown.items() for area in own if area <= 0 or area > 1)
    raise DataError(
        f"query {query_id}: {concept} has an instance of area {area}; need shares of the image, above 0 and at most 1, "
        "or NaN where unknown"
    )
