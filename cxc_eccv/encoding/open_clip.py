"""Models of open_clip with their tokenizer and preprocessing, under the interface of other dual encoders."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from cxc_eccv.encoding.checkpoints import load_of_open_clip
from cxc_eccv.extras import require

OPEN_CLIP_PREFIX = "open_clip:"
HUB_PREFIX = "hf-hub:"
FOLDER_PREFIX = "local-dir:"
OPEN_CLIP_CONFIG = "open_clip_config.json"

MEMORY_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class OpenClip(torch.nn.Module):
    """A model of open_clip, with the attributes of sentence-transformers models."""

    modalities = ("text", "image")
    similarity_fn_name = "cosine"
    default_prompt_name = None

    def __init__(self, model: torch.nn.Module, preprocess: Any, tokenizer: Any) -> None:  # noqa: ANN401 - of open_clip
        super().__init__()
        self.model = model
        self.images = Preprocessing(preprocess)
        self.texts = Tokenizer(tokenizer)
        self.prompts: dict[str, str] = {}

    @property
    def device(self) -> torch.device:
        """The device of its weights."""
        return next(self.parameters()).device

    def supports(self, modality: object) -> bool:
        """Whether it takes this modality; never both at once."""
        return modality in self.modalities

    def get_image_features(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """(N, D) image features, not normalised."""
        features: torch.Tensor = self.model.encode_image(pixel_values, normalize=False)  # type: ignore[operator]
        return features

    def get_text_features(self, texts: Sequence[str]) -> torch.Tensor:
        """(N, D) features of texts, cut at the context, not normalised."""
        tokens = self.texts(texts).to(self.device)
        features: torch.Tensor = self.model.encode_text(tokens, normalize=False)  # type: ignore[operator]
        return features


class Preprocessing:
    """open_clip's preprocessing, with the call of an image processor of transformers."""

    def __init__(self, preprocess: Any) -> None:  # noqa: ANN401 - a transform of torchvision
        self._preprocess = preprocess

    def __call__(self, images: Sequence[Image.Image], return_tensors: str) -> dict[str, torch.Tensor]:
        """The images as one batch."""
        return {"pixel_values": torch.stack([self._preprocess(image) for image in images])}

    def to_json_string(self) -> str:
        """The steps, as text."""
        return MEMORY_ADDRESS.sub("", repr(self._preprocess))


class Tokenizer:
    """open_clip's tokenizer, possibly one of transformers behind it; pads every text to the context."""

    def __init__(self, tokenizer: Any) -> None:  # noqa: ANN401 - one of three classes
        self._tokenizer = tokenizer
        self._behind = getattr(tokenizer, "tokenizer", None)
        self.limit: int = tokenizer.context_length

    def __call__(self, texts: Sequence[str]) -> torch.Tensor:
        """(N, limit) tokens."""
        tokens: torch.Tensor = self._tokenizer(list(texts))
        return tokens

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each uncut text, with the special tokens at its ends."""
        if self._behind is None:
            return [len(self._tokenizer.encode(text)) + 2 for text in texts]
        clean = getattr(self._tokenizer, "clean_fn", str)
        tokens = self._behind([clean(text) for text in texts], truncation=False, padding=False, verbose=False)
        return [len(row) for row in tokens["input_ids"]]

    def to_json_string(self) -> str:
        """Its class, context and tokens, as text."""
        words = self._tokenizer.encoder if self._behind is None else self._behind.get_vocab()
        return json.dumps([type(self._tokenizer).__name__, self.limit, words], sort_keys=True)


def is_open_clip(source: str) -> bool:
    """Whether a name is one of open_clip: by its prefix, or a folder that has only open_clip's config."""
    folder = Path(source)
    alone = bool(source) and (folder / OPEN_CLIP_CONFIG).is_file() and not (folder / "config.json").is_file()
    return source.startswith((OPEN_CLIP_PREFIX, HUB_PREFIX)) or alone


def make_title(source: str) -> str:
    """The name in runs and reports."""
    name, checkpoint = _split(source)
    name = name.removeprefix(HUB_PREFIX)
    if name.startswith(FOLDER_PREFIX):
        return Path(name.removeprefix(FOLDER_PREFIX)).resolve().name
    if checkpoint is None:
        return name
    if "=" in source:  # the checkpoint is a file
        return f"{name}/{Path(checkpoint).stem}"
    return f"{name}/{checkpoint}"


def load_open_clip(source: str, dtype: torch.dtype) -> OpenClip:
    """Load the model and weights that a name gives."""
    require("open_clip", "open_clip", f"the model {source} needs")
    import open_clip

    name, checkpoint = _split(source)
    model, preprocess, tokenizer = load_of_open_clip(open_clip, source, name, checkpoint)
    return OpenClip(model.to(dtype), preprocess, tokenizer)


def _split(source: str) -> tuple[str, str | None]:
    """open_clip's name of a model, and its weights: a tag, a file, or None if the name implies them."""
    name = source.removeprefix(OPEN_CLIP_PREFIX)
    if name.startswith((HUB_PREFIX, FOLDER_PREFIX)):
        return name, None
    if Path(source).is_dir():
        return f"{FOLDER_PREFIX}{source}", None
    architecture, sign, file = name.partition("=")
    if sign:
        return architecture, file
    architecture, sign, tag = name.rpartition("/")
    return (architecture, tag) if sign else (name, None)
