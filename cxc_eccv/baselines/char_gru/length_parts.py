"""Encoding a batch in parts of like length, so that little of it is padding."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["encoded_by_length"]

ROWS = 128
"""Captions of one part."""


def encoded_by_length(
    encode: Callable[[Tensor, Tensor], Tensor], input_ids: Tensor, attention_mask: Tensor, rows: int = ROWS
) -> Tensor:
    """What ``encode`` makes of a batch, given to it in parts of like length, each without its surplus padding.

    Args:
        encode: ids and mask of some rows to their (n, D) vectors; a row's vector must not depend on the others.
        input_ids: (N, T), padded on the right.
        attention_mask: (N, T).
        rows: captions of one part.

    Returns:
        (N, D) in the order of the batch.

    Example:
        >>> ids = torch.tensor([[3, 0, 0], [1, 2, 3], [5, 5, 0]])
        >>> encoded_by_length(lambda part, mask: part.sum(1, keepdim=True), ids, (ids > 0).long(), rows=1).tolist()
        [[3], [6], [10]]
    """
    lengths = attention_mask.sum(dim=1)
    order = lengths.argsort()
    parts = []
    for places in torch.split(order, rows):
        longest = int(lengths[places].max())
        parts.append(encode(input_ids[places, :longest], attention_mask[places, :longest]))
    return torch.cat(parts)[order.argsort()]
