"""Captions encoded in groups of similar length, which on a processor saves the work that padding would take."""

from __future__ import annotations

from collections.abc import Callable

import torch

__all__ = ["encoded_by_length"]

ROWS = 64
"""Captions in a group."""

Encode = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def encoded_by_length(encode: Encode, input_ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """(T, L, W) states of every token, 0 where there is none.

    A GPU takes the whole batch at once.

    Args:
        encode: (t, l) tokens and mask to (t, l, W) states; a caption's states do not depend on padding.
        input_ids: (T, L).
        mask: (T, L), 0 for padding.

    Example:
        >>> ids = torch.tensor([[1, 2, 3], [4, 0, 0]])
        >>> encoded_by_length(lambda ids, mask: ids[..., None].float(), ids, (ids > 0).long()).squeeze(-1).tolist()
        [[1.0, 2.0, 3.0], [4.0, 0.0, 0.0]]
    """
    if input_ids.device.type != "cpu" or len(input_ids) <= ROWS:
        return encode(input_ids, mask)
    columns = torch.arange(1, mask.shape[1] + 1)
    ends = (mask.bool() * columns).amax(1)
    order = ends.argsort()
    parts = []
    for rows in order.split(ROWS):
        width = max(1, int(ends[rows].max()))
        states = encode(input_ids[rows, :width], mask[rows, :width])
        parts.append(torch.nn.functional.pad(states, (0, 0, 0, mask.shape[1] - width)))
    return torch.cat(parts)[order.argsort()]
