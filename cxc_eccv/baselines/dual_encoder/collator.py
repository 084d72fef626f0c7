"""From training pairs to one batch of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cxc_eccv.encoding.pictures import open_picture

__all__ = ["PairCollator"]


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
