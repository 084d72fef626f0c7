"""The tokenizer and the image processor of a model, alone or together in one processor."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cxc_eccv.baselines.dual_encoder.gathering import process_rank
from cxc_eccv.encoding.towers import open_picture
from cxc_eccv.errors import TowerMissing

__all__ = ["PairCollator", "image_processor_of", "token_ids", "tokenizer_of"]


def tokenizer_of(processing: Any) -> Any:  # noqa: ANN401 - tokenizers share no type
    """The tokenizer.

    Raises:
        TowerMissing: there is none.
    """
    tokenizer = getattr(processing, "tokenizer", processing)
    if not hasattr(tokenizer, "pad"):
        raise TowerMissing(f"{type(processing).__name__} holds no tokenizer: the model has no text side")
    return tokenizer


def image_processor_of(processing: Any) -> Any:  # noqa: ANN401 - image processors share no type
    """The image processor.

    Raises:
        TowerMissing: there is none.
    """
    processor = getattr(processing, "image_processor", None)
    if processor is None:
        raise TowerMissing(f"{type(processing).__name__} holds no image processor: the model has no image side")
    return processor


def token_ids(tokenizer: Any, texts: Sequence[str], kind: str = "captions") -> list[list[int]]:  # noqa: ANN401 - as above
    """Token ids of every text, cut to the model's context.

    Args:
        tokenizer: of the model; its ``model_max_length`` is the context.
        texts: raw.
        kind: what to call them in a warning.

    Warns:
        UserWarning: how many texts were cut; on the first process.
    """
    whole: list[list[int]] = tokenizer(list(texts), return_attention_mask=False, verbose=False)["input_ids"]
    context = int(tokenizer.model_max_length)
    longer = [row for row, ids in enumerate(whole) if len(ids) > context]
    if longer:
        message = f"{len(longer)} of {len(whole)} {kind} are longer than the context of {context} tokens and are cut"
        if process_rank() == 0:
            warnings.warn(message, stacklevel=2)
        cut = tokenizer([texts[row] for row in longer], return_attention_mask=False, truncation=True)["input_ids"]
        for row, ids in zip(longer, cut, strict=True):
            whole[row] = ids
    return whole


@dataclass(frozen=True, slots=True)
class PairCollator:
    """Pads captions and loads images.

    A batch of K items has ``input_ids`` and ``attention_mask`` of K captions, or of the 2 K captions of text pairs: K
    left ones, then K right ones; ``text_index`` of the same length; ``image_index`` (K,); ``pixel_values`` where items
    have images.

    Attributes:
        tokenizer: pads token ids.
        image_processor: resizes and normalises images; None without images.
        length: tokens that every caption is padded to; None for those of the longest in the batch.
    """

    tokenizer: Any
    image_processor: Any = None
    length: int | None = None

    def __call__(self, items: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """The batch.

        Raises:
            SourceMissing, MalformedSource: an image that is missing, broken, or of 16 bits a channel; names it.
        """
        sides = range(len(items[0]["texts"]))
        captions = [{"input_ids": item["texts"][side]} for side in sides for item in items]
        padding = "longest" if self.length is None else "max_length"
        batch: dict[str, torch.Tensor] = dict(
            self.tokenizer.pad(captions, padding=padding, max_length=self.length, return_tensors="pt")
        )
        batch["text_index"] = torch.tensor([item["text_index"][side] for side in sides for item in items])
        batch["image_index"] = torch.tensor([item["image_index"] for item in items])
        if "image_path" in items[0]:
            images = [item["image"] if "image" in item else open_picture(item["image_path"]).image for item in items]
            batch["pixel_values"] = self.image_processor(images, return_tensors="pt")["pixel_values"]
        return batch
