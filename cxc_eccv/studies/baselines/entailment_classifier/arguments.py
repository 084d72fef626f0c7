"""What a training run is asked for: model, objective and data; the rest are transformers' TrainingArguments."""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.studies.baselines.command_line import option
from cxc_eccv.studies.baselines.training import SHAPING, ScriptArguments, process_rank
from cxc_eccv.studies.entailment.classifier import KINDS
from cxc_eccv.studies.entailment.training_data import part_of

BRANCHES = ("both", "text", "visual")
ATTENTION = ("sdpa", "eager")
MEASURES = ("f_half", "accuracy")


@dataclass
class ModelArguments:
    """Which model is trained."""

    _argument_group_name = "model"

    pretrained: str | None = option(
        None, "Classifier of this script to go on from; the other options are then its own."
    )
    branches: str | None = option(None, "both, text or visual; by default both with --images, and text without.")
    text_model: str = option(
        "google-bert/bert-base-uncased", "Encoder of the text branch; sample: a tiny one for the sample."
    )
    visual_text_model: str = option(
        "Salesforce/blip-itm-base-coco",
        "Text encoder of the visual branch, or a model that reads both image and text; sample.",
    )
    image_model: str | None = option(None, "Image encoder, where that model has none of its own; sample: a tiny ViT.")
    shared_text_encoder: bool = option(
        False, "The visual branch's text encoder is the text branch's as well (w/o BERT)."
    )
    head: str = option("softmax", "softmax over two values, or sigmoid of one.")
    head_dropout: float = option(0.0, "Dropout in the heads.")
    attention: str | None = option(
        None, "sdpa or eager, which on a processor with --bf16 and dropout is the faster; the encoders' own."
    )

    def __post_init__(self) -> None:
        if self.branches not in (None, *BRANCHES):
            raise UnknownName("branches", self.branches, BRANCHES)
        if self.attention not in (None, *ATTENTION):
            raise UnknownName("attention", self.attention, ATTENTION)
        if self.shared_text_encoder and self.branches not in (None, "both"):
            raise InvalidOption(f"--shared-text-encoder is of both branches, and --branches is {self.branches}")

    def choose_branches(self, images: str | None) -> ModelArguments:
        """The same with its branches named: without images the text branch alone, and a warning that says so."""
        if images is not None or self.pretrained is not None or self.branches == "text":
            return replace(self, branches=self.branches or "both")
        if self.branches is not None or self.shared_text_encoder:
            asked = "--shared-text-encoder" if self.shared_text_encoder else f"--branches {self.branches}"
            raise InvalidOption(
                f"{asked} trains a visual branch, and there are no images: name their folder with --images, or train "
                "the text branch alone with --branches text"
            )
        if process_rank() == 0:
            warnings.warn(
                "no --images: the text branch alone is trained, and the classifier will look at no image. Name a "
                "folder with --images to train both branches; --branches text is the same run without this warning",
                stacklevel=3,
            )
        return replace(self, branches="text")


@dataclass
class ObjectiveArguments:
    """What is minimised."""

    _argument_group_name = "objective"

    masking: bool = option(True, "Positives with the most attended patches blanked become negatives.")
    mask_ratio: float = option(0.4, "Share of the patches that are blanked.")
    mask_share: float = option(0.25, "Share of a batch's pairs with an image that get a masked copy.")
    soft_labels: float = option(
        0.0, "Where a pair has a rating, its target is 1 / (1 + exp(-SOFT_LABELS (rating - 3))); 0: its label."
    )

    def __post_init__(self) -> None:
        if self.soft_labels < 0:
            raise InvalidOption(f"--soft-labels {self.soft_labels:g}: give a positive steepness, or 0 for labels")


