"""In-batch softmax losses of dual encoders: functions of a similarity matrix and of who matches whom."""

from __future__ import annotations

import torch

from cxc_eccv.errors import InvalidOption, UnknownName

__all__ = ["LOSSES", "in_batch_softmax", "one_way_loss", "softmax_without_positive"]


def in_batch_softmax(similarities: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    r"""The usual in-batch softmax, its denominator over the whole row.

    :math:`L_i = -\frac{1}{|P_i|} \sum_{p \in P_i} \left(S_{ip} - \log \sum_j e^{S_{ij}}\right)`; with one positive per
    row this is cross-entropy, with several the loss of Khosla et al. (arXiv 2004.11362, eq. 2).

    Args:
        similarities: (K, N) scaled similarities of K queries and N items.
        positives: (K, N) bool, at least one per row.

    Returns:
        (K,) loss of each row.

    Example:
        >>> eye = torch.eye(2, dtype=torch.bool)
        >>> in_batch_softmax(torch.zeros(2, 2), eye).exp().tolist()
        [2.0, 2.0]
    """
    return similarities.logsumexp(1) - _mean_of_positives(similarities, positives)


def softmax_without_positive(similarities: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    r"""The CxC paper's loss as printed (arXiv 2004.15020, eq. 1): the denominator leaves out what is positive.

    :math:`L_i = -\frac{1}{|P_i|} \sum_{p \in P_i} S_{ip} + \log \sum_{j \notin P_i} e^{S_{ij}}`. It has no lower bound.

    Args:
        similarities: (K, N) scaled similarities of K queries and N items.
        positives: (K, N) bool, at least one per row.

    Returns:
        (K,) loss of each row.

    Raises:
        InvalidOption: a row has no negative, as in a batch of one pair.

    Example:
        >>> eye = torch.eye(3, dtype=torch.bool)
        >>> softmax_without_positive(torch.zeros(3, 3), eye).exp().tolist()
        [2.0, 2.0, 2.0]
    """
    if positives.all(1).any():
        raise InvalidOption("a row of the batch has no negative; take batches of at least two pairs")
    negatives = similarities.masked_fill(positives, float("-inf"))
    return negatives.logsumexp(1) - _mean_of_positives(similarities, positives)


LOSSES = {"softmax": in_batch_softmax, "paper": softmax_without_positive}
"""Name on the command line to the loss of each row."""


def one_way_loss(
    queries: torch.Tensor, items: torch.Tensor, positives: torch.Tensor, scale: torch.Tensor, loss: str
) -> torch.Tensor:
    """Mean loss of one direction, the half of eq. 1.

    Args:
        queries: (K, D) features.
        items: (N, D) features, those of all processes where there are several.
        positives: (K, N) bool.
        scale: scalar that dot products are multiplied by.
        loss: one of :data:`LOSSES`.

    Raises:
        UnknownName: no such loss.
    """
    if loss not in LOSSES:
        raise UnknownName("loss", loss, LOSSES)
    # Logits and their sums of exponentials need single precision also where features are bf16.
    similarities = scale.float() * (queries.float() @ items.float().T)
    return LOSSES[loss](similarities, positives).mean()


def _mean_of_positives(similarities: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    return similarities.masked_fill(~positives, 0).sum(1) / positives.sum(1)
