"""EntailmentProcessor: turns premises, images and hypotheses into the inputs of EntailmentClassifier."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from transformers import AutoImageProcessor, AutoProcessor, AutoTokenizer, BatchFeature, ProcessorMixin

from cxc_eccv.encoding.images import open_picture
from cxc_eccv.encoding.text_input import context_length, text_config
from cxc_eccv.errors import InvalidOption, TowerMissing
from cxc_eccv.studies.entailment.classifier import EntailmentClassifier
from cxc_eccv.studies.entailment.classifier.config import MULTIMODAL, TEXT, VISUAL, EntailmentConfig

LONGEST_PAIR = 512
"""Tokens of a pair if neither tokenizer nor model has a limit."""

SPECIAL = 8
"""An upper bound of the special tokens that a tokenizer adds to a pair."""

COUNTED = 1024
"""Pairs per batch when tokens are counted."""

Mask = NDArray[np.bool_]

BLACK = Image.new("RGB", (64, 64))
"""Stands in for a missing image."""


class Prepared(NamedTuple):
    """Inputs of a batch, and the number of its texts that were truncated to the model's context."""

    inputs: BatchFeature
    cut: int


class EntailmentProcessor(ProcessorMixin):  # type: ignore[misc, unused-ignore] # transformers' own
    """The tokenizers and the image processor of the classifier's branches.

    Args:
        tokenizer: of the text branch, or None.
        visual_tokenizer: of the visual branch, or None.
        image_processor: of the visual branch, or None.

    Raises:
        InvalidOption: no part at all, or only one of ``visual_tokenizer`` and ``image_processor``.

    Example:
        >>> from transformers import BertTokenizer
        >>> words = {word: place for place, word in enumerate("[PAD] [UNK] [CLS] [SEP] [MASK] a dog runs".split())}
        >>> processor = EntailmentProcessor(BertTokenizer(vocab=words, model_max_length=8))
        >>> batch = processor(["a dog runs"], None, ["a dog"])
        >>> batch["input_ids"], batch["kinds"]
        (tensor([[2, 5, 6, 7, 3, 5, 6, 3]]), tensor([0]))
    """

    def __init__(self, tokenizer: Any = None, visual_tokenizer: Any = None, image_processor: Any = None) -> None:  # noqa: ANN401 - transformers' own
        if (visual_tokenizer is None) != (image_processor is None) or (tokenizer is None and image_processor is None):
            raise InvalidOption(
                "give a tokenizer for the text branch, or visual_tokenizer and image_processor for the visual branch, "
                "or all three"
            )
        self.tokenizer = tokenizer
        self.visual_tokenizer = visual_tokenizer
        self.image_processor = image_processor
        self.chat_template = None
        self.auto_map = {"AutoProcessor": f"{EntailmentConfig.model_type}.EntailmentProcessor"}

    @classmethod
    def for_model(
        cls,
        model: EntailmentClassifier,
        tokenizer: Any = None,  # noqa: ANN401 - tokenizers share no public type
        *,
        visual_tokenizer: Any = None,  # noqa: ANN401 - likewise
        image_processor: Any = None,  # noqa: ANN401 - likewise
    ) -> Self:
        """The processor of a model: copies of the tokenizers, limited to the model's contexts.

        ``visual_tokenizer`` defaults to ``tokenizer``. InvalidOption if a branch lacks its tokenizer or image
        processor, or a tokenizer has more tokens than its encoder.
        """
        has_text = model.config.has_text
        has_visual = model.config.has_visual
        visual_tokenizer = tokenizer if visual_tokenizer is None else visual_tokenizer
        if (has_text and tokenizer is None) or (has_visual and image_processor is None):
            raise InvalidOption("a text branch needs a tokenizer, a visual branch a tokenizer and an image processor")
        reader = model.visual_text_model if model.config.shared_text else model.text_model
        return cls(
            _limit(tokenizer, reader) if has_text else None,
            _limit(visual_tokenizer, model.visual_text_model) if has_visual else None,
            image_processor if has_visual else None,
        )

    def __call__(
        self,
        premises: Sequence[str],
        images: Sequence[Image.Image | None] | None,
        hypotheses: Sequence[str],
        labels: Sequence[float] | None = None,
    ) -> BatchFeature:
        """The inputs of N pairs, as :meth:`prepare` makes them, with their labels."""
        inputs = self.prepare(premises, images, hypotheses).inputs
        if labels is not None:
            inputs["labels"] = torch.tensor(labels, dtype=torch.float32)
        return inputs

    def prepare(
        self, premises: Sequence[str], images: Sequence[Image.Image | None] | None, hypotheses: Sequence[str]
    ) -> Prepared:
        """The inputs of N pairs, and the number of truncated pairs.

        A pair longer than the context loses the end of its premise; a hypothesis is truncated only if it alone is too
        long. A pair without text has an empty premise, one without an image has None. The inputs are ``kinds``,
        ``input_ids`` and so on for the text branch, and ``visual_input_ids`` and so on with ``pixel_values`` for the
        visual branch if any pair has an image. ``image_index`` lets pairs share an image, and all pairs without one
        share a black image.

        Raises:
            InvalidOption: lists of different lengths, an empty hypothesis, or a pair without any premise.
            TowerMissing: the model has no branch for a pair's only premise.
            MalformedSource: an image with more than 8 bits a channel.
        """
        images = [None] * len(premises) if images is None else list(images)
        kinds = self.kinds(premises, images, hypotheses)
        tokens, cut = self._tokenize(premises, hypotheses, kinds)
        pixels = self._pixels(images) if "visual_input_ids" in tokens else {}
        return Prepared(BatchFeature({"kinds": torch.tensor(kinds), **tokens, **pixels}), cut)

    def count_cut(self, premises: Sequence[str], images: Sequence[Any] | None, hypotheses: Sequence[str]) -> int:
        """The number of N pairs that :meth:`prepare` would truncate; opens no image."""
        kinds = self.kinds(premises, images, hypotheses)
        tokenizers = (self.tokenizer, self.visual_tokenizer)
        shortest = min(tokenizer.model_max_length for tokenizer in tokenizers if tokenizer is not None) - SPECIAL
        # A token has at least one byte, so short pairs need no tokenizing.
        sizes = (len(f"{premise}{text}".encode()) for premise, text in zip(premises, hypotheses, strict=True))
        longer = [row for row, size in enumerate(sizes) if size > shortest]
        n_cut = 0
        for start in range(0, len(longer), COUNTED):
            rows = longer[start : start + COUNTED]
            texts = [[side[row] for row in rows] for side in (premises, hypotheses)]
            n_cut += self._tokenize(texts[0], texts[1], [kinds[row] for row in rows])[1]
        return n_cut

    def kinds(self, premises: Sequence[str], images: Sequence[Any] | None, hypotheses: Sequence[str]) -> list[int]:
        """The kind of each of N pairs, as an index into ``PAIR_KINDS``; an image is anything but None."""
        images = [None] * len(premises) if images is None else images
        if not len(premises) == len(images) == len(hypotheses) > 0:
            raise InvalidOption(
                f"{len(premises)} premises, {len(images)} images and {len(hypotheses)} hypotheses: give one of each "
                "for every pair, an empty string for no premise and None for no image"
            )
        kinds = []
        for place, (premise, image, hypothesis) in enumerate(zip(premises, images, hypotheses, strict=True)):
            if not hypothesis.strip():
                raise InvalidOption(f"pair {place}: the hypothesis is empty")
            if not premise.strip() and image is None:
                raise InvalidOption(f"pair {place} has neither premise nor image; give one of them")
            kinds.append(TEXT if image is None else MULTIMODAL if premise.strip() else VISUAL)
        for kind, part, needs in ((TEXT, self.tokenizer, "text"), (VISUAL, self.image_processor, "visual")):
            if part is None and kind in kinds:
                raise TowerMissing(
                    f"pair {kinds.index(kind)} has only {'text' if kind == TEXT else 'an image'} as premise, and this "
                    f"classifier has no {needs} branch; leave it out, or load a classifier that has one"
                )
        return kinds

    def _tokenize(
        self, premises: Sequence[str], hypotheses: Sequence[str], kinds: Sequence[int]
    ) -> tuple[dict[str, torch.Tensor], int]:
        inputs: dict[str, torch.Tensor] = {}
        cut = np.zeros(len(kinds), dtype=bool)
        if self.tokenizer is not None:
            inputs, short = _tokenize_pairs(self.tokenizer, premises, hypotheses)
            cut |= short & (np.array(kinds) != VISUAL)
        if self.image_processor is not None and any(kind != TEXT for kind in kinds):
            tokens, short = _tokenize(self.visual_tokenizer, hypotheses)
            inputs |= {f"visual_{name}": tensor for name, tensor in tokens.items()}
            cut |= short & (np.array(kinds) != TEXT)
        return inputs, int(cut.sum())

    def _pixels(self, images: Sequence[Image.Image | None]) -> dict[str, torch.Tensor]:
        pictures = {id(image): BLACK if image is None else open_picture(image).image for image in images}
        places = {name: place for place, name in enumerate(pictures)}
        pixels = self.image_processor(images=list(pictures.values()), return_tensors="pt")
        tensors = {name: pixels[name] for name in ("pixel_values", "pixel_mask") if name in pixels}
        return tensors | {"image_index": torch.tensor([places[id(image)] for image in images])}

    def save_pretrained(self, save_directory: Any, push_to_hub: bool = False, **options: Any) -> list[str]:  # noqa: ANN401 - transformers' own
        """Write tokenizers and settings for ``from_pretrained`` and AutoProcessor."""
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        if self.tokenizer is not None:
            self.tokenizer.save_pretrained(folder)
        if self.visual_tokenizer is not None:
            self.visual_tokenizer.save_pretrained(folder / "visual_tokenizer")
        self.to_json_file(folder / "processor_config.json")
        if push_to_hub:
            self.push_to_hub(options.pop("repo_id", folder.name), **options)
        return [str(folder / "processor_config.json")]

    def to_dict(self) -> dict[str, Any]:
        """The settings, without the tokenizers."""
        return super().to_dict() | {"has_text": self.tokenizer is not None}

    @classmethod
    def _get_arguments_from_pretrained(
        cls,
        pretrained_model_name_or_path: Any,  # noqa: ANN401 - transformers' own
        processor_dict: dict[str, Any] | None = None,
        **options: Any,  # noqa: ANN401 - likewise
    ) -> list[Any]:
        source = pretrained_model_name_or_path
        settings = processor_dict or {}
        has_images = settings.get("image_processor") is not None
        options.pop("subfolder", None)
        options = {"trust_remote_code": False, **options}
        return [
            AutoTokenizer.from_pretrained(source, **options) if settings.pop("has_text", True) else None,
            AutoTokenizer.from_pretrained(source, subfolder="visual_tokenizer", **options) if has_images else None,
            AutoImageProcessor.from_pretrained(source, **options) if has_images else None,
        ]


