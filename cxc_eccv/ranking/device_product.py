"""Products and counts on a torch device."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.ranking.counts import Counts
from cxc_eccv.ranking.scores import Options, Scores, find_twins
from cxc_eccv.types import IntArray

DEVICE_SCORES_AT_ONCE = 2**26
DEVICE_FLAGS_AT_ONCE = 2**25


class DeviceProduct(Scores):
    """The product of rows and laid-out columns on a device; use it within :func:`full_precision`."""

    threads = 1

    def __init__(
        self,
        torch: Any,  # noqa: ANN401 - the module
        options: Options,
        rows: NDArray[np.float32],
        columns: NDArray[np.float32],
        padding: IntArray,
        self_columns: IntArray | None,
    ) -> None:
        self.height = len(rows)
        self.width = len(columns)
        self.rows_at_once = options.block_size or max(1, min(self.height, DEVICE_SCORES_AT_ONCE // self.width))
        self._torch = torch
        self._device = options.device
        self._self_columns = self_columns
        self._rows = self._move(rows)
        self._columns = self._move(columns)
        self._originals, self._copies = map(self._move, find_twins(columns))
        self._padding = self._move(padding)

    def fill(self, start: int, stop: int, _room: None) -> Any:  # noqa: ANN401 - a tensor
        """(stop - start, width) scores on the device."""
        block = self._rows[start:stop] @ self._columns.T
        block[:, self._copies] = block[:, self._originals]
        block[:, self._padding] = -self._torch.inf
        if self._self_columns is not None:
            columns = self._self_columns[start:stop]
            rows = np.flatnonzero(columns >= 0)
            block[self._move(rows), self._move(columns[rows])] = -self._torch.inf
        return block

    def count_rows(self, block: Any, rows: IntArray, columns: IntArray, bounds: IntArray) -> Counts:  # noqa: ANN401
        """Count pairs on the device, see :data:`cxc_eccv.ranking.counts.CountRows`."""
        counts = Counts.zeros(rows.size, bounds.size - 1)
        size = max(1, DEVICE_FLAGS_AT_ONCE // self.width)
        for start in range(0, rows.size, size):
            pairs = slice(start, start + size)
            row_tensor = self._move(rows[pairs])
            scores = block[row_tensor, self._move(columns[pairs])]
            competing = block[row_tensor]
            counts.scores[pairs] = scores.cpu().numpy()
            counts.at_least[pairs] = self._count_segments(competing >= scores[:, None], bounds)
            counts.above[pairs] = self._count_segments(competing > scores[:, None], bounds)
        return counts

    def to_host(self, block: Any) -> NDArray[Any]:  # noqa: ANN401 - a tensor
        """The block as an array."""
        return np.asarray(block.cpu().numpy())

    def _count_segments(self, flags: Any, bounds: IntArray) -> IntArray:  # noqa: ANN401 - a (P, width) tensor
        edges = itertools.pairwise(bounds.tolist())
        sums = [self._torch.count_nonzero(flags[:, left:right], dim=1) for left, right in edges]
        return np.asarray(self._torch.stack(sums, dim=1).cpu().numpy())

    def _move(self, values: NDArray[Any]) -> Any:  # noqa: ANN401 - a tensor
        return self._torch.from_numpy(np.ascontiguousarray(values)).to(self._device)
