"""The tokenizer and the image processor of a model, alone or together in one processor."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from cxc_eccv.baselines.dual_encoder.gathering import process_rank
from cxc_eccv.errors import TowerMissing

__all__ = ["image_processor_of", "token_ids", "tokenizer_of"]


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
