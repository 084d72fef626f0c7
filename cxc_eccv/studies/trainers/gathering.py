"""The values of all processes, to use as negatives, with their gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import distributed

from cxc_eccv.encoding.processes import current_processes


class _AllGather(torch.autograd.Function):
    """Concatenates the values of all processes; the gradient of this process's part is summed over them."""

    @staticmethod
    def forward(_context: Any, values: torch.Tensor) -> torch.Tensor:  # noqa: ANN401 - autograd's own
        parts = [torch.empty_like(values) for _ in range(current_processes().count)]
        distributed.all_gather(parts, values)
        return torch.cat(parts)

    @staticmethod
    def backward(_context: Any, gradient: torch.Tensor) -> torch.Tensor:  # noqa: ANN401 - autograd's own
        total = gradient.clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(total)
        processes = current_processes()
        return total.chunk(processes.count)[processes.rank]


def gather(values: torch.Tensor) -> torch.Tensor:
    """(processes x K, ...) the (K, ...) values of all processes, by rank, to use as negatives everywhere.

    Gradients from the losses of other processes are summed; data-parallel training then averages over processes, so
    training on K rows per process equals training on all rows in one process. K must be equal on all processes.
    """
    if current_processes().count == 1:
        return values
    gathered: torch.Tensor = _AllGather.apply(values.contiguous())  # type: ignore[no-untyped-call] # torch's own
    return gathered
