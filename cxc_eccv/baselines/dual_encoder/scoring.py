"""What a model is selected and reported by: the library's metrics on a whole split, or R@10 on held-out pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cxc_eccv.baselines.char_gru.scoring import link_judgments
from cxc_eccv.baselines.dual_encoder.data import image_paths
from cxc_eccv.baselines.dual_encoder.pairs import TrainingPairs
from cxc_eccv.encoding import encode
from cxc_eccv.evaluation import evaluate
from cxc_eccv.metrics.recall_at_k import recall_at_k
from cxc_eccv.ranking import positive_ranks
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Report

__all__ = ["HeldOutScorer", "SplitScorer"]

PARTS = {
    "t2t": ("t2t", "sts"),
    "i2t": ("i2t", "t2i", "t2t", "sts", "sits"),
    "t2t+i2t": ("i2t", "t2i", "t2t", "sts", "sits"),
}
"""Mode to the parts of task ``cxc`` that its model is scored on."""

TRAINED = {"t2t": ("t2t",), "i2t": ("i2t", "t2i"), "t2t+i2t": ("i2t", "t2i", "t2t")}
"""Mode to the directions whose mean R@10 selects the best checkpoint."""


@dataclass(frozen=True, slots=True)
class SplitScorer:
    """Encodes a split and scores it.

    Attributes:
        library: the raw sources.
        split: ``validation`` or ``test``.
        mode: of the model, as in ``Objective``.
        processing: its tokenizer or processor.
        images: folder with the images, or None for a model of texts alone.
    """

    library: Library
    split: str
    mode: str
    processing: Any
    images: str | None = None

    def __call__(self, model: Any) -> dict[str, float]:  # noqa: ANN401 - any dual encoder
        """Report keys to values, and ``recall_at_10``, the mean over the directions that are trained."""
        scores = self.report(model, tasks=[f"cxc/{part}" for part in PARTS[self.mode]], confidence=None).scores
        trained = [scores[f"cxc/{direction}/recall_at_10"] for direction in TRAINED[self.mode]]
        return {**scores, "recall_at_10": sum(trained) / len(trained)}

    def report(self, model: Any, **options: Any) -> Report:  # noqa: ANN401 - evaluate's
        """The report of the split; ``options`` are those of :func:`cxc_eccv.evaluation.evaluate`."""
        return evaluate(
            self.run(model),
            split=self.split,
            data_dir=self.library,
            progress=False,
            **options,
        )

    def run(self, model: Any) -> EmbeddingsRun:  # noqa: ANN401 - as above
        """Embeddings of every caption of the split, and of every image unless the model is of texts alone."""
        content = self.library.karpathy(self.split)
        images = None
        if self.mode != "t2t":
            paths = image_paths(content.images["file_name"].to_pylist(), self.images)
            images = zip(content.image_ids.tolist(), paths, strict=True)
        return encode(
            model, images=images, captions=content.captions, processor=self.processing, batch_size=128, progress=False
        )


@dataclass(frozen=True, slots=True)
class HeldOutScorer:
    """Retrieval among held-out training images and their captions, by which captions were written for which image.

    Attributes:
        held: the pairs that are not trained on.
        mode: of the model, as in ``Objective``.
        processing: its tokenizer or processor.
    """

    held: TrainingPairs
    mode: str
    processing: Any

    def __call__(self, model: Any) -> dict[str, float]:  # noqa: ANN401 - any dual encoder
        """R@10 of every direction that is trained, and ``recall_at_10``, their mean."""
        texts = [text for group in self.held.groups for text in group.texts]
        owners = np.repeat(np.arange(len(self.held)), np.diff(self.held.starts))
        images = None if self.held.image_paths is None else enumerate(self.held.image_paths)
        run = encode(
            model,
            images=images,
            captions=list(enumerate(texts)),
            processor=self.processing,
            batch_size=128,
            progress=False,
        )
        found = {}
        for direction in TRAINED[self.mode]:
            ranks = positive_ranks(run, link_judgments(owners, direction), direction)
            found[f"held_out/{direction}/recall_at_10"] = float(recall_at_k(ranks, k=10).mean())
        return {**found, "recall_at_10": sum(found.values()) / len(found)}
