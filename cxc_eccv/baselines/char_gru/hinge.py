"""The hinge loss over all negatives of a batch, in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor

from cxc_eccv.baselines.dual_encoder.gathering import gathered

__all__ = ["hinge_loss", "hinge_loss_of_processes", "hinge_loss_of_views"]


def hinge_loss(left: Tensor, right: Tensor, margin: float = 0.2) -> Tensor:
    r"""Mean over the ordered pairs of two different rows of a batch.

    ``max(0, cos(l_i, r_j) - cos(l_i, r_i) + margin) + max(0, cos(r_i, l_j) - cos(r_i, l_i) + margin)`` for ``i != j``.
    The paper prints the sum; the mean differs by a factor that Adam's steps do not feel, and does not grow with the
    batch.

    Args:
        left: (N, D) unit vectors, N > 1.
        right: (N, D) unit vectors; row i belongs to row i of ``left``.
        margin: by how much the match must exceed a mismatch.

    Returns:
        () the loss, float32.

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
    """Mean of the hinge loss over all pairs of views: the captions of an image, and the image where there is one.

    Args:
        views: at least two (N, D) tensors of unit vectors; row i of each belongs to image i.
        margin: of the hinge loss.

    Example:
        >>> one, other = torch.eye(2), torch.eye(2).flip(0)
        >>> round(float(hinge_loss_of_views([one, one, other])), 3)
        1.6
    """
    losses = [hinge_loss(left, right, margin) for left, right in combinations(views, 2)]
    return torch.stack(losses).mean()


def hinge_loss_of_processes(views: Sequence[Tensor], margin: float = 0.2) -> Tensor:
    """The loss of the batch that all processes share: every process computes the whole of it.

    The gathered vectors collect the gradients of all processes, and data-parallel training takes their mean: so weights
    get the gradient of one process with the whole batch.

    Args:
        views: as of :func:`hinge_loss_of_views`, of this process's images; as many on every process.
        margin: of the hinge loss.

    Raises:
        InvalidOption: processes hold different numbers of images.

    Example:
        >>> one, other = torch.eye(2), torch.eye(2).flip(0)
        >>> round(float(hinge_loss_of_processes([one, one, other])), 3)
        1.6
    """
    return hinge_loss_of_views(gathered(torch.stack(list(views), dim=1)).unbind(dim=1), margin)
