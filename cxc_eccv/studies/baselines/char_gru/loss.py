"""The loss of the character GRU, its Trainer, and the cyclic schedule of the learning rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader

from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.baselines.char_gru.data import HeldOut, SharedBatches, collate
from cxc_eccv.studies.trainers.enhanced import Row
from cxc_eccv.studies.trainers.trainer import EpochCallback, WholeTrainer, gather


def hinge_loss(left: Tensor, right: Tensor, margin: float = 0.2) -> Tensor:
    r"""Mean over the ordered pairs of two different rows of a batch, in float32.

    ``max(0, cos(l_i, r_j) - cos(l_i, r_i) + margin) + max(0, cos(r_i, l_j) - cos(r_i, l_i) + margin)`` for ``i != j``,
    where row i of one side, (N, D) unit vectors, belongs to row i of the other. The paper prints the sum; the mean
    differs by a factor that does not change Adam's steps, and does not grow with the batch.

    References:
        Merkx and Frank 2019, arXiv:1903.11393, section 3.1.2.

    Example:
        >>> left = torch.eye(2)
        >>> round(float(hinge_loss(left, left)), 3), round(float(hinge_loss(left, left.flip(0))), 3)
        (0.0, 2.4)
    """
    similarity = left.float() @ right.float().T
    match = similarity.diagonal()
    onward = (similarity - match[:, None] + margin).clamp(min=0)
    back = (similarity - match[None, :] + margin).clamp(min=0)
    different = ~torch.eye(len(similarity), dtype=torch.bool, device=similarity.device)
    return (onward + back)[different].mean()


def hinge_loss_of_views(views: Sequence[Tensor], margin: float = 0.2) -> Tensor:
    """Mean over all pairs of views: (N, D) unit vectors of a caption of each of N images, or of the images."""
    losses = [hinge_loss(left, right, margin) for left, right in combinations(views, 2)]
    return torch.stack(losses).mean()


def hinge_loss_of_processes(views: Sequence[Tensor], margin: float = 0.2) -> Tensor:
    """The loss of the batch of all processes, computed on each of them, since gradients are averaged."""
    return hinge_loss_of_views(gather(torch.stack(list(views), dim=1)).unbind(dim=1), margin)


def describe_pairs(captions: int, *, has_images: bool) -> str:
    """A sentence that says which pairs of an image's captions and features the loss had."""
    between_captions = comb(captions, 2)
    if not has_images:
        return (
            f"Its loss had {between_captions} pairs of captions of each image and no image, while the paper's has "
            "pairs of an image and a caption."
        )
    if captions == 1:
        return "Its loss had pairs of an image and a caption, as the paper's."
    return (
        f"Its loss had {captions + between_captions} pairs of each image: {captions} of the image and a caption, and "
        f"{between_captions} of two captions, while the paper's has only pairs of an image and a caption."
    )


class CharGruTrainer(WholeTrainer):
    """A Trainer with the hinge loss over the images of all processes, a mean over the batch."""

    loss_is_scaled_for_ga = False

    def __init__(self, *, batches: SharedBatches, held_out: HeldOut, **options: Any) -> None:  # noqa: ANN401 - Trainer's own
        self.batches = batches
        self.held_out = held_out
        super().__init__(**options)
        self.add_callback(EpochCallback(batches))

    def get_train_dataloader(self) -> DataLoader[Row]:
        """The batches of :class:`SharedBatches`, which are already split among the processes."""
        rows: Any = self.train_dataset
        return DataLoader(rows, batch_sampler=self.batches, collate_fn=collate)

    def measure(self) -> dict[str, float]:
        """Recalls on the held-out images."""
        return self.held_out(self.accelerator.unwrap_model(self.model))

    def compute_loss(self, model: torch.nn.Module, inputs: Row, *_: Any, **_options: Any) -> Tensor:  # noqa: ANN401 - Trainer's own
        """The loss of the whole batch, the same on every process."""
        return hinge_loss_of_processes(model(**inputs).views, self.accelerator.unwrap_model(model).config.margin)


def cyclic_cosine(optimizer: Optimizer, cycle: int, lowest: float) -> LambdaLR:
    """The cyclic schedule of an optimiser whose learning rate is the upper bound; ``cycle`` is in steps."""
    highest = float(optimizer.defaults["lr"])
    if cycle < 1 or not 0 <= lowest <= highest or highest == 0:
        raise InvalidOption(
            f"learning rate from {lowest} to {highest} in cycles of {cycle} steps: the lower bound must not exceed the "
            "upper one, the upper one must be positive, and a cycle needs at least one step"
        )
    return LambdaLR(optimizer, lambda step: cyclic_cosine_rate(step, cycle, highest, lowest) / highest)


def cyclic_cosine_rate(step: int, cycle: int, highest: float, lowest: float) -> float:
    """The learning rate after ``step`` optimiser steps.

    ``0.5 (highest - lowest) (1 + cos(pi (1 + 2 step / cycle))) + lowest``: the lowest rate at the start and end of a
    cycle, the highest in its middle. The paper prints ``0.5 step x mb`` inside the cosine, where ``step`` is the number
    of batches of a cycle and ``mb`` those processed; only ``mb / (0.5 step)`` makes a cycle that long.

    References:
        Merkx and Frank 2019, arXiv:1903.11393, section 3.3; after Smith, Cyclical learning rates, WACV 2017.

    Example:
        >>> [round(cyclic_cosine_rate(step, 4, 1.0, 0.0), 2) for step in range(6)]
        [0.0, 0.5, 1.0, 0.5, 0.0, 0.5]
    """
    return 0.5 * (highest - lowest) * (1 + math.cos(math.pi * (1 + 2 * step / cycle))) + lowest
