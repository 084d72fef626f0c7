"""TextEncoder: encodes texts with the text tower of any kind of model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from cxc_eccv.encoding.models import LoadedModel, load_model
from cxc_eccv.encoding.open_clip import OpenClip
from cxc_eccv.encoding.text_input import Prompt, TextInput, Tokens
from cxc_eccv.encoding.towers.features import text_features
from cxc_eccv.errors import InvalidOption, TowerMissing
from cxc_eccv.types import IntArray, check_whole


class TextEncoder(ABC):
    """Encodes N texts as (N, D) float32 vectors; ``truncated`` counts texts that were cut at ``limit`` tokens."""

    limit: int | None

    def __init__(self, batch_size: int, prompt: Prompt) -> None:
        check_whole("batch_size", batch_size)
        self.batch_size, self.truncated, self.prompt = batch_size, 0, prompt

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(N, D) vectors of N texts, at least one."""
        if not len(texts):
            raise InvalidOption("there is no text to encode; give at least one")
        read, lengths = self.read([self.prompt(text) for text in texts])
        self.truncated += 0 if self.limit is None else int(np.count_nonzero(lengths > self.limit))
        order = np.argsort(-lengths, kind="stable")
        batches = [order[start : start + self.batch_size] for start in range(0, order.size, self.batch_size)]
        with torch.inference_mode():
            rows = [self.forward([read[place] for place in batch]).float().cpu().numpy() for batch in batches]
        vectors = np.empty((order.size, rows[0].shape[1]), dtype=np.float32)
        vectors[order] = np.concatenate(rows)
        return vectors

    @abstractmethod
    def read(self, texts: Sequence[str]) -> tuple[Sequence[Any], IntArray]:
        """The input of ``forward`` for each text, and its number of tokens before a cut, with the prompt."""

    @abstractmethod
    def forward(self, batch: Sequence[Any]) -> torch.Tensor:
        """(N, D) features of a batch."""


class _Transformer(TextEncoder):
    def __init__(self, loaded: LoadedModel, model: PreTrainedModel, pooling: str, batch_size: int) -> None:
        super().__init__(batch_size, loaded.caption_prompt)
        self._features, self._device = text_features(model, pooling), loaded.device
        self._input = TextInput(loaded.tokenizer, model)
        self.limit = self._input.limit

    def read(self, texts: Sequence[str]) -> tuple[Sequence[Tokens], IntArray]:
        return self._input.read(texts)

    def forward(self, batch: Sequence[Tokens]) -> torch.Tensor:
        return self._features({name: tensor.to(self._device) for name, tensor in self._input.pad(batch).items()})


class _OpenClip(TextEncoder):
    def __init__(self, loaded: LoadedModel, model: OpenClip, batch_size: int) -> None:
        super().__init__(batch_size, loaded.caption_prompt)
        self._model, self.limit = model, model.texts.limit

    def read(self, texts: Sequence[str]) -> tuple[Sequence[str], IntArray]:
        return texts, np.array(self._model.texts.lengths(texts))

    def forward(self, batch: Sequence[str]) -> torch.Tensor:
        return self._model.get_text_features(batch)


class _SentenceTransformer(TextEncoder):
    """A sentence-transformers model, which pools itself."""

    def __init__(self, loaded: LoadedModel, model: Any, batch_size: int) -> None:  # noqa: ANN401 - of an optional package
        super().__init__(batch_size, loaded.caption_prompt)
        self._model, self.limit = model, model.max_seq_length

    def read(self, texts: Sequence[str]) -> tuple[Sequence[str], IntArray]:
        tokens = self._model.tokenizer(list(texts), truncation=False, padding=False, verbose=False)
        return texts, np.array([len(row) for row in tokens["input_ids"]])

    def forward(self, batch: Sequence[str]) -> torch.Tensor:
        # The prompt is passed separately, as some models leave it out of the pooling or take it as an instruction.
        before = self.prompt.before
        vectors: torch.Tensor = self._model.encode(
            [text[len(before) :] for text in batch],
            prompt=before,
            batch_size=self.batch_size,
            show_progress_bar=False,
            convert_to_tensor=True,
        )
        return vectors


def text_encoder(
    model: Any,  # noqa: ANN401 - a name or one of several classes
    *,
    processor: Any = None,  # noqa: ANN401 - see load_model
    pooling: str = "mean",
    batch_size: int = 64,
    device: str | None = None,
    dtype: str | None = None,
) -> TextEncoder:
    """A text encoder from any Hugging Face model.

    Args:
        model: Hub id or folder, or a loaded ``PreTrainedModel`` or ``SentenceTransformer``: a dual encoder with
            ``get_text_features``, a text model, or a sentence-transformers model.
        processor: its tokenizer; None for the one saved with it.
        pooling: ``mean`` over the tokens or ``cls``, the first one, for a text model; other models pool themselves.
        batch_size: texts per batch.
        device: torch device; None for a GPU if there is one.
        dtype: ``float32``, ``bfloat16`` or ``float16``.

    Raises:
        ModelError: the model cannot be loaded, or has no text tower.
        InvalidOption: an option is out of range.

    Example:
        >>> from transformers import BertConfig, BertModel, BertTokenizer
        >>> words = {word: number for number, word in enumerate("[PAD] [UNK] [CLS] [SEP] [MASK] a dog cat".split())}
        >>> sizes = dict(hidden_size=8, intermediate_size=8, num_attention_heads=2, num_hidden_layers=1)
        >>> model = BertModel(BertConfig(vocab_size=len(words), **sizes))
        >>> encoder = text_encoder(model, processor=BertTokenizer(vocab=words), device="cpu")
        >>> encoder(["a dog", "a cat and a dog"]).shape, encoder.truncated
        ((2, 8), 0)
    """
    return encoder_of_texts(load_model(model, processor=processor, device=device, dtype=dtype), pooling, batch_size)


def encoder_of_texts(loaded: LoadedModel, pooling: str, batch_size: int) -> TextEncoder:
    """The text encoder of a loaded model."""
    if isinstance(loaded.model, PreTrainedModel):
        return _Transformer(loaded, loaded.model, pooling, batch_size)
    if pooling != "mean":
        raise InvalidOption(f"{loaded.name} pools itself; leave out pooling")
    if isinstance(loaded.model, OpenClip):
        return _OpenClip(loaded, loaded.model, batch_size)
    if "captions" not in loaded.sides:
        raise TowerMissing(f"{loaded.name} encodes images only; leave out the captions")
    return _SentenceTransformer(loaded, loaded.model, batch_size)
