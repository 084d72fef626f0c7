"""From the states of a sequence to one vector: attention per feature, or the maximum."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["AttentionPooling", "MaxPooling"]


class AttentionPooling(nn.Module):
    """Vectorial self-attention: every feature has its own weights over the steps.

    ``a_t = softmax_t(V tanh(W h_t + b_w) + b_v)`` and ``Att(h) = sum_t a_t * h_t``, element by element.

    Args:
        state_size: width of a state.
        attention_size: hidden units.

    References:
        Merkx and Frank, Learning semantic sentence representations from visually grounded language without lexical
        knowledge, 2019, arXiv:1903.11393, section 3.1.2.

    Example:
        >>> AttentionPooling(4, 3)(torch.ones(2, 5, 4), torch.ones(2, 5, dtype=torch.bool))[0].tolist()
        [1.0, 1.0, 1.0, 1.0]
    """

    def __init__(self, state_size: int, attention_size: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(state_size, attention_size)
        self.weights = nn.Linear(attention_size, state_size)

    def forward(self, states: Tensor, present: Tensor) -> Tensor:
        """(N, T, D) states and their (N, T) mask to (N, D) vectors."""
        weights = self.weights(torch.tanh(self.hidden(states))).float()
        attention = weights.masked_fill(~present[:, :, None], -torch.inf).softmax(dim=1)
        pooled: Tensor = (attention * states).sum(dim=1)
        return pooled


class MaxPooling(nn.Module):
    """The largest value of every feature over the steps.

    Example:
        >>> states = torch.tensor([[[1.0, 5.0], [3.0, 2.0], [9.0, 9.0]]])
        >>> MaxPooling()(states, torch.tensor([[True, True, False]])).tolist()
        [[3.0, 5.0]]
    """

    def forward(self, states: Tensor, present: Tensor) -> Tensor:
        """(N, T, D) states and their (N, T) mask to (N, D) vectors."""
        return states.masked_fill(~present[:, :, None], -torch.inf).amax(dim=1)
