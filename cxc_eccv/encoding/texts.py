"""Encodes texts with the text tower of any kind of model, and takes one vector per item from the outputs of a tower."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import normalize
from transformers import Blip2ForImageTextRetrieval, BlipForImageTextRetrieval, PreTrainedModel

from cxc_eccv.encoding.loading import LoadedModel, inference, load_model
from cxc_eccv.encoding.open_clip import OpenClip
from cxc_eccv.encoding.roles import RoleInput
from cxc_eccv.encoding.text_input import TextInput, Tokens
from cxc_eccv.errors import InvalidOption, ModelError, TowerMissing
from cxc_eccv.types import IntArray, check_whole
from cxc_eccv.types.model_options import Encoding, check_pooling

CLASS_TOKENS = ("cls_token", "class_token", "class_embedding")
"""Names of the parameter for the class token of an image."""

ContrastiveMatcher = BlipForImageTextRetrieval | Blip2ForImageTextRetrieval
"""Cross-encoders that also have vectors of images and captions."""

Forward = Callable[[Mapping[str, torch.Tensor]], torch.Tensor]
"""Maps the inputs of a batch to (N, D) features."""


def text_features(model: PreTrainedModel, pooling: str) -> Forward:
    """The function from tokens to (N, D) features: the model's text features, else pooled last hidden states."""
    check_pooling(pooling)
    if isinstance(model, ContrastiveMatcher):
        return _contrastive_texts(model)
    if hasattr(model, "get_text_features"):
        method: Callable[..., Any] = getattr(model, "get_text_features")  # noqa: B009 - no attribute of the base class
        return lambda inputs: _take_vectors(method(**without_segments(method, inputs)), model)
    _refuse_without_tower(model, "text", "input_ids")
    if model.config.is_encoder_decoder:
        raise ModelError(f"{type(model).__name__} has an encoder and a decoder; give only its encoder")

    def forward(inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        out = model(**without_segments(model.forward, inputs))
        if getattr(out, "text_embeds", None) is not None:
            return _take_vectors(out.text_embeds, model)
        if model.config.model_type.startswith("siglip"):
            return _take_vectors(out, model)
        return pool(_take_states(out, model), inputs.get("attention_mask"), pooling)

    return forward


def _take_states(output: Any, model: PreTrainedModel) -> torch.Tensor:  # noqa: ANN401 - a model's output
    states: torch.Tensor | None = getattr(output, "last_hidden_state", None)
    if states is None:
        raise ModelError(
            f"{type(model).__name__} returns {type(output).__name__}, which has no last hidden states to pool; give "
            "the model without its head, such as model.base_model"
        )
    return states


def image_features(model: PreTrainedModel | OpenClip) -> Forward:
    """The function from pixels to (N, D) features: the model's image features, else its ``pooler_output``.

    Without a pooler, or with a dense one, which most published ViT checkpoints lack, it is the class token, or the mean
    over positions.
    """
    if isinstance(model, ContrastiveMatcher):
        return _contrastive_images(model)
    if hasattr(model, "get_image_features"):
        method: Callable[..., Any] = getattr(model, "get_image_features")  # noqa: B009 - no attribute of the base class
        return lambda inputs: _take_vectors(method(**inputs), model)
    assert isinstance(model, PreTrainedModel)  # noqa: S101
    _refuse_without_tower(model, "image", "pixel_values")
    if getattr(model.config, "mask_ratio", 0):
        raise ModelError(
            f"{type(model).__name__} masks {model.config.mask_ratio:.0%} of an image at random, even without training; "
            "set mask_ratio to 0.0 in its config.json"
        )
    names = {name.rpartition(".")[2] for name, _ in model.named_parameters()}
    has_class_token = not names.isdisjoint(CLASS_TOKENS)
    learned = hasattr(getattr(model, "pooler", None), "dense")

    def forward(inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        out = model(**inputs)
        if getattr(out, "image_embeds", None) is not None:
            return _take_vectors(out.image_embeds, model)
        pooled = getattr(out, "pooler_output", None)
        if pooled is None or learned:
            states = _take_states(out, model)
            return _take_vectors(states[:, 0] if has_class_token else states.mean(1), model)
        return _take_vectors(pooled.flatten(2).mean(2) if pooled.ndim > 2 else pooled, model)

    return forward


def _contrastive_images(model: ContrastiveMatcher) -> Forward:
    """Unit vectors of images: one for BLIP, for BLIP-2 one per query, concatenated."""

    def forward(inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        states = model.vision_model(pixel_values=inputs["pixel_values"]).last_hidden_state
        if isinstance(model, BlipForImageTextRetrieval):
            return normalize(model.vision_proj(states[:, 0]), dim=-1)
        queries = model.query_tokens.expand(len(states), -1, -1)
        seen = torch.ones(states.shape[:-1], dtype=torch.long, device=states.device)
        output = model.qformer(query_embeds=queries, encoder_hidden_states=states, encoder_attention_mask=seen)
        projection = model.vision_projection
        return normalize(projection(output.last_hidden_state.to(projection.weight.dtype)), dim=-1).flatten(1)

    return forward


def _contrastive_texts(model: ContrastiveMatcher) -> Forward:
    def forward(inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        tokens = inputs["input_ids"]
        mask = inputs["attention_mask"]
        if isinstance(model, BlipForImageTextRetrieval):
            states = model.text_encoder(input_ids=tokens, attention_mask=mask).last_hidden_state
            return normalize(model.text_proj(states[:, 0]), dim=-1)
        embedded = model.embeddings(input_ids=tokens)
        states = model.qformer(query_embeds=embedded, query_length=0, attention_mask=mask).last_hidden_state
        projection = model.text_projection
        return normalize(projection(states[:, 0].to(projection.weight.dtype)), dim=-1)

    return forward


def _take_vectors(output: Any, model: torch.nn.Module) -> torch.Tensor:  # noqa: ANN401 - a tensor or a model's output
    vectors = output if isinstance(output, torch.Tensor) else getattr(output, "pooler_output", output)
    if not isinstance(vectors, torch.Tensor) or vectors.ndim != 2:
        shape = getattr(vectors, "shape", None)
        given = f"type {type(vectors).__name__}" if shape is None else f"shape {tuple(shape)}"
        raise ModelError(f"{type(model).__name__} returns features of {given}; need one vector per item, (N, D)")
    return vectors


def pool(states: torch.Tensor, mask: torch.Tensor | None, pooling: str) -> torch.Tensor:
    """(N, D) vectors from (N, T, D) states of tokens, of which an (N, T) mask leaves out the padding."""
    if pooling == "cls":
        return states[:, 0]
    if pooling == "last":
        if mask is None:
            raise ModelError("pooling last: the tokenizer gives no attention mask, so the last token is not known")
        last = mask.shape[1] - 1 - mask.flip(1).argmax(1)  # whichever side is padded
        return states[torch.arange(len(states), device=states.device), last]
    weights = torch.ones_like(states[..., 0]) if mask is None else mask.to(states.dtype)
    # In float32, as a sum of many bfloat16 states would lose precision.
    weighted = states.float() * weights.float()[..., None]
    return weighted.sum(1) / weights.float().sum(1, keepdim=True)


def without_segments(method: Callable[..., Any], inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The inputs without segment ids, which are all 0, if the method does not take them."""
    if "token_type_ids" in inspect.signature(method).parameters:
        return dict(inputs)
    return {name: tensor for name, tensor in inputs.items() if name != "token_type_ids"}


def _refuse_without_tower(model: PreTrainedModel, kind: str, wanted: str) -> None:
    if model.main_input_name != wanted:
        raise TowerMissing(
            f"{type(model).__name__} has no {kind} tower: it has no get_{kind}_features and takes "
            f"{model.main_input_name}. Leave out the {'captions' if kind == 'text' else 'images'}, or give another "
            "model."
        )


class TextEncoder(ABC):
    """Encodes N texts as (N, D) float32 vectors; ``truncated`` counts texts that were cut at ``limit`` tokens."""

    limit: int | None

    def __init__(self, loaded: LoadedModel, batch_size: int, given: RoleInput) -> None:
        check_whole("batch_size", batch_size)
        self.model: Any = loaded.model
        self.require_sentences = loaded.require_sentences
        self.batch_size = batch_size
        self.truncated = 0
        self.prompt = given.prompt
        self.task = given.task

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(N, D) vectors of N texts, at least one."""
        if not len(texts):
            raise InvalidOption("there is no text to encode; give at least one")
        read, lengths = self.read([self.prompt(text) for text in texts])
        self.truncated += 0 if self.limit is None else int(np.count_nonzero(lengths > self.limit))
        order = np.argsort(-lengths, kind="stable")
        batches = [order[start : start + self.batch_size] for start in range(0, order.size, self.batch_size)]
        with inference(self.model):
            rows = []
            for batch in batches:
                features = self.forward([read[place] for place in batch])
                rows.append(features.float().cpu().numpy())
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
    def __init__(
        self, loaded: LoadedModel, model: PreTrainedModel, pooling: str, batch_size: int, given: RoleInput
    ) -> None:
        super().__init__(loaded, batch_size, given)
        self._features = text_features(model, pooling)
        self._device = loaded.device
        self._input = TextInput(loaded.tokenizer, model)
        if pooling == "cls":
            self._refuse_first_token(loaded.name)
        self.limit = self._input.limit

    def read(self, texts: Sequence[str]) -> tuple[Sequence[Tokens], IntArray]:
        return self._input.read(texts)

    def _refuse_first_token(self, name: str) -> None:
        """Raise InvalidOption for a decoder, whose first token sees no other: all texts would have one vector."""
        short, long = ({"input_ids": [0, *rest], "attention_mask": [1, 1]} for rest in ([0], [1]))
        with inference(self.model):
            first, second = self.forward([short, long])
        if torch.equal(first, second):
            raise InvalidOption(
                f"pooling cls: the first token of {name} sees no later one, so that texts would not differ; use last, "
                "or mean (--pooling last)"
            )

    def forward(self, batch: Sequence[Tokens]) -> torch.Tensor:
        return self._features({name: tensor.to(self._device) for name, tensor in self._input.pad(batch).items()})


class _OpenClip(TextEncoder):
    def __init__(self, loaded: LoadedModel, model: OpenClip, batch_size: int, given: RoleInput) -> None:
        super().__init__(loaded, batch_size, given)
        self.limit = model.texts.limit

    def read(self, texts: Sequence[str]) -> tuple[Sequence[str], IntArray]:
        return texts, np.array(self.model.texts.lengths(texts))

    def forward(self, batch: Sequence[str]) -> torch.Tensor:
        features: torch.Tensor = self.model.get_text_features(batch)
        return features


class _SentenceTransformer(TextEncoder):
    """A sentence-transformers model, which pools itself."""

    def __init__(self, loaded: LoadedModel, model: Any, batch_size: int, given: RoleInput) -> None:  # noqa: ANN401 - of an optional package
        super().__init__(loaded, batch_size, given)
        self.limit = model.max_seq_length

    def read(self, texts: Sequence[str]) -> tuple[Sequence[str], IntArray]:
        tokens = self.model.tokenizer(list(texts), truncation=False, padding=False, verbose=False)
        return texts, np.array([len(row) for row in tokens["input_ids"]])

    def forward(self, batch: Sequence[str]) -> torch.Tensor:
        # The prompt is passed separately, as some models leave it out of the pooling or take it as an instruction.
        before = self.prompt.before
        vectors: torch.Tensor = self.model.encode(
            [text[len(before) :] for text in batch],
            prompt=before,
            batch_size=self.batch_size,
            show_progress_bar=False,
            convert_to_tensor=True,
            **({} if self.task is None else {"task": self.task}),
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
        pooling: ``mean`` over the tokens, ``cls``, the first one, or ``last``, for a text model; other models pool
            themselves.
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
    return make_text_encoder(
        load_model(model, processor=processor, device=device, dtype=dtype),
        Encoding(pooling=pooling, batch_size=batch_size),
    )


def make_text_encoder(loaded: LoadedModel, encoding: Encoding, given: RoleInput | None = None) -> TextEncoder:
    """The text encoder of a loaded model, for texts in a role, or with the prompt of texts without one."""
    batch_size = encoding.batch_size
    given = given or RoleInput(loaded.caption_prompt)
    if encoding.pooling != "mean" and not loaded.needs_pooling:
        raise InvalidOption(f"{loaded.name} pools itself; leave out pooling")
    if isinstance(loaded.model, PreTrainedModel):
        return _Transformer(loaded, loaded.model, encoding.pooling, batch_size, given)
    if isinstance(loaded.model, OpenClip):
        return _OpenClip(loaded, loaded.model, batch_size, given)
    if "captions" not in loaded.sides:
        raise TowerMissing(f"{loaded.name} encodes images only; leave out the captions")
    return _SentenceTransformer(loaded, loaded.model, batch_size, given)
