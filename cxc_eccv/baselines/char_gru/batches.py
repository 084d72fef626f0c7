"""Batches that several processes share, each in equal parts."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.utils.data import Sampler

from cxc_eccv.errors import InvalidOption

__all__ = ["SharedBatches"]


class SharedBatches(Sampler[list[tuple[int, int]]]):
    """The batches of an epoch, of which this process yields its part as pairs of epoch and image.

    Which images a batch holds depends on the seed and the epoch alone, not on the number of processes. But the last
    batch of an epoch is cut to a multiple of that number, and left out where fewer than two images remain: these have
    no negative. Its images are in other batches of other epochs.

    Args:
        count: number of images.
        size: images of a batch, over all processes.
        seed: of the orders.
        rank: of this process.
        processes: how many there are.

    Attributes:
        epoch: to be set before each pass.

    Raises:
        InvalidOption: the processes cannot share a batch equally, or there is not one batch.

    Example:
        >>> both = [SharedBatches(7, 4, rank=rank, processes=2) for rank in range(2)]
        >>> [[len(batch) for batch in part] for part in both], sorted(both[0])[0][0][0]
        ([[2, 1], [2, 1]], 0)
    """

    def __init__(self, count: int, size: int, seed: int = 0, *, rank: int = 0, processes: int = 1) -> None:
        if size < 2 or size % processes:
            raise InvalidOption(
                f"a batch of {size} images for {processes} processes; take at least two images, and a multiple of the "
                "processes"
            )
        self.count, self.size, self.seed, self.epoch = count, size, seed, 0
        self.rank, self.processes = rank, processes
        if not len(self):
            raise InvalidOption(f"{count} images make no batch for {processes} processes; train on more")

    def __len__(self) -> int:
        full, last = divmod(self.count, self.size)
        return full + (self._kept(last) > 0)

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        for batch in torch.randperm(self.count, generator=generator).split(self.size):
            share = self._kept(len(batch)) // self.processes
            if share:
                own = batch[self.rank * share : (self.rank + 1) * share]
                yield [(self.epoch, index) for index in own.tolist()]

    def _kept(self, images: int) -> int:
        """Images of a batch that remain once it is shared."""
        shared = images - images % self.processes
        return shared if shared > 1 else 0
