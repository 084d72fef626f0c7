"""PairScorer: the score that a cross-encoder gives an image together with a caption."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from cxc_eccv.encoding.batch_size import checked_batch_size
from cxc_eccv.encoding.image_encoder import ImageInput, Inputs, ready_for
from cxc_eccv.encoding.loading import CROSS_ENCODERS, LoadedModel
from cxc_eccv.encoding.text_input import TextInput
from cxc_eccv.errors import ModelError

__all__ = ["PairScorer"]


class PairScorer:
    """A callable from N images and N captions to (N,) float32 scores.

    The score is the logit of "match"; of a head with two classes its lead over "no match". Unlike the probability it
    does not run into ties at 1.

    Args:
        loaded: a model with an image-text-matching head (ViLT, BLIP, BridgeTower).
        batch_size: pairs at once.

    Raises:
        ModelError: the model has no such head.
    """

    def __init__(self, loaded: LoadedModel, batch_size: int) -> None:
        if not loaded.is_cross_encoder or not isinstance(loaded.model, PreTrainedModel):
            raise ModelError(
                f"{loaded.name} ({type(loaded.model).__name__}) does not score pairs; give one of "
                f"{', '.join(CROSS_ENCODERS)}, or use encode for its embeddings"
            )
        self._model, self._loaded, self.batch_size = loaded.model, loaded, checked_batch_size(batch_size)
        self._texts = TextInput(loaded.tokenizer, loaded.model)
        self.prepare = ImageInput(loaded)

    def truncated(self, texts: Sequence[str]) -> int:
        """How many of the texts are longer than the model's context, and will be cut."""
        limit = self._texts.limit
        return 0 if limit is None else sum(length > limit for length in self._texts.lengths(texts))

    def __call__(self, images: Sequence[Inputs], texts: Sequence[str]) -> NDArray[np.float32]:
        """(N,) scores; images whose tensors differ in shape go through the model apart."""
        groups: dict[tuple[torch.Size, ...], list[int]] = {}
        for place, inputs in enumerate(images):
            groups.setdefault(tuple(tensor.shape for tensor in inputs.values()), []).append(place)
        scores = np.empty(len(texts), dtype=np.float32)
        with torch.inference_mode():
            for group in groups.values():
                tokens = self._texts([texts[place] for place in group]).items()
                inputs = {name: tensor.to(self._loaded.device) for name, tensor in tokens}
                inputs |= ready_for(self._loaded, [images[place] for place in group])
                scores[group] = _match(self._model(**inputs)).float().cpu().numpy()
        return scores


def _match(output: object) -> torch.Tensor:
    """(N,) logits out of (N, 1), or of (N, 2) for "no match" and "match"."""
    logits: torch.Tensor = output.itm_score if hasattr(output, "itm_score") else output.logits  # type: ignore[attr-defined] # one of the two, by the model's class
    return logits[:, 0] if logits.shape[1] == 1 else logits[:, 1].float() - logits[:, 0].float()
