"""The processes of a run that torchrun starts, and the exchange of their values."""

from __future__ import annotations

from typing import Any

import torch
from torch import distributed


def process_count() -> int:
    """Number of processes of this run; 1 without torchrun."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def process_rank() -> int:
    """Number of this process, from 0."""
    return distributed.get_rank() if process_count() > 1 else 0


class _AllGather(torch.autograd.Function):
    """Concatenates the values of all processes; the gradient of this process's part is summed over them."""

    @staticmethod
    def forward(_context: Any, values: torch.Tensor) -> torch.Tensor:  # noqa: ANN401 - autograd's own
        parts = [torch.empty_like(values) for _ in range(process_count())]
        distributed.all_gather(parts, values)
        return torch.cat(parts)

    @staticmethod
    def backward(_context: Any, gradient: torch.Tensor) -> torch.Tensor:  # noqa: ANN401 - autograd's own
        total = gradient.clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(total)
        return total.chunk(process_count())[process_rank()]


def gather(values: torch.Tensor) -> torch.Tensor:
    """(processes x K, ...) the (K, ...) values of all processes, by rank, to use as negatives everywhere.

    Gradients from the losses of other processes are summed; data-parallel training then averages over processes, so
    training on K rows per process equals training on all rows in one process. K must be equal on all processes.
    """
    if process_count() == 1:
        return values
    gathered: torch.Tensor = _AllGather.apply(values.contiguous())  # type: ignore[no-untyped-call] # torch's own
    return gathered
