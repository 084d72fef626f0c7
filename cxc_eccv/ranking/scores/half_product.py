"""Scores within one modality: they are symmetric, so half of the product holds them all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.counts import ScoresTooAlike
from cxc_eccv.ranking.scores.product import ALIGNMENT
from cxc_eccv.ranking.scores.vectors import first_twins
from cxc_eccv.types import IntArray

__all__ = ["HalfProduct", "left_edge"]


class HalfProduct:
    """The upper half of the scores of vectors against themselves, any block of rows at a time.

    A block of rows reaches from (about) its own diagonal to the right end. Scores of byte-identical vectors are
    identical wherever they stand, as rows or as columns: they come from one small product of their own.

    Args:
        vectors: (width, D) float32, zero in the padding.
        padding: positions that hold no item.
        without_self: whether the diagonal is left out.
        shared_bytes: most memory for the scores of byte-identical vectors.

    Raises:
        ScoresTooAlike: these do not fit.
    """

    def __init__(
        self, vectors: NDArray[np.float32], padding: IntArray, *, without_self: bool, shared_bytes: int
    ) -> None:
        self.height = self.width = len(vectors)
        self._vectors = vectors
        self._padding, self._without_self = padding, without_self
        first = first_twins(vectors)
        copies = np.flatnonzero(first != np.arange(first.size))
        leaders = np.unique(first[copies])
        self._group = np.where(np.isin(first, leaders), np.searchsorted(leaders, first), -1)
        if leaders.size * len(vectors) * vectors.itemsize > shared_bytes:
            raise ScoresTooAlike
        self._shared = _symmetric(vectors[leaders] @ vectors.T, leaders, self._group)

    def room(self, size: int) -> NDArray[np.float32]:
        """Memory for one block."""
        return np.empty(size * self.width, dtype=np.float32)

    def fill(self, start: int, stop: int, room: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scores of rows ``start`` to ``stop`` from column ``left_edge(start)`` on; minus infinity where none counts.

        Left of ``start``, in the padding, and where asked on the diagonal, the scores are minus infinity.
        """
        left = left_edge(start)
        height, width = stop - start, self.width - left
        block = room[: height * width].reshape(height, width)
        np.matmul(self._vectors[start:stop], self._vectors[left:].T, out=block)
        for row in np.flatnonzero(self._group[start:stop] >= 0).tolist():
            block[row] = self._shared[self._group[start + row], left:]
        twins = left + np.flatnonzero(self._group[left:] >= 0)
        block[:, twins - left] = self._shared[self._group[twins], start:stop].T
        block[:, : start - left] = -np.inf
        block[:, self._padding[self._padding >= left] - left] = -np.inf
        if self._without_self:
            rows = np.arange(height)
            block[rows, rows + start - left] = -np.inf
        return block


def left_edge(start: int) -> int:
    """First column of a block of rows that begins at ``start``, aligned so that flags can be counted by the word.

    Example:
        >>> left_edge(19)
        16
    """
    return start - start % ALIGNMENT


def _symmetric(shared: NDArray[np.float32], leaders: IntArray, group: IntArray) -> NDArray[np.float32]:
    """Scores of the shared vectors, of which those among themselves are made symmetric, and equal for copies."""
    among = np.triu(shared[:, leaders])
    among += np.triu(among, 1).T
    members = np.flatnonzero(group >= 0)
    shared[:, members] = among[:, group[members]]
    return shared
