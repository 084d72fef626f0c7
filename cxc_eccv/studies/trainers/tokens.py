"""Tokenizers and processors, and token ids of captions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from cxc_eccv.encoding.processes import current_processes
from cxc_eccv.errors import TowerMissing

# Tokenizers and processors of transformers share no type.
AnyTokenizer = Any
Processing = Any


def token_ids(tokenizer: AnyTokenizer, texts: Sequence[str], kind: str = "captions") -> list[list[int]]:
    """Token ids of every text, truncated to the tokenizer's ``model_max_length``; the first process counts them."""
    whole: list[list[int]] = tokenizer(list(texts), return_attention_mask=False, verbose=False)["input_ids"]
    context = int(tokenizer.model_max_length)
    longer = [row for row, ids in enumerate(whole) if len(ids) > context]
    if longer:
        if current_processes().rank == 0:
            message = f"{len(longer)} of {len(whole)} {kind} exceed the context of {context} tokens and are truncated"
            warnings.warn(message, stacklevel=2)
        cut = tokenizer([texts[row] for row in longer], return_attention_mask=False, truncation=True)["input_ids"]
        for row, ids in zip(longer, cut, strict=True):
            whole[row] = ids
    return whole


def find_tokenizer(processing: Any) -> Any:  # noqa: ANN401 - tokenizers share no type
    """A tokenizer, or that of a processor; TowerMissing without one."""
    tokenizer = getattr(processing, "tokenizer", processing)
    if not hasattr(tokenizer, "pad"):
        raise TowerMissing(f"{type(processing).__name__} has no tokenizer: the model has no text side")
    return tokenizer


def find_image_processor(processing: Any) -> Any:  # noqa: ANN401 - image processors share no type
    """The image processor of a processor; TowerMissing without one."""
    processor = getattr(processing, "image_processor", None)
    if processor is None:
        raise TowerMissing(f"{type(processing).__name__} has no image processor: the model has no image side")
    return processor
