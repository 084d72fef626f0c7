"""Models of the Hugging Face Hub that answer: our classifier, text classifiers, and vision-language models."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from cxc_eccv.errors import CheckpointMismatch, ModelError
from cxc_eccv.studies.entailment.answerer import OF_IMAGE, Announced, Answerer, Kind, check_question, fill
from cxc_eccv.types import check_whole

if TYPE_CHECKING:
    from cxc_eccv.studies.entailment.scoring import Classifier


def open_model(kind: Any, source: str | Path, device: str | None, dtype: str) -> Any:  # noqa: ANN401 - any model
    """Load a model with its head from a folder or Hub id; CheckpointMismatch if weights are missing."""
    import torch

    from cxc_eccv.encoding.checkpoints import explain_damage, open_checkpoint
    from cxc_eccv.ranking.device import torch_on

    if device is not None:
        torch_on(device)
    with explain_damage(source, lambda reason: f"{source}: the checkpoint cannot be loaded ({reason})"):
        model, loading = open_checkpoint(kind, str(source), dtype=dtype, output_loading_info=True)
    missing = sorted(key for key in loading["missing_keys"] if "position_ids" not in key)
    if missing:
        raise CheckpointMismatch(
            f"{source}: the checkpoint lacks {len(missing)} weights of {type(model).__name__}, the first: "
            f"{missing[0]}; they would be random"
        )
    return model.eval().to(device or ("cuda" if torch.cuda.is_available() else "cpu"))


class HubModel(Answerer):
    """A model of transformers with what prepares its input."""

    def __init__(self, model: Any, processor: Any, name: str) -> None:  # noqa: ANN401 - of transformers
        self.model, self.processor, self.name = model, processor, name
        self.source = str(getattr(model.config, "_name_or_path", ""))
        self.commit = getattr(model.config, "_commit_hash", None)

    @property
    @abstractmethod
    def settings(self) -> Sequence[str]:
        """What changes its answers, beside weights and processors."""

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]
        """Hex sha256 over weights, config, processors and settings."""
        import torch

        from cxc_eccv.encoding.models import UNUSED, LoadedModel, Processors, model_key

        sides = ["captions", "images"] if self.has_visual else ["captions"]
        head = sha256()  # features use no pooler, but a head does
        for name, tensor in sorted(self.model.state_dict().items()):
            if any(part in name for part in UNUSED):
                head.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
        loaded = LoadedModel(self.model, Processors(self.processor, ""), self.name)
        return model_key(loaded, sides, *self.settings, head.hexdigest())

    @abstractmethod
    def probabilities(
        self, premises: Sequence[str], images: Sequence[Any] | None, hypotheses: Sequence[str]
    ) -> tuple[NDArray[np.float64], int]:
        """(B,) probabilities of a batch, and the number of pairs of which a part was cut off."""

    def score_and_count(
        self,
        premises: Sequence[str],
        images: Sequence[Any] | None,
        hypotheses: Sequence[str],
        *,
        batch_size: int = 64,
        progress: bool = True,
    ) -> tuple[NDArray[np.float64], int]:
        """(P,) probabilities of pairs, in batches of similar length, and the number of cut pairs."""
        import torch

        check_whole("batch_size", batch_size)
        self.refuse_gaps(premises, images, hypotheses)
        lengths = [len(premise) + len(hypothesis) for premise, hypothesis in zip(premises, hypotheses, strict=True)]
        order, cut = np.argsort(-np.array(lengths, dtype=np.int64), kind="stable"), 0
        scores = np.empty(order.size)
        with tqdm(total=order.size, desc="scoring pairs", unit=" pairs", disable=not progress) as bar:
            for start in range(0, order.size, batch_size):
                rows = order[start : start + batch_size].tolist()
                seen = None if images is None else [images[row] for row in rows]
                texts = [[side[row] for row in rows] for side in (premises, hypotheses)]
                with torch.inference_mode():
                    scores[rows], shortened = self.probabilities(texts[0], seen, texts[1])
                cut += shortened
                bar.update(len(rows))
        if not np.isfinite(scores).all():
            raise ModelError(
                f"{self.name} gave {np.count_nonzero(~np.isfinite(scores))} of {scores.size} probabilities that are "
                "not finite: its weights are damaged, or overflow in this dtype"
            )
        return scores, cut


HEAD = "ForSequenceClassification"


class TextClassifier(HubModel):
    """A sequence classifier of premise and hypothesis: the softmax of its label, or the sigmoid of its one logit."""

    def __init__(self, model: Any, tokenizer: Any, name: str, label: int | None) -> None:  # noqa: ANN401 - of transformers
        super().__init__(model, tokenizer, name)
        self.label = label
        # Padding on the left moves a pair's positions; only XLNet has none, and reads the last place.
        self.side = "left" if model.config.model_type == "xlnet" else "right"

    @property
    def settings(self) -> Sequence[str]:
        """The label that counts, and the side of padding."""
        return ["cross-encoder", str(self.label), self.side]

    def probabilities(
        self, premises: Sequence[str], images: Sequence[Any] | None, hypotheses: Sequence[str]
    ) -> tuple[NDArray[np.float64], int]:
        """(B,) probabilities; what exceeds the context is cut from the premises."""
        from cxc_eccv.encoding.text_input import context_length

        limit = context_length(self.processor, self.model)
        texts = list(premises), list(hypotheses)
        whole = self.processor(*texts, verbose=False)["input_ids"]
        how: dict[str, Any] = {"padding": True, "padding_side": self.side}
        how |= {"truncation": "only_first", "max_length": limit} if limit else {}
        try:
            inputs = self.processor(*texts, return_tensors="pt", **how).to(self.model.device)
        except Exception as error:
            raise ModelError(f"{self.name}: a hypothesis does not fit into {limit} tokens ({error})") from None
        logits = self.model(**inputs).logits.double()
        scores = logits[:, 0].sigmoid() if self.label is None else logits.softmax(-1)[:, self.label]
        return scores.cpu().numpy(), sum(len(ids) > limit for ids in whole) if limit else 0


def name_of(source: str | Path) -> str:
    """The name of a folder, or a Hub id."""
    return Path(source).name if Path(source).is_dir() else str(source)


def find_label(name: str, labels: Sequence[str]) -> int | None:
    """The place of the label ``entailment``; None for a single logit, whose sigmoid is the probability.

    Raises:
        ModelError: there are several labels, and not exactly one is named so.

    Example:
        >>> find_label("mnli", ["CONTRADICTION", "NEUTRAL", "ENTAILMENT"])
        2
        >>> find_label("two", ["entailment", "not_entailment"])
        0
    """
    if len(labels) == 1:
        return None
    places = [place for place, label in enumerate(labels) if label.strip().lower() in ("entailment", "entails")]
    if len(places) != 1:
        raise ModelError(
            f"{name}: its labels are {', '.join(labels)}, so which one means entailment is unknown. Name one "
            "'entailment' in id2label of its config.json"
        )
    return places[0]


def announce_text_classifier(source: str | Path, *, images: bool, device: str | None, name: str | None) -> Announced:
    """Read the config of a sequence classifier."""
    from transformers import AutoConfig

    from cxc_eccv.encoding.checkpoints import load_part

    config = load_part(AutoConfig, str(source))
    title = name or name_of(source)
    if config.problem_type == "regression":
        raise ModelError(
            f"{title}: its output is the value of a regression, such as a rating, and no probability. If it is a "
            "logit, remove problem_type from its config.json"
        )
    label = find_label(title, [str(config.id2label[place]) for place in range(config.num_labels)])

    def load() -> TextClassifier:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        model = open_model(AutoModelForSequenceClassification, source, device, "float32")
        return TextClassifier(model, load_part(AutoTokenizer, source), title, label)

    return Announced(title, load, source=str(source))


def classifies_text(_: str, config: Mapping[str, Any]) -> bool:
    """Whether the first architecture of a config classifies sequences."""
    return str((config.get("architectures") or [""])[0]).endswith(HEAD)


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


def announce_vision_language(
    source: str | Path, *, images: bool, device: str | None, name: str | None, question: str = OF_IMAGE
) -> Announced:
    """Check the question; weights are loaded later, in the type that they were saved in."""
    check_question(question)
    title = name or name_of(source)

    def load() -> VisionLanguage:
        from transformers import AutoModelForImageTextToText, AutoProcessor

        from cxc_eccv.encoding.checkpoints import load_part

        processor = load_part(AutoProcessor, source)
        model = open_model(AutoModelForImageTextToText, source, device, "auto")
        return VisionLanguage(model, processor, title, question)

    return Announced(title, load, has_visual=True, source=str(source))


def answers_about_images(_: str, config: Mapping[str, Any]) -> bool:
    """Whether transformers loads the first architecture of a config from images and text to text."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    return (config.get("architectures") or [""])[0] in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.values()


def announce_classifier(source: str | Path, *, images: bool, device: str | None, name: str | None) -> Announced:
    """Read the config of a classifier."""
    from transformers import AutoConfig

    from cxc_eccv.encoding.checkpoints import Origin, load_part
    from cxc_eccv.studies.entailment import scoring

    def load() -> Classifier:
        return scoring.load_classifier(source, device=device, name=name)

    config = load_part(AutoConfig, str(source), Origin(None))
    return Announced(
        name or name_of(source),
        load,
        float(config.threshold),
        bool(config.has_visual),
        getattr(config, "training_data", None),
        str(getattr(config, "_name_or_path", "")),
        getattr(config, "_commit_hash", None),
    )


CLASSIFIER = Kind(
    "a classifier trained with cxc-eccv train entailment-classifier",
    lambda _, config: config.get("model_type") == "cxc_eccv_entailment",
    announce_classifier,
)

TEXT_CLASSIFIER = Kind(
    "a sequence classifier with a label entailment, or with one logit (a cross-encoder)",
    classifies_text,
    announce_text_classifier,
)

VISION_LANGUAGE = Kind(
    "a generative vision-language model, by its probability of yes",
    answers_about_images,
    announce_vision_language,
    ("question",),
)
