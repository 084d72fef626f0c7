"""Features of all processes with exact gradients, so that every process's batch serves the others as negatives."""

from __future__ import annotations

import torch
from torch import distributed
from torch.distributed.nn.functional import all_gather

from cxc_eccv.errors import InvalidOption

__all__ = ["gathered", "process_count", "process_rank"]


def process_count() -> int:
    """Processes of this run; 1 without torchrun.

    Example:
        >>> process_count()
        1
    """
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def process_rank() -> int:
    """Number of this process, from 0."""
    return distributed.get_rank() if process_count() > 1 else 0


def gathered(values: torch.Tensor) -> torch.Tensor:
    """(processes x K, ...) the values of all processes, by rank.

    The gradient of what other processes compute from this process's values is summed into them. As data-parallel
    training averages gradients over processes, K rows of loss per process train exactly as all rows on one would.

    Args:
        values: (K, ...), the same K on all processes.

    Raises:
        InvalidOption: processes hold batches of different sizes.

    Example:
        >>> gathered(torch.ones(2, 3)).shape
        torch.Size([2, 3])
    """
    if process_count() == 1:
        return values
    sizes = [torch.zeros(1, dtype=torch.long, device=values.device) for _ in range(process_count())]
    distributed.all_gather(sizes, torch.tensor([len(values)], device=values.device))
    if len({int(size) for size in sizes}) > 1:
        raise InvalidOption(f"batches of {[int(size) for size in sizes]} items on the processes; they must be equal")
    if values.requires_grad:
        return torch.cat(all_gather(values))
    parts = [torch.empty_like(values) for _ in range(process_count())]
    distributed.all_gather(parts, values.contiguous())
    return torch.cat(parts)
