"""Concepts that images show, for the metrics that explain a failed query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cxc_eccv.errors import DataError
from cxc_eccv.types.ids import FloatArray, IntArray

__all__ = ["ConceptPairs", "Concepts"]

Concepts = Mapping[str, FloatArray]
"""What one image shows: concept to the areas of its instances, each as a share of the image; NaN where unknown.

A source that tells only which concepts there are gives each an empty array.
"""


@dataclass(frozen=True, slots=True, eq=False)
class ConceptPairs:
    """What the right image and the one retrieved in its place show, for every failed query.

    Attributes:
        query_ids: (F,) ids.
        truths: F concepts of the ground truth, at least one each.
        retrieved: F concepts of the image at the top; there may be none.

    Raises:
        DataError: lengths differ, or a ground truth shows no concept.

    Example:
        >>> import numpy as np
        >>> dog, cat = {"dog.n.01": np.array([0.2])}, {"cat.n.01": np.array([0.1])}
        >>> len(ConceptPairs(np.array([7]), [dog], [cat]))
        1
    """

    query_ids: IntArray
    truths: list[Concepts]
    retrieved: list[Concepts]

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

    def __len__(self) -> int:
        return len(self.query_ids)
