"""A model of natural language inference, or a cross-encoder of sentences, which reads an image's captions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import ModelError
from cxc_eccv.studies.entailment.answerer import Announced, Kind
from cxc_eccv.studies.entailment.answering.hub_model import HubModel, open_model

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


def announce(source: str | Path, *, images: bool, device: str | None, name: str | None) -> Announced:
    """Read the config of a sequence classifier."""
    from transformers import AutoConfig

    from cxc_eccv.encoding.checkpoints import load_part

    config = load_part(AutoConfig, str(source))
    title = name or (Path(source).name if Path(source).is_dir() else str(source))
    if config.problem_type == "regression":
        raise ModelError(
            f"{title}: its output is the value of a regression, such as a rating, and no probability. If it is a "
            "logit, remove problem_type from its config.json"
        )
    label = find_label(title, [str(config.id2label[place]) for place in range(config.num_labels)])
    return Announced(title, lambda: load(source, title, label, device), source=str(source))


def load(source: str | Path, name: str, label: int | None, device: str | None) -> TextClassifier:
    """Load weights and tokenizer."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from cxc_eccv.encoding.checkpoints import load_part

    model = open_model(AutoModelForSequenceClassification, source, device, "float32")
    return TextClassifier(model, load_part(AutoTokenizer, source), name, label)


def recognise(_: str, config: Mapping[str, Any]) -> bool:
    """Whether the first architecture of a config classifies sequences."""
    return str((config.get("architectures") or [""])[0]).endswith(HEAD)


KIND = Kind(
    "cross_encoder",
    "a sequence classifier with a label entailment, or with one logit (a cross-encoder)",
    recognise,
    announce,
)
