"""Products and counts on a torch device; torch is imported only when a device is named."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import InvalidOption
from cxc_eccv.ranking.counts import Counts
from cxc_eccv.ranking.scores import twins_of
from cxc_eccv.types import IntArray

SCORES_AT_ONCE = 2**26
FLAGS_AT_ONCE = 2**25


class DeviceProduct:
    """The product of rows and laid-out columns on a device; use it within :func:`full_precision`."""

    def __init__(
        self,
        torch: Any,  # noqa: ANN401 - the module
        device: str,
        rows: NDArray[np.float32],
        columns: NDArray[np.float32],
        padding: IntArray,
        self_columns: IntArray | None,
    ) -> None:
        self.height, self.width = len(rows), len(columns)
        self.rows_at_once = max(1, min(self.height, SCORES_AT_ONCE // self.width))
        self._torch, self._device, self._self_columns = torch, device, self_columns
        self._rows, self._columns = self._move(rows), self._move(columns)
        self._originals, self._copies = map(self._move, twins_of(columns))
        self._padding = self._move(padding)

    def room(self, _size: int) -> None:
        """None, as torch manages its memory."""

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
        size = max(1, FLAGS_AT_ONCE // self.width)
        for start in range(0, rows.size, size):
            pairs = slice(start, start + size)
            row_tensor = self._move(rows[pairs])
            scores, competing = block[row_tensor, self._move(columns[pairs])], block[row_tensor]
            counts.scores[pairs] = scores.cpu().numpy()
            counts.at_least[pairs] = self._count_segments(competing >= scores[:, None], bounds)
            counts.above[pairs] = self._count_segments(competing > scores[:, None], bounds)
        return counts

    def _count_segments(self, flags: Any, bounds: IntArray) -> IntArray:  # noqa: ANN401 - a (P, width) tensor
        edges = itertools.pairwise(bounds.tolist())
        sums = [self._torch.count_nonzero(flags[:, left:right], dim=1) for left, right in edges]
        return np.asarray(self._torch.stack(sums, dim=1).cpu().numpy())

    def _move(self, values: NDArray[Any]) -> Any:  # noqa: ANN401 - a tensor
        return self._torch.from_numpy(np.ascontiguousarray(values)).to(self._device)


def torch_on(device: str) -> Any:  # noqa: ANN401 - the torch module
    """The torch module; raises InvalidOption if the ``device`` (``cuda``, ``cuda:1``, ``cpu``) cannot be used."""
    if importlib.util.find_spec("torch") is None:
        raise InvalidOption(
            f"device {device!r} needs torch, which is not installed: pip install torch; or leave the device out"
        )
    torch = importlib.import_module("torch")
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidOption(f"device {device!r} cannot be used: {reason}; leave it out to use the CPU") from None
    return torch


@contextmanager
def full_precision(torch: Any, device: str) -> Iterator[None]:  # noqa: ANN401 - the torch module
    """A context with true float32 products: no TF32, no bfloat16, no autocast, no gradients.

    TF32 keeps 10 bits of the mantissa, so hundreds of items would falsely tie with a positive.
    """
    with ExitStack() as stack:
        for settings in (torch.backends.cuda.matmul, getattr(torch.backends.mkldnn, "matmul", None)):
            stack.enter_context(_exact(settings))
        stack.enter_context(torch.autocast(torch.device(device).type, enabled=False))
        stack.enter_context(torch.inference_mode())
        yield


@contextmanager
def _exact(settings: Any) -> Iterator[None]:  # noqa: ANN401 - a settings object of torch
    """Set exact products: newer versions of torch name a precision, older ones have a flag for TF32."""
    name, exact = ("fp32_precision", "ieee") if hasattr(settings, "fp32_precision") else ("allow_tf32", False)
    if not hasattr(settings, name):
        yield
        return
    before = getattr(settings, name)
    setattr(settings, name, exact)
    try:
        yield
    finally:
        setattr(settings, name, before)