@dataclass
class DataArguments:
    """What the model is trained, chosen and scored on."""

    _argument_group_name = "data"

    train_on: list[str] = option(
        ["cxc/val", "sick/train", "stsb/train"],
        "Parts of the corpora; the first is the one that pairs are held out of. See the docs.",
    )
    data_dir: str | None = option(None, "Folder with the raw files; 'sample' for the sample.")
    images: str | None = option(
        None, "Folder with the images, at any depth; 'sample' for the sample's; none: text alone."
    )
    used_as: list[str] = option(
        [],
        "CORPUS=KINDS, such as snli_ve=visual,multimodal: the kinds of pairs (text, visual, multimodal) that a "
        "corpus is used as, each pair once for each; KINDS alone is for all. By default a pair has the captions and "
        "the image that are there.",
        aliases=["--as"],
    )
    text_data: bool = option(True, "Train on pairs of text alone.")
    visual_data: bool = option(True, "Train on pairs with an image alone as premise.")
    held_out: int | None = option(
        None,
        "Images whose pairs of the first part choose checkpoint, threshold and calibration, and are not trained on; "
        "by default a tenth of its images, 0 for none.",
    )
    dev: str | None = option(
        None,
        "A part, such as snli_ve/dev, whose pairs choose checkpoint, threshold and calibration in place of --held-out.",
    )
    threshold_for: str = option("f_half", "f_half or accuracy: what the threshold and the checkpoint are best in.")
    precision: float | None = option(None, "Take the threshold that reaches this precision (0.9) instead.")
    protect: str = option("test", "test, or val,test: splits of which nothing is to be trained on.")
    allow_test_data: bool = option(False, "Let test splits in; every report of the model then says so.")
    report_on: str | None = option(None, "A part, such as cxc/test, to score; writes OUTPUT-DIR/report.")

    def __post_init__(self) -> None:
        if self.threshold_for not in MEASURES:
            raise UnknownName("measure to choose a threshold for", self.threshold_for, MEASURES)
        if self.precision is not None and not 0 < self.precision <= 1:
            raise InvalidOption(f"--precision {self.precision:g}: give a fraction above 0, and at most 1")
        if self.held_out is not None and self.held_out < 0:
            raise InvalidOption(f"--held-out {self.held_out}: give a number of images, or 0 for none")
        if self.dev is not None and self.held_out is not None:
            raise InvalidOption("--dev and --held-out both say which pairs choose the checkpoint: give one of them")
        parts = [part_of(name) for name in self.train_on]
        if self.dev is not None and part_of(self.dev) in parts:
            raise InvalidOption(
                f"--dev {self.dev} is in --train-on, too: train on other parts, or leave out --dev, and a tenth of the "
                "images of the first part is held out"
            )
        self.kinds()

    @property
    def parts(self) -> list[str]:
        """Those that are trained on, then the one that chooses."""
        return [*self.train_on, *([] if self.dev is None else [self.dev])]

    def kinds(self) -> dict[str, list[str]]:
        """Corpus to the kinds of pairs that it is used as, where that is said."""
        corpora = list(dict.fromkeys(part_of(name)[0].name for name in self.parts))
        found: dict[str, list[str]] = {}
        for use in self.used_as:
            corpus, _, listed = use.rpartition("=")
            kinds = list(dict.fromkeys(kind.strip() for kind in listed.split(",")))
            for kind in kinds:
                if kind not in KINDS:
                    raise UnknownName(f"kind of pairs in --as {use}", kind, KINDS)
            if corpus and corpus not in corpora:
                raise UnknownName(f"corpus of --train-on and --dev in --as {use}", corpus, corpora)
            found |= dict.fromkeys([corpus] if corpus else corpora, kinds)
        return found


@dataclass
class EntailmentTrainingArguments(ScriptArguments):
    """The paper's training: AdamW from 2e-5, weight decay 0.02, 96 pairs a batch, five epochs."""

    output_dir: str = option("entailment_classifier", "Folder for checkpoints, model and report.")
    learning_rate: float = 2e-5
    head_learning_rate: float | None = option(None, "Of gate and heads, which are new; --learning-rate by default.")
    weight_decay: float = 0.02
    num_train_epochs: float = 5.0
    per_device_train_batch_size: int = 96
    per_device_eval_batch_size: int = 64
    metric_for_best_model: str = "f_half"
    # A batch of text alone gives the visual branch no gradient. With checkpointed activations Trainer does not expect
    # that by itself, and several processes end there.
    ddp_find_unused_parameters: bool | None = True


def run_identity(
    model: ModelArguments, objective: ObjectiveArguments, data: DataArguments, training: EntailmentTrainingArguments
) -> dict[str, Any]:
    """What the weights of a run depend on; where its data and images lie, and what is reported, do not count."""
    elsewhere = {"data_dir", "report_on", "precision"}
    sought = {key: value for key, value in asdict(data).items() if key not in elsewhere}
    sought["images"] = data.images is not None
    shaping = {key: getattr(training, key) for key in (*SHAPING, "head_learning_rate")}
    found: dict[str, Any] = json.loads(json.dumps({**asdict(model), **asdict(objective), **sought, **shaping}))
    return found
