"""Texts to the tensors that a text tower takes: padded, and cut at the end of the model's context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from cxc_eccv.errors import ModelError

__all__ = ["TextInput", "context_length"]

UNBOUNDED = 1_000_000
"""Tokenizers without a limit of their own name a larger one."""

PADDED_TO_CONTEXT = ("siglip", "siglip2")
"""Models trained without an attention mask: they see the padding, and need as much of it as in training."""


class TextInput:
    """A model's tokenizer with its rules.

    Args:
        tokenizer: of the model.
        model: whose context bounds the tokens.
        padding_side: ``right`` where the first token stands for the text; None for the tokenizer's own.

    Attributes:
        limit: most tokens of a text, special tokens included, or None.

    Raises:
        ModelError: the tokenizer has more tokens than the model, or the context of a model that needs it is unknown.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, padding_side: str | None = None
    ) -> None:
        self._tokenizer, self.limit = tokenizer, context_length(tokenizer, model)
        _refuse_larger_vocabulary(tokenizer, model)
        unmasked = "attention_mask" not in tokenizer.model_input_names
        self._to_context = unmasked or model.config.model_type in PADDED_TO_CONTEXT
        if self._to_context and self.limit is None:
            raise ModelError(
                f"{type(model).__name__} needs texts padded to its context, and nothing says how long it is"
            )
        self._options: dict[str, Any] = {"padding_side": padding_side} if padding_side else {}

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, uncut."""
        tokens = self._tokenizer(list(texts), truncation=False, padding=False, verbose=False)
        return [len(row) for row in tokens["input_ids"]]

    def __call__(self, texts: Sequence[str]) -> dict[str, torch.Tensor]:
        """The inputs of a batch, on the processor."""
        batch = self._tokenizer(
            list(texts),
            padding="max_length" if self._to_context else "longest",
            truncation=self.limit is not None,
            max_length=self.limit,
            return_tensors="pt",
            verbose=False,
            **self._options,
        )
        return dict(batch)


def context_length(tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> int | None:
    """Most tokens of a text: the smaller of the tokenizer's limit and the model's positions.

    Args:
        tokenizer: its ``model_max_length`` counts where it is a limit at all.
        model: its text config's ``max_position_embeddings`` counts, less the positions that padding takes (RoBERTa).
    """
    limits = [tokenizer.model_max_length] if tokenizer.model_max_length < UNBOUNDED else []
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if positions is not None:
        limits.append(positions - _reserved_positions(model))
    return min(limits, default=None)


def _reserved_positions(model: PreTrainedModel) -> int:
    for name, module in model.named_modules():
        padding = getattr(module, "padding_idx", None)
        if name.endswith("position_embeddings") and padding is not None:
            return int(padding) + 1
    return 0


def _refuse_larger_vocabulary(tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> None:
    rows = getattr(model.config.get_text_config(), "vocab_size", None)
    if rows is not None and len(tokenizer) > rows:
        raise ModelError(
            f"the tokenizer has {len(tokenizer)} tokens, {type(model).__name__} embeds {rows}; they do not belong "
            "together, give the tokenizer that the model was trained with"
        )
