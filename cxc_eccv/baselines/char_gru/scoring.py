"""Retrieval of held-out captions: what snapshots are selected by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cxc_eccv.baselines.caption_groups import CaptionGroup
from cxc_eccv.baselines.char_gru.image_features import ImageFeatures
from cxc_eccv.baselines.dual_encoder.processing import token_ids
from cxc_eccv.encoding.text_encoder import text_encoder
from cxc_eccv.metrics.recall_at_k import recall_at_k
from cxc_eccv.ranking import positive_ranks
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings, IntArray, Judgments

__all__ = ["HeldOut", "link_judgments"]


def link_judgments(owners: IntArray, direction: str) -> Judgments:
    """Positives by the image that captions were written for; captions and images are numbered through.

    Args:
        owners: (captions,) number of each caption's image.
        direction: ``t2t``, ``i2t`` or ``t2i``.

    Example:
        >>> link_judgments(np.array([0, 0, 1, 1, 1]), "t2t").n_positives.tolist()
        [1, 1, 2, 2, 2]
    """
    captions, images = np.arange(owners.size), np.arange(owners.max() + 1)
    if direction == "i2t":
        return Judgments.from_pairs(images, captions, owners, captions)
    if direction == "t2i":
        return Judgments.from_pairs(captions, images, captions, owners)
    left, right = np.nonzero((owners[:, None] == owners[None, :]) & ~np.eye(owners.size, dtype=bool))
    return Judgments.from_pairs(np.unique(left), captions, left, right, without_self=True)


class HeldOut:
    """Scores a model by R@10 on held-out images.

    Text-text retrieval for a model of captions alone; with image features, the mean of both directions between images
    and captions, as the paper selects.

    Args:
        groups: held-out captions by image.
        tokenizer: of the model.
        features: of their images, or None.

    Warns:
        UserWarning: how many captions are cut, as in training.
    """

    def __init__(
        self,
        groups: Sequence[CaptionGroup],
        tokenizer: Any,  # noqa: ANN401 - untyped in transformers
        features: ImageFeatures | None = None,
    ) -> None:
        self.texts = [text for group in groups for text in group.texts]
        token_ids(tokenizer, self.texts, "held-out captions")
        self.owners = np.repeat(np.arange(len(groups)), [len(group.texts) for group in groups])
        self.tokenizer, self.features = tokenizer, features
        self.image_ids = np.array([group.image_id for group in groups], dtype=np.int64)

    def __call__(self, model: Any) -> float:  # noqa: ANN401 - likewise
        """R@10 in [0, 1]."""
        was_training = model.training
        captions = Embeddings(
            np.arange(self.owners.size), text_encoder(model, processor=self.tokenizer, batch_size=256)(self.texts)
        )
        run = EmbeddingsRun(self._images(model), captions)
        model.train(was_training)
        directions = ("t2t",) if run.images is None else ("i2t", "t2i")
        found = [
            recall_at_k(positive_ranks(run, link_judgments(self.owners, one), one), k=10).mean() for one in directions
        ]
        return float(np.mean(found))

    def _images(self, model: Any) -> Embeddings | None:  # noqa: ANN401 - likewise
        if self.features is None:
            return None
        return Embeddings(np.arange(self.image_ids.size), self.features.encoded(model, self.image_ids))
