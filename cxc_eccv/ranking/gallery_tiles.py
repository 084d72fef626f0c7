"""A shard of a large gallery as tiles of prepared vectors, made when their turn comes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedRun
from cxc_eccv.ranking.product import ALIGNMENT
from cxc_eccv.ranking.vectors import first_twins, prepare, refuse_zero_vectors, row_hashes
from cxc_eccv.types import IntArray
from cxc_eccv.types.embedded import faint_rows

__all__ = ["Positives", "Tile", "tile_of"]

ROWS_AT_ONCE = 256


class Positives:
    """Distinct vectors of the positives, by which a gallery recognises them and their twins.

    Args:
        vectors: (N, D) float32 prepared vectors.

    Attributes:
        distinct: (R, D) those without their copies.
        of_item: (N,) place of each in ``distinct``.
    """

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        leaders, self.of_item = np.unique(first_twins(vectors), return_inverse=True)
        self.distinct = np.ascontiguousarray(vectors[leaders])
        hashes = row_hashes(self.distinct)
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]

    def find(self, vectors: NDArray[np.float32]) -> IntArray:
        """(C,) place in ``distinct`` of the vector with the same bytes; -1 where there is none.

        Example:
            >>> one, two = np.float32([[1, 2]]), np.float32([[3, 4]])
            >>> Positives(one).find(np.concatenate([two, one])).tolist()
            [-1, 0]
        """
        hashes = row_hashes(vectors)
        found = np.full(len(vectors), -1)
        first, last = (np.searchsorted(self._hashes, hashes, side) for side in ("left", "right"))
        for row in np.flatnonzero(first < last).tolist():
            for place in self._order[first[row] : last[row]].tolist():
                if self.distinct[place].tobytes() == vectors[row].tobytes():
                    found[row] = place
        return found


class Tile(NamedTuple):
    """Prepared gallery vectors.

    Attributes:
        vectors: (C, D) float32; C is a multiple of eight.
        padding: columns that hold no item.
        twins: columns of items that are a positive or have the bytes of one.
        places: the distinct positive of each of these.
    """

    vectors: NDArray[np.float32]
    padding: IntArray
    twins: IntArray
    places: IntArray


def tile_of(ids: IntArray, vectors: NDArray[Any], similarity: str, positives: Positives) -> Tile:
    """Prepare a few gallery items.

    Args:
        ids: (C,) their ids, for messages.
        vectors: (C, D) of any floating type.
        similarity: ``cosine`` or ``dot``.
        positives: what to recognise.

    Raises:
        MalformedRun: NaN, infinite values, values too large or too small for float32, or a zero vector, which has no
            cosine.
    """
    with np.errstate(over="ignore", under="ignore"):
        single = np.ascontiguousarray(vectors, dtype=np.float32)
    finite = np.isfinite(single.sum(axis=1, dtype=np.float64))
    if not finite.all():
        raise MalformedRun(
            f"{np.count_nonzero(~finite)} vectors hold NaN or infinite values, or values beyond float32, the first "
            f"for id {ids[~finite][0]}; check the model's output on this item"
        )
    faint = faint_rows(vectors, single)
    if faint.size:
        raise MalformedRun(
            f"{faint.size} vectors are smaller than float32 can tell apart, the first for id {ids[faint[0]]}; multiply "
            "all vectors by one large number"
        )
    out = np.zeros((-(-ids.size // ALIGNMENT) * ALIGNMENT, single.shape[1]), dtype=np.float32)
    for start in range(0, ids.size, ROWS_AT_ONCE):
        own = np.arange(start, min(start + ROWS_AT_ONCE, ids.size))
        refuse_zero_vectors(ids[prepare(single, similarity, own, own, out)], ids.size, "items of a tile")
    places = positives.find(out[: ids.size])
    twins = np.flatnonzero(places >= 0)
    return Tile(out, np.arange(ids.size, len(out)), twins, places[twins])
