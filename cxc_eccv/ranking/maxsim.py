"""MaxSim of items with several vectors: a source of blocks of scores, and the scores of single pairs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedRun
from cxc_eccv.ranking.counts import MergedJudgments
from cxc_eccv.ranking.scores import Layout, leave_out_self, places_of, prepare, refuse_extremes, refuse_zero_vectors
from cxc_eccv.runs.multi_vectors import MultiVectorRun, MultiVectors
from cxc_eccv.types import FloatArray, IntArray, RatedPairs, sides_of

VECTORS_AT_ONCE = 1024

Room = tuple[NDArray[np.float32], NDArray[np.float32]]
"""A block, and the products of the vectors of two tiles."""

Prepared = tuple[NDArray[np.float32], IntArray]
"""The vectors of n items, and the (n + 1,) bounds of the items among them."""


class MaxSim:
    """The MaxSim of every query with every item, as :class:`~cxc_eccv.runs.multi_vectors.MultiVectorRun` defines it.

    Vectors are multiplied tile by tile, a tile being items with about a thousand vectors, so that products stay in the
    processor's cache. Items with byte-identical vectors in the same order have identical scores in every row.
    """

    def __init__(
        self, run: MultiVectorRun, direction: str, merged: MergedJudgments, layout: Layout, similarity: str
    ) -> None:
        query_side, gallery_side = sides_of(direction)
        self.height, self.width = merged.query_ids.size, layout.width
        self._sums_over_items = direction == "i2t"
        self._queries = _Tiles(run, query_side, merged.query_ids, similarity)
        self._items = _Tiles(run, gallery_side, merged.gallery_ids, similarity)
        if similarity == "dot":
            refuse_extremes(
                self._queries.vectors, self._items.vectors, self._queries.id_of_vectors, self._items.id_of_vectors
            )
        first = self._items.find_twins()
        is_copy = first != np.arange(first.size)
        self._distinct = np.flatnonzero(~is_copy)
        self._column, self._padding = layout.column, layout.padding
        self._copies, self._originals = layout.column[is_copy], layout.column[first[is_copy]]
        self._self_columns = merged.self_columns(layout.column)

    def room(self, size: int) -> Room:
        """Memory for one block and for one product of tiles."""
        block = np.zeros((size, self.width), dtype=np.float32)
        return block, np.empty(self._queries.most_vectors * self._items.most_vectors, dtype=np.float32)

    def fill(self, start: int, stop: int, room: Room) -> NDArray[np.float32]:
        """Scores of rows ``start`` to ``stop``; raises MalformedRun if a sum is beyond float32."""
        block, products = room[0][: stop - start], room[1]
        for chosen in self._items.split(self._distinct):
            items, columns = self._items.prepare(chosen), self._column[chosen]
            for rows in self._queries.split(np.arange(start, stop)):
                queries = self._queries.prepare(rows)
                if self._sums_over_items:
                    scores = maxsim(items, queries, products).T
                else:
                    scores = maxsim(queries, items, products)
                if not np.isfinite(scores).all():
                    raise MalformedRun("sums of products are beyond float32; multiply all vectors by a small number")
                block[rows[0] - start : rows[-1] + 1 - start, columns] = scores
        block[:, self._copies] = block[:, self._originals]
        block[:, self._padding] = -np.inf
        leave_out_self(block, self._self_columns, start)
        return block


def maxsim(summed: Prepared, searched: Prepared, room: NDArray[np.float32]) -> NDArray[np.float32]:
    """(S, N) sums, over the vectors of each of S items, of the highest product with a vector of each of N items."""
    (vectors, bounds), (others, edges) = summed, searched
    products = room[: len(others) * len(vectors)].reshape(len(others), len(vectors))
    np.matmul(others, vectors.T, out=products)
    highest = np.empty((edges.size - 1, len(vectors)), dtype=np.float32)
    for place, (start, stop) in enumerate(itertools.pairwise(edges.tolist())):
        np.maximum.reduce(products[start:stop], axis=0, out=highest[place])
    with np.errstate(over="ignore"):
        return np.asarray(np.add.reduceat(highest, bounds[:-1], axis=1).T)


def maxsim_of_pairs(run: MultiVectorRun, direction: str, rated: RatedPairs, similarity: str) -> FloatArray:
    """(P,) MaxSim of pairs of an image and a caption."""
    sides = []
    for side, ids in zip(sides_of(direction), (rated.query_ids, rated.item_ids), strict=True):
        distinct, places = np.unique(ids, return_inverse=True)
        sides.append((_Tiles(run, side, distinct, similarity), places))
    (captions, rows), (images, columns) = sides[::-1] if direction == "i2t" else sides
    if similarity == "dot":
        refuse_extremes(captions.vectors, images.vectors, captions.id_of_vectors, images.id_of_vectors)
    room = np.empty(captions.most_vectors * images.most_vectors, dtype=np.float32)
    pairs, occurrence = np.unique(np.column_stack([rows, columns]), axis=0, return_inverse=True)
    scores = [maxsim(captions.prepare(row), images.prepare(column), room) for row, column in pairs[:, :, None]]
    return np.ravel(scores).astype(np.float64)[occurrence.ravel()]


class _Tiles:
    """The chosen items of one side, whose vectors are prepared when they are needed."""

    def __init__(self, run: MultiVectorRun, side: str, ids: IntArray, similarity: str) -> None:
        places = places_of(ids, run, side)
        chosen: MultiVectors = getattr(run, side)
        self.vectors, self._similarity = chosen.all_vectors, similarity
        self.id_of_vectors = np.repeat(chosen.ids, np.diff(chosen.offsets))
        self._starts = chosen.offsets[places]
        self._lengths = chosen.offsets[places + 1] - self._starts
        self.most_vectors = max(VECTORS_AT_ONCE, int(self._lengths.max()))
        if similarity == "cosine":
            zero = np.logical_or.reduceat(~self.vectors.any(axis=1), chosen.offsets[:-1])[places]
            refuse_zero_vectors(ids[zero], ids.size, side, run.path or "run")

    def split(self, items: IntArray) -> Iterator[IntArray]:
        """Parts of the items in their order, with at most ``most_vectors`` vectors each."""
        ends, first = np.cumsum(self._lengths[items]), 0
        while first < items.size:
            before = int(ends[first - 1]) if first else 0
            stop = int(np.searchsorted(ends, before + self.most_vectors, side="right"))
            yield items[first:stop]
            first = stop

    def prepare(self, items: IntArray) -> Prepared:
        """The vectors of the items, scaled to unit length for ``cosine``."""
        bounds = np.append(0, np.cumsum(self._lengths[items]))
        targets = np.arange(bounds[-1])
        places = targets + np.repeat(self._starts[items] - bounds[:-1], self._lengths[items])
        out = np.empty((targets.size, self.vectors.shape[1]), dtype=np.float32)
        prepare(self.vectors, self._similarity, places, targets, out)
        return out, bounds

    def find_twins(self) -> IntArray:
        """(N,) index of the first item with the same prepared vectors."""
        seen: dict[bytes, int] = {}
        first = []
        for part in self.split(np.arange(self._starts.size)):
            vectors, bounds = self.prepare(part)
            for item, (start, stop) in zip(part.tolist(), itertools.pairwise(bounds.tolist()), strict=True):
                first.append(seen.setdefault(blake2b(vectors[start:stop].data).digest(), item))
        return np.array(first)