def _limit(tokenizer: Any, model: Any) -> Any:  # noqa: ANN401 - any tokenizer and encoder
    """A copy that truncates at the model's context and pads on the right, so that first tokens stay first."""
    rows = getattr(text_config(model), "vocab_size", None)
    if rows is not None and len(tokenizer) > rows:
        raise InvalidOption(
            f"the tokenizer has {len(tokenizer)} tokens, but {type(model).__name__} embeds only {rows}; give the "
            "tokenizer that it was trained with"
        )
    limited = deepcopy(tokenizer)
    limited.model_max_length = context_length(tokenizer, model) or LONGEST_PAIR
    limited.padding_side = limited.truncation_side = "right"
    return limited


def _tokenize_pairs(
    tokenizer: Any,  # noqa: ANN401 - tokenizers share no public type
    premises: Sequence[str],
    hypotheses: Sequence[str],
) -> tuple[dict[str, torch.Tensor], Mask]:
    limit = tokenizer.model_max_length
    # Truncation keeps at least one token of the premise, which needs room beside the hypothesis.
    room = limit - tokenizer.num_special_tokens_to_add(pair=True) - 1
    if room < 1:
        raise InvalidOption(f"a context of {limit} tokens has no room for a premise and a hypothesis")
    alone = tokenizer(
        list(hypotheses), add_special_tokens=False, truncation=True, max_length=room, return_offsets_mapping=True
    )
    short = [
        text[: offsets[-1][1]] if encoding.overflowing else text
        for text, offsets, encoding in zip(hypotheses, alone["offset_mapping"], alone.encodings, strict=True)
    ]
    encoded = tokenizer(
        list(premises), short, truncation="only_first", max_length=limit, padding="longest", return_tensors="pt"
    )
    return _tensors(encoded), _overflows(encoded) | _overflows(alone)


def _tokenize(
    tokenizer: Any,  # noqa: ANN401 - tokenizers share no public type
    texts: Sequence[str],
) -> tuple[dict[str, torch.Tensor], Mask]:
    limit = tokenizer.model_max_length
    encoded = tokenizer(list(texts), truncation=True, max_length=limit, padding="longest", return_tensors="pt")
    return _tensors(encoded), _overflows(encoded)


def _overflows(encoded: Any) -> Mask:  # noqa: ANN401 - transformers' own
    return np.array([bool(encoding.overflowing) for encoding in encoded.encodings], dtype=bool)


def _tensors(encoded: Any) -> dict[str, torch.Tensor]:  # noqa: ANN401 - transformers' own
    return {name: encoded[name] for name in ("input_ids", "attention_mask", "token_type_ids") if name in encoded}


AutoProcessor.register(EntailmentConfig, EntailmentProcessor, exist_ok=True)
