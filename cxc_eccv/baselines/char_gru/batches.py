"""Batches that several processes share, each in equal parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch.utils.data import Sampler

from cxc_eccv.errors import InvalidOption

__all__ = ["Draw", "SharedBatches"]

Draw = tuple[int, int, int]
"""Epoch, image, and which of the image's rows."""


class SharedBatches(Sampler[list[Draw]]):
    """The batches of an epoch, of which this process yields its part: every row of every image once.

    An epoch has rounds, as the paper's own code has: in the first round every image gives its first row, in the second
    every image with two rows its second, and so on. So no batch holds an image twice, whose captions would count as
    mismatches of each other. An image that a round leaves over joins the batch before it, as it has no negative alone.

    Which rows a batch holds depends on the seed and the epoch alone, not on the number of processes. But the last batch
    of a round is cut to a multiple of that number, and left out where fewer images remain than processes, or one alone;
    its rows are in other batches of other epochs.

    Args:
        rows: number of rows of each image.
        size: images of a batch, over all processes.
        seed: of the orders.
        rank: of this process.
        processes: how many there are.

    Attributes:
        epoch: to be set before each pass.

    Raises:
        InvalidOption: the processes cannot share a batch equally, or there is not one batch.

    Example:
        >>> both = [SharedBatches([1] * 7, 4, rank=rank, processes=2) for rank in range(2)]
        >>> [[len(batch) for batch in part] for part in both]
        [[2, 1], [2, 1]]
        >>> sorted((image, row) for batch in SharedBatches([2, 2, 1], 2) for _, image, row in batch)
        [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]
    """

    def __init__(self, rows: Sequence[int], size: int, seed: int = 0, *, rank: int = 0, processes: int = 1) -> None:
        if size < 2 or size % processes:
            raise InvalidOption(
                f"a batch of {size} images for {processes} processes; take at least two images, and a multiple of the "
                "processes"
            )
        counts = torch.tensor(rows, dtype=torch.int64)
        self._rounds = [(counts > row).nonzero().flatten() for row in range(max(rows, default=0))]
        self.size, self.seed, self.epoch = size, seed, 0
        self.rank, self.processes = rank, processes
        if not len(self):
            raise InvalidOption(f"{len(rows)} images make no batch for {processes} processes; train on more")

    def __len__(self) -> int:
        shared = [count for images in self._rounds for count in self._sizes(len(images)) if self._share(count)]
        return len(shared)

    def __iter__(self) -> Iterator[list[Draw]]:
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        for row, images in enumerate(self._rounds):
            order = images[torch.randperm(len(images), generator=generator)]
            for batch in order.split(self._sizes(len(images))):
                share = self._share(len(batch))
                own = batch[self.rank * share : (self.rank + 1) * share]
                if share:
                    yield [(self.epoch, image, row) for image in own.tolist()]

    def _sizes(self, images: int) -> list[int]:
        """Images of each batch of a round, over all processes."""
        full, left = divmod(images, self.size)
        sizes = [self.size] * full + [left] * (left > 0)
        return [*sizes[:-2], sizes[-2] + 1] if left == 1 and full else sizes

    def _share(self, images: int) -> int:
        """Images of a batch that each process takes; 0 where a batch of two cannot be made of it."""
        share = images // self.processes
        return share if share * self.processes > 1 else 0
