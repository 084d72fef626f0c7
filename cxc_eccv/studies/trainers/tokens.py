"""Token ids of captions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from cxc_eccv.encoding.processes import current_processes

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
