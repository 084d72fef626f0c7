"""In-batch softmax losses of dual encoders: over a similarity matrix, by who matches whom, over all processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from cxc_eccv.baselines.dual_encoder.pairs import BatchPositives
from cxc_eccv.baselines.training import gather, process_rank
from cxc_eccv.contrastive import in_batch_softmax, mean_of_positives
from cxc_eccv.errors import InvalidOption, UnknownName

__all__ = ["LOSSES", "MODES", "Objective", "one_way_loss", "softmax_without_positive"]


def softmax_without_positive(similarities: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    r"""The CxC paper's loss as printed (arXiv 2004.15020, eq. 1): the denominator leaves out what is positive.

    :math:`L_i = -\frac{1}{|P_i|} \sum_{p \in P_i} S_{ip} + \log \sum_{j \notin P_i} e^{S_{ij}}`. It has no lower bound.
    Shapes as of :func:`in_batch_softmax`; InvalidOption where a row has no negative, as in a batch of one pair.
    """
    if positives.all(1).any():
        raise InvalidOption("a row of the batch has no negative; take batches of at least two pairs")
    negatives = similarities.masked_fill(positives, float("-inf"))
    return negatives.logsumexp(1) - mean_of_positives(similarities, positives)


LOSSES = {"softmax": in_batch_softmax, "paper": softmax_without_positive}
"""Name on the command line to the loss of each row."""


def one_way_loss(
    queries: torch.Tensor, items: torch.Tensor, positives: torch.Tensor, scale: torch.Tensor, loss: str
) -> torch.Tensor:
    """Mean loss of one direction, the half of eq. 1: (K, D) queries against (N, D) items, those of all processes."""
    # Logits and their sums of exponentials need single precision also where features are bf16.
    similarities = scale.float() * (queries.float() @ items.float().T)
    return LOSSES[loss](similarities, positives).mean()


Match = Callable[..., torch.Tensor]
"""A method of BatchPositives."""

MODES = {"t2t": "DE_T2T", "i2t": "DE_I2T", "t2t+i2t": "DE_T2T+I2T"}
"""Name on the command line to the model's name in the CxC paper."""


@dataclass(frozen=True, slots=True)
class Objective:
    """What is minimised (arXiv 2004.15020, eq. 2): ``i2t + t2i + c * t2t``.

    Attributes:
        mode: ``t2t``, ``i2t`` or ``t2t+i2t``.
        loss: ``paper`` or ``softmax``.
        text_weight: c, the weight of the text-text losses beside the image-text ones.
        positives: which items of a batch match.

    Raises:
        UnknownName: no such mode or loss.
        InvalidOption: a weight that is not positive.
    """

    mode: str = "t2t+i2t"
    loss: str = "paper"
    text_weight: float = 1.0
    positives: BatchPositives = field(default_factory=BatchPositives)

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UnknownName("mode", self.mode, MODES)
        if self.loss not in LOSSES:
            raise UnknownName("loss", self.loss, LOSSES)
        if not self.text_weight > 0:
            raise InvalidOption(
                f"text_weight={self.text_weight}: need a weight above 0; mode i2t has no text-text loss"
            )

    @property
    def has_images(self) -> bool:
        """Whether pairs of images and captions are trained."""
        return "i2t" in self.mode

    @property
    def has_text_pairs(self) -> bool:
        """Whether pairs of captions are trained."""
        return "t2t" in self.mode

    def __call__(
        self,
        texts: torch.Tensor,
        images: torch.Tensor | None,
        scale: torch.Tensor,
        text_index: torch.Tensor,
        image_index: torch.Tensor,
    ) -> torch.Tensor:
        """Loss of this process's rows against the items of all processes; its mean over these is the whole batch's.

        ``texts`` are the (K, D) features of captions, or (2 K, D), left ones first, where there are pairs of captions;
        ``images`` (K, D), or None; ``scale`` multiplies dot products. The indices are positions of the captions and
        (K,) of the images among all training ones.
        """
        count, total = len(image_index), texts.new_zeros((), dtype=torch.float32)
        left, left_index = texts[:count], text_index[:count]
        if images is not None:
            matches = self.positives.images_texts, self.positives.texts_images
            total = total + self._both_ways(images, left, image_index, left_index, scale, matches)
        if self.has_text_pairs:
            weight = self.text_weight if images is not None else 1.0
            matches = self.positives.texts, self.positives.texts
            right, right_index = texts[count:], text_index[count:]
            total = total + weight * self._both_ways(left, right, left_index, right_index, scale, matches)
        return total

    def _both_ways(
        self,
        left: torch.Tensor,
        right: torch.Tensor,
        left_index: torch.Tensor,
        right_index: torch.Tensor,
        scale: torch.Tensor,
        matches: tuple[Match, Match],
    ) -> torch.Tensor:
        """Left ones as queries and right ones of all processes as items, and the other way round."""
        offset = process_rank() * len(left)
        forth = matches[0](left_index, gather(right_index), offset=offset)
        back = matches[1](right_index, gather(left_index), offset=offset)
        return one_way_loss(left, gather(right), forth, scale, self.loss) + one_way_loss(
            right, gather(left), back, scale, self.loss
        )
