"""A tile of a large gallery: products of queries with its items, and their counts, in NumPy or on a torch device."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.kernels import row_counts
from cxc_eccv.types import IntArray

DEVICE_FLAGS_AT_ONCE = 2**25


class Tile(Protocol):
    """Multiplies ``rows_at_once`` queries with the items, and counts in the product."""

    rows_at_once: int

    def move(self, values: NDArray[Any]) -> Any:  # noqa: ANN401 - an array, or a tensor on a device
        """The values where the product is."""

    def multiply(self, rows: slice) -> Any:  # noqa: ANN401 - an array, or a tensor on a device
        """The scores of these queries; the next product may overwrite them."""

    def count(self, block: Any, rows: IntArray, scores: NDArray[np.float32]) -> IntArray:  # noqa: ANN401
        """(2, P) items in P rows of a product that score at least as high as P scores, and higher."""


class HostTile:
    """(C, D) items in NumPy, C a multiple of eight, to be multiplied with (Q, D) queries."""

    rows_at_once = 512

    def __init__(self, queries: NDArray[np.float32], items: NDArray[np.float32]) -> None:
        self._queries = queries
        self._items = items
        self._room = np.empty((min(len(queries), self.rows_at_once), len(items)), dtype=np.float32)

    def move(self, values: NDArray[Any]) -> NDArray[Any]:
        """The values as they are."""
        return values

    def multiply(self, rows: slice) -> NDArray[np.float32]:
        """The scores of these queries."""
        queries = self._queries[rows]
        block: NDArray[np.float32] = np.matmul(queries, self._items.T, out=self._room[: len(queries)])
        return block

    def count(self, block: NDArray[np.float32], rows: IntArray, scores: NDArray[np.float32]) -> IntArray:
        """(2, P) items that score at least as high, and higher."""
        reached = row_counts(block, rows, scores, scores, np.array([0, len(self._items)]))
        return np.stack([reached.at_least[:, 0], reached.above[:, 0]])


class DeviceTile:
    """(C, D) items moved to the device of (Q, D) queries; for use under ``full_precision`` of ``device.py``.

    All threads share its flags of precision. Autocast is off in a new thread, and the queries need no gradients.
    """

    rows_at_once = 4096

    def __init__(self, torch: Any, queries: Any, items: NDArray[np.float32]) -> None:  # noqa: ANN401 - module, tensor
        self._torch = torch
        self._queries = queries
        self._items = self.move(items)

    def move(self, values: NDArray[Any]) -> Any:  # noqa: ANN401 - a tensor
        """The values on the device."""
        return self._torch.tensor(values, device=self._queries.device)

    def multiply(self, rows: slice) -> Any:  # noqa: ANN401 - a tensor
        """The scores of these queries."""
        return self._queries[rows] @ self._items.T

    def count(self, block: Any, rows: IntArray, scores: NDArray[np.float32]) -> IntArray:  # noqa: ANN401 - a tensor
        """(2, P) items that score at least as high, and higher."""
        counts = np.empty((2, rows.size), dtype=np.int64)
        size = max(1, DEVICE_FLAGS_AT_ONCE // len(self._items))
        for start in range(0, rows.size, size):
            pairs = slice(start, start + size)
            competing = block[self.move(rows[pairs])]
            limits = self.move(scores[pairs])[:, None]
            reached = (competing >= limits).sum(dim=1), (competing > limits).sum(dim=1)
            counts[:, pairs] = self._torch.stack(reached).cpu().numpy()
        return counts
