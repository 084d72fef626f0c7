"""The processes that torchrun started, and their communication."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from cxc_eccv.types import IntArray

GROUPS = itertools.count()
"""Counts the groups that this process has made; all processes make the same ones."""


class Processes:
    """This process among those of the run: its ``rank``, 0 for the one that writes, and their ``count``."""

    def __init__(self, rank: int = 0, count: int = 1) -> None:
        self.rank, self.count = rank, count

    def wait(self) -> None:
        """Return once all processes are here."""
        if self.count > 1:
            dist.barrier()

    def gather(self, value: Any) -> list[Any]:  # noqa: ANN401 - any picklable value of our own processes
        """The values of all processes in the order of their ranks, on every process."""
        if self.count == 1:
            return [value]
        values: list[Any] = [None] * self.count
        dist.all_gather_object(values, value)
        return values

    def total(self, counts: IntArray) -> IntArray:
        """Sums over the processes, on every process: one all-reduce."""
        if self.count == 1:
            return counts
        place = "cuda" if dist.get_backend() == "nccl" else "cpu"
        tensor = torch.from_numpy(np.ascontiguousarray(counts, dtype=np.int64)).clone().to(place)
        dist.all_reduce(tensor)
        return np.asarray(tensor.cpu().numpy())


@contextmanager
def join_processes() -> Iterator[Processes]:
    """The processes of the current group, else of torchrun in a group for this context, else this process alone."""
    if dist.is_available() and dist.is_initialized():
        yield Processes(dist.get_rank(), dist.get_world_size())
    elif int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ:
        _make_group()
        try:
            yield Processes(dist.get_rank(), dist.get_world_size())
            # Without it, a process that ends early would close the connection of the others.
            dist.barrier()
        finally:
            dist.destroy_process_group()
    else:
        yield Processes()


def _make_group() -> None:
    # torchrun's store outlives a group, so each group gets a part of it; otherwise it would meet old addresses.
    # Imported here, as not every build of torch has these.
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    store, rank, count = next(iter(rendezvous("env://")))
    part = PrefixStore(f"cxc_eccv/{next(GROUPS)}", store)
    dist.init_process_group("gloo", store=part, rank=rank, world_size=count)


def local_rank() -> int:
    """The number of this process on its machine; 0 without torchrun."""
    return int(os.environ.get("LOCAL_RANK", "0"))
