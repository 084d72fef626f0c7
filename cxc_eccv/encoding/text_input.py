"""Turns texts into the tensors of a text tower: in the case of its training, padded, and cut at its context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from tokenizers import normalizers
from transformers import GemmaTokenizer, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from cxc_eccv.errors import InvalidOption, ModelError
from cxc_eccv.types import IntArray

Tokens = dict[str, list[int]]

NO_TOKEN_LIMIT = 1_000_000
"""Tokenizers without a limit state a larger number."""

PADDED_TO_CONTEXT = ("siglip", "siglip2", "siglip_text_model", "siglip2_text_model")
"""Models trained without an attention mask, which see the padding and need the same length as in training."""


@dataclass(frozen=True)
class Prompt:
    """The text before and after every caption."""

    before: str = ""
    after: str = ""

    @classmethod
    def of(
        cls, template: str, saved: Mapping[str, str | None] = MappingProxyType({}), what: str = "caption prompt"
    ) -> Prompt:
        """The prompt of a template with ``{}`` for the caption, or the saved prompt with this name."""
        if isinstance(template, str) and template in saved:
            return cls(saved[template] or "")
        if not isinstance(template, str) or template.count("{}") != 1:
            names = f", or name a prompt of the model: {', '.join(saved)}" if saved else ""
            raise InvalidOption(
                f"{what} {template!r:.200}: write {{}} once, for the caption, as in 'a photo of {{}}'{names}"
            )
        return cls(*template.split("{}"))

    def __call__(self, text: str) -> str:
        """The caption with its prompt."""
        return f"{self.before}{text}{self.after}"

    def __str__(self) -> str:
        return self("{}")


NO_PROMPT = Prompt()


class TextInput:
    """A tokenizer with the limits of its model; ``limit`` is the most tokens of a text with special ones, or None."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> None:
        self._tokenizer = tokenizer
        self.limit = context_length(tokenizer, model)
        rows = getattr(text_config(model), "vocab_size", None)
        known = len(tokenizer)
        if model.config.model_type == "blip-2":
            known -= "<image>" in tokenizer.get_vocab()  # for other models; no caption contains it
        if rows is not None and known > rows:
            raise ModelError(
                f"the tokenizer has {known} tokens, but {type(model).__name__} embeds {rows}; give the tokenizer with "
                "which the model was trained"
            )
        self._padding: dict[str, Any] = {"padding": "max_length"}
        if padded_length(tokenizer, model) is None:
            # Padding on the left would move a text's tokens to other positions in every batch.
            self._padding = {"padding": "longest", "padding_side": "right"}

    def read(self, texts: Sequence[str]) -> tuple[list[Tokens], IntArray]:
        """The tokens of each text, cut at the context, and their number before the cut."""
        whole = self._tokenizer(list(texts), truncation=False, padding=False, verbose=False)
        lengths = np.array([len(row) for row in whole["input_ids"]])
        read: list[Tokens] = [dict(zip(whole, row, strict=True)) for row in zip(*whole.values(), strict=True)]
        too_long = [] if self.limit is None else np.flatnonzero(lengths > self.limit).tolist()
        for place in too_long:
            read[place] = dict(self._tokenizer(texts[place], truncation=True, max_length=self.limit, verbose=False))
        return read, lengths

    def pad(self, batch: Sequence[Tokens]) -> dict[str, torch.Tensor]:
        """The inputs of a batch, on the CPU."""
        return dict(
            self._tokenizer.pad(list(batch), max_length=self.limit, return_tensors="pt", verbose=False, **self._padding)
        )


def context_length(tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> int | None:
    """The most tokens of a text: the limit of the tokenizer, or the model's positions without padding if fewer."""
    limits = [tokenizer.model_max_length] if tokenizer.model_max_length < NO_TOKEN_LIMIT else []
    positions = getattr(text_config(model), "max_position_embeddings", None)
    if positions is not None and positions > 0:  # XLNet states -1 for none
        tables = (module for name, module in model.named_modules() if name.endswith("position_embeddings"))
        paddings = (getattr(table, "padding_idx", None) for table in tables)
        limits.append(positions - next((int(padding) + 1 for padding in paddings if padding is not None), 0))
    return min(limits, default=None)


def text_config(model: PreTrainedModel) -> PretrainedConfig:
    """The config of a model's text tower; for BLIP-2 its Q-Former, as the language model is not used."""
    qformer: PretrainedConfig | None = getattr(model.config, "qformer_config", None)
    return model.config.get_text_config() if qformer is None else qformer


def padded_length(tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> int | None:
    """The length to which texts are padded: the context of a model that sees padding (64 for SigLIP), else None."""
    sees_padding = "attention_mask" not in tokenizer.model_input_names
    if not sees_padding and model.config.model_type not in PADDED_TO_CONTEXT:
        return None
    length = context_length(tokenizer, model)
    if length is None:
        raise ModelError(f"{type(model).__name__} needs texts padded to its context, whose length is unknown")
    return length


def never_saw_capitals(tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> bool:
    """Whether a model was trained on lower case but its tokenizer keeps capitals (SigLIP 2 of fixed resolution)."""
    return model.config.model_type.startswith("siglip") and isinstance(tokenizer, GemmaTokenizer)


def in_lower_case(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """A copy of the tokenizer that lower-cases texts first, like transformers' tokenizer of ``siglip2``."""
    lowered = deepcopy(tokenizer)
    backend = getattr(lowered, "backend_tokenizer", None)
    if backend is None:
        raise InvalidOption(
            f"{type(tokenizer).__name__} cannot lower-case texts; lower-case the captions, and leave out lowercase"
        )
    before = [] if backend.normalizer is None else [backend.normalizer]
    backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *before])
    return lowered
