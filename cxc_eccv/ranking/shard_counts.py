"""Counts of one shard of a gallery, which add up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, MalformedRun, MissingIds
from cxc_eccv.types import IntArray, positions_of

__all__ = ["ShardCounts"]


@dataclass(frozen=True, slots=True, eq=False)
class ShardCounts:
    """What a shard of the gallery adds to the ranks of P positive pairs; ``+`` adds disjoint shards.

    The fields are plain arrays, to be saved and sent between processes.

    Attributes:
        at_least: (P,) items that score as high or higher, the positive itself included where it is in the shard.
        above: (P,) items that score higher.
        covered: (N,) whether each gallery item is in the shard, eight to a byte.
    """

    at_least: IntArray
    above: IntArray
    covered: NDArray[np.uint8]

    def __add__(self, other: ShardCounts) -> ShardCounts:
        """Counts of both shards.

        Raises:
            DataError: they have items in common.
        """
        common = int(np.unpackbits(self.covered & other.covered).sum())
        if common:
            raise DataError(f"two shards have {common} items in common; every item must be counted once")
        return ShardCounts(self.at_least + other.at_least, self.above + other.above, self.covered | other.covered)

    @staticmethod
    def coverage(ids: IntArray, vectors: NDArray[Any], gallery_ids: IntArray, width: int) -> NDArray[np.uint8]:
        """Which gallery items a shard holds.

        Args:
            ids: (C,) ids of the shard.
            vectors: (C, D) its vectors.
            gallery_ids: (N,) ids of the whole gallery.
            width: the D of the queries.

        Raises:
            DataError: an id that is not of the gallery, or occurs twice.
            MalformedRun: the shapes do not fit.

        Example:
            >>> ShardCounts.coverage(np.array([9]), np.ones((1, 2)), np.array([7, 8, 9]), 2).tolist()
            [32]
        """
        if vectors.ndim != 2 or vectors.shape != (ids.size, width) or vectors.dtype.kind != "f":
            raise MalformedRun(
                f"a shard of {ids.size} ids has vectors {vectors.shape} of type {vectors.dtype}; need "
                f"{(ids.size, width)}, floating"
            )
        places, known = positions_of(ids, gallery_ids)
        if not known.all():
            raise DataError(
                f"the shard has {np.count_nonzero(~known)} items outside the gallery, first {ids[~known][0]}"
            )
        covered = np.zeros(gallery_ids.size, dtype=bool)
        covered[places] = True
        if np.count_nonzero(covered) != ids.size:
            raise DataError("the shard lists an id twice; every item must be counted once")
        return np.packbits(covered)

    def refuse_gaps(self, gallery_ids: IntArray) -> None:
        """Refuse counts that do not cover the gallery.

        Raises:
            MissingIds: says how many items are missing, and the first.
        """
        covered = np.unpackbits(self.covered, count=gallery_ids.size).astype(bool)
        if not covered.all():
            raise MissingIds(
                f"{np.count_nonzero(~covered)} of {gallery_ids.size} gallery items were in no shard, the first: "
                f"{gallery_ids[~covered][0]}. Count the remaining shards and add them."
            )
