"""Retrieval on held-out images, what snapshots are selected by; and the agreement with people beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np

from cxc_eccv.baselines.caption_groups import CaptionGroup
from cxc_eccv.baselines.char_gru.ensemble import SELECTION
from cxc_eccv.baselines.char_gru.image_features import ImageFeatures
from cxc_eccv.baselines.dual_encoder.processing import token_ids
from cxc_eccv.encoding.towers import text_encoder
from cxc_eccv.metrics.recall_at_k import recall_at_k
from cxc_eccv.ranking import positive_ranks
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.library import Library
from cxc_eccv.sts import evaluate_sts
from cxc_eccv.sts.evaluation import Encoder
from cxc_eccv.sts.tasks import SPLITS, task_names
from cxc_eccv.types import Embeddings, IntArray, Judgments

__all__ = ["HeldOut", "StsCorrelations", "link_judgments"]

DEPTHS = (1, 5, 10)


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
    groups = np.split(np.argsort(owners, kind="stable"), np.cumsum(np.bincount(owners))[:-1])
    pairs = [pair for group in groups for pair in permutations(group.tolist(), 2)]
    left, right = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return Judgments.from_pairs(np.unique(left), captions, left, right, without_self=True)


class StsCorrelations:
    """Pearson's r of a text encoder on tasks of semantic similarity.

    Args:
        library: the raw sources.
        tasks: as of ``evaluate_sts``.

    Raises:
        UnknownName: no such task.
    """

    def __init__(self, library: Library, tasks: Sequence[str]) -> None:
        self.library, self.tasks = library, task_names(tasks)

    def __call__(self, encoder: Encoder) -> dict[str, float]:
        """Task to r: of the cosine for the STS Benchmark and SICK, the mean over the subtasks for a year.

        With all five years, ``sts`` is the mean over their 24 subtasks.
        """
        report = evaluate_sts(encoder, self.library, self.tasks, classifier=False)
        return {
            f"{task}/pearson": report.row(task, "cosine" if task in SPLITS else "mean").pearson for task in report.tasks
        }


class HeldOut:
    """Measures a model on held-out images: R@1, R@5 and R@10, and the measure that selects.

    Text-text retrieval for a model of captions alone; with image features, both directions between images and captions.
    ``selection`` is the mean of R@10 over the directions, as the paper selects.

    Args:
        groups: held-out captions by image.
        tokenizer: of the model.
        features: of their images, or None.
        similarity: further measures of the text encoder, or None.

    Warns:
        UserWarning: how many captions are cut, as in training.
    """

    def __init__(
        self,
        groups: Sequence[CaptionGroup],
        tokenizer: Any,  # noqa: ANN401 - untyped in transformers
        features: ImageFeatures | None = None,
        similarity: Callable[[Encoder], Mapping[str, float]] | None = None,
    ) -> None:
        self.texts = [text for group in groups for text in group.texts]
        token_ids(tokenizer, self.texts, "held-out captions")
        owners = np.repeat(np.arange(len(groups)), [len(group.texts) for group in groups])
        directions = ("t2t",) if features is None else ("i2t", "t2i")
        self.judgments = {direction: link_judgments(owners, direction) for direction in directions}
        self.tokenizer, self.features, self.similarity = tokenizer, features, similarity
        self.image_ids = np.array([group.image_id for group in groups], dtype=np.int64)

    def __call__(self, model: Any) -> dict[str, float]:  # noqa: ANN401 - likewise
        """Name to value, recalls and correlations as fractions."""
        was_training = model.training
        encoder = text_encoder(model, processor=self.tokenizer, batch_size=256)
        run = EmbeddingsRun(self._images(model), Embeddings(np.arange(len(self.texts)), encoder(self.texts)))
        found: dict[str, float] = {}
        for direction, judgments in self.judgments.items():
            ranks = positive_ranks(run, judgments, direction)
            found |= {f"{direction}/recall_at_{k}": float(recall_at_k(ranks, k=k).mean()) for k in DEPTHS}
        selection = float(np.mean([found[f"{direction}/recall_at_10"] for direction in self.judgments]))
        further = {} if self.similarity is None else self.similarity(encoder)
        model.train(was_training)
        return {SELECTION: selection, **found, **further}

    def _images(self, model: Any) -> Embeddings | None:  # noqa: ANN401 - likewise
        if self.features is None:
            return None
        return Embeddings(np.arange(self.image_ids.size), self.features.encoded(model, self.image_ids))
