"""The cyclic learning rate: smoothly from the lower bound to the upper one and back, over and over."""

from __future__ import annotations

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from cxc_eccv.errors import InvalidOption

__all__ = ["cyclic_cosine", "cyclic_cosine_rate"]


def cyclic_cosine_rate(step: int, cycle: int, highest: float, lowest: float) -> float:
    """The learning rate after ``step`` optimiser steps.

    ``0.5 (highest - lowest) (1 + cos(pi (1 + 2 step / cycle))) + lowest``: the lowest rate at the start and end of a
    cycle, the highest in its middle. The paper prints ``0.5 step x mb`` inside the cosine, where ``step`` is the number
    of batches of a cycle and ``mb`` those processed; only ``mb / (0.5 step)`` makes a cycle that long.

    Args:
        step: batches processed so far.
        cycle: batches of a cycle.
        highest: upper bound.
        lowest: lower bound.

    References:
        Merkx and Frank 2019, arXiv:1903.11393, section 3.3; after Smith, Cyclical learning rates, WACV 2017.

    Example:
        >>> [round(cyclic_cosine_rate(step, 4, 1.0, 0.0), 2) for step in range(6)]
        [0.0, 0.5, 1.0, 0.5, 0.0, 0.5]
    """
    return 0.5 * (highest - lowest) * (1 + math.cos(math.pi * (1 + 2 * step / cycle))) + lowest


def cyclic_cosine(optimizer: Optimizer, cycle: int, lowest: float) -> LambdaLR:
    """The schedule for an optimiser whose learning rate is the upper bound.

    Raises:
        InvalidOption: a cycle below one step, or bounds in the wrong order.
    """
    highest = float(optimizer.defaults["lr"])
    if cycle < 1 or not 0 <= lowest <= highest or highest == 0:
        raise InvalidOption(
            f"a learning rate between {lowest} and {highest} in cycles of {cycle} steps: the lower bound must not "
            "exceed the upper one, the upper one must be positive, and a cycle has at least one step"
        )
    return LambdaLR(optimizer, lambda step: cyclic_cosine_rate(step, cycle, highest, lowest) / highest)
