"""A generative vision-language model, by the probability of "yes" in answer to a question."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import ModelError
from cxc_eccv.studies.entailment.answerer import Announced, Kind
from cxc_eccv.studies.entailment.answering.hub_model import HubModel, open_model
from cxc_eccv.studies.entailment.answering.question import OF_IMAGE, check_question, fill

BEFORE_WORDS = "▁Ġ \u00a0"
"""Marks of a space in the tokens of SentencePiece and of byte-level BPE."""


class VisionLanguage(HubModel):
    """A model of the class ``AutoModelForImageTextToText``, asked by one forward pass a pair.

    P(yes) is the probability of all spellings of "yes" as next token, divided by that of "yes" and "no".
    """

    has_visual = True
    pairs_at_once = 256

    def __init__(self, model: Any, processor: Any, name: str, question: str = OF_IMAGE) -> None:  # noqa: ANN401 - of transformers
        super().__init__(model, processor, name)
        check_question(question)
        self.question, self.reads_captions = question, "{captions}" in question
        if model.config.is_encoder_decoder:
            raise ModelError(f"{name} is an encoder-decoder; give a vision-language model that continues a prompt")
        self.answers = [spellings(processor.tokenizer, word, name) for word in ("yes", "no")]

    @property
    def settings(self) -> Sequence[str]:
        """The question and the template around it."""
        return ["P(yes) after one first token", self.question, str(getattr(self.processor, "chat_template", None))]

    def prompt(self, premise: str, hypothesis: str) -> str:
        """The text of a pair, with the place of the image."""
        question = fill(self.question, premise, hypothesis)
        if not getattr(self.processor, "chat_template", None):
            writes_place = getattr(self.processor, "num_query_tokens", None)  # BLIP-2's
            return f"{'' if writes_place else getattr(self.processor, 'image_token', '')}{question}"
        content = [{"type": "image"}, {"type": "text", "text": question}]
        messages = [{"role": "user", "content": content}]
        return str(self.processor.apply_chat_template(messages, add_generation_prompt=True))

    def probabilities(
        self, premises: Sequence[str], images: Sequence[Any] | None, hypotheses: Sequence[str]
    ) -> tuple[NDArray[np.float64], int]:
        """(B,) probabilities of "yes"."""
        import torch

        prompts = [self.prompt(*texts) for texts in zip(premises, hypotheses, strict=True)]
        opened = self._open(images or [])
        # Padding on the right leaves the positions of a pair independent of its batch.
        how: dict[str, Any] = {"padding": True, "padding_side": "right", "return_tensors": "pt"}
        if prompts[0].startswith(self.processor.tokenizer.bos_token or "\0"):
            how["add_special_tokens"] = False  # the template has written the first token
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # PaliGemma's of NumPy, for labels that are not used
            inputs = self.processor(text=prompts, images=[[each] for each in opened], **how)
        inputs = inputs.to(self.model.device, self.model.dtype)
        inputs.pop("labels", None)
        present = inputs["attention_mask"]
        last = present.shape[1] - 1 - present.flip(1).argmax(1)  # some processors pad on the left all the same
        places, rows = last.unique(return_inverse=True)
        logits = self.model(**inputs, logits_to_keep=places, use_cache=False).logits
        if logits.shape[1] != places.numel():  # the model knows no logits_to_keep
            if logits.shape[1] != inputs["input_ids"].shape[1]:
                raise ModelError(f"{self.name}: its answers have other places than its prompts, so P(yes) is not known")
            logits = logits[:, places]
        logits = logits[torch.arange(len(prompts)), rows].double()
        yes, no = (logits[:, ids].logsumexp(-1) for ids in self.answers)
        return (yes - no).sigmoid().cpu().numpy(), 0

    def _open(self, images: Sequence[Any]) -> list[Any]:
        from cxc_eccv.encoding.images import open_picture

        opened = {image: open_picture(image).image for image in dict.fromkeys(images)}
        return [opened[image] for image in images]


def spellings(tokenizer: Any, word: str, name: str) -> list[int]:  # noqa: ANN401 - of transformers
    """The tokens that spell a word, in any case, with or without a space before it."""
    vocabulary = tokenizer.get_vocab().items()
    ids = [place for token, place in vocabulary if token.removesuffix("</w>").lstrip(BEFORE_WORDS).lower() == word]
    if not ids:
        raise ModelError(f"{name}: its tokenizer has no token for {word!r}, so its probability cannot be read")
    return sorted(ids)


def announce(
    source: str | Path, *, images: bool, device: str | None, name: str | None, question: str = OF_IMAGE
) -> Announced:
    """Check the question; weights are loaded later."""
    check_question(question)
    title = name or (Path(source).name if Path(source).is_dir() else str(source))
    return Announced(title, lambda: load(source, title, question, device), has_visual=True, source=str(source))


def load(source: str | Path, name: str, question: str, device: str | None) -> VisionLanguage:
    """Load weights, in the type that they were saved in, and processor."""
    from transformers import AutoModelForImageTextToText, AutoProcessor

    from cxc_eccv.encoding.checkpoints import load_part

    processor = load_part(AutoProcessor, source)
    model = open_model(AutoModelForImageTextToText, source, device, "auto")
    return VisionLanguage(model, processor, name, question)


def recognise(_: str, config: Mapping[str, Any]) -> bool:
    """Whether transformers loads the first architecture of a config from images and text to text."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    return (config.get("architectures") or [""])[0] in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.values()


KIND = Kind(
    "vision_language",
    "a generative vision-language model, by its probability of yes",
    recognise,
    announce,
    ("question",),
)
