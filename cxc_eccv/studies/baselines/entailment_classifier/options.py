"""The options of ``cxc-eccv train entailment-classifier``: model, loss, data, training; others are transformers'."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from cxc_eccv.encoding.processes import current_processes
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.sources.catalog import SAMPLE
from cxc_eccv.sources.download import sample_images
from cxc_eccv.studies.entailment.classifier import PAIR_KINDS
from cxc_eccv.studies.entailment.labelled import find_labelled
from cxc_eccv.studies.entailment.training_data import part_of
from cxc_eccv.studies.trainers.model_card import Settings
from cxc_eccv.studies.trainers.options import CommandLine, option
from cxc_eccv.studies.trainers.resuming import identify_run
from cxc_eccv.studies.trainers.trainer import TrainerOptions


@dataclass
class ModelOptions:
    """The model to train."""

    _argument_group_name = "model"

    pretrained: str | None = option(
        None, "Classifier of this script to start from, which determines the other options of the model."
    )
    branches: Literal["both", "text", "visual"] | None = option(None, "Default: both with --images, text without.")
    text_model: str = option(
        "google-bert/bert-base-uncased", "Encoder of the text branch; sample: a tiny one for the sample."
    )
    visual_text_model: str = option(
        "Salesforce/blip-itm-base-coco",
        "Text encoder of the visual branch, or a model that reads both image and text; sample: a tiny one.",
    )
    image_model: str | None = option(None, "Image encoder, if that model has none; sample: a tiny ViT.")
    shared_text_encoder: bool = option(
        False, "Use the visual branch's text encoder for the text branch too (w/o BERT)."
    )
    head: Literal["softmax", "sigmoid"] = option("softmax", "softmax over two values, or sigmoid of one.")
    head_dropout: float = option(0.0, "Dropout in the heads.")
    attention: Literal["sdpa", "eager"] | None = option(
        None, "eager is faster on a CPU with --bf16 and dropout; default: that of the encoders."
    )

    def check(self) -> None:
        """Raise InvalidOption for an encoder that is shared by one branch."""
        if self.shared_text_encoder and self.branches not in (None, "both"):
            raise InvalidOption(f"--shared-text-encoder needs both branches, but --branches is {self.branches}")

    def choose_branches(self, images: str | None) -> ModelOptions:
        """The same with explicit branches; without images, warn and train only the text branch."""
        if images is not None or self.pretrained is not None or self.branches == "text":
            return replace(self, branches=self.branches or "both")
        if self.branches is not None or self.shared_text_encoder:
            asked = "--shared-text-encoder" if self.shared_text_encoder else f"--branches {self.branches}"
            raise InvalidOption(
                f"{asked} trains a visual branch, which needs images: give their folder with --images, or train only "
                "the text branch with --branches text"
            )
        if current_processes().rank == 0:
            warnings.warn(
                "without --images only the text branch is trained, and the classifier will not look at images. Give a "
                "folder with --images to train both branches, or --branches text to avoid this warning",
                stacklevel=3,
            )
        return replace(self, branches="text")


@dataclass
class LossOptions:
    """The loss to minimise."""

    _argument_group_name = "objective"

    masking: bool = option(True, "Add negatives: positives with the most attended patches blanked.")
    mask_ratio: float = option(0.4, "Share of the patches that are blanked.")
    mask_share: float = option(0.25, "Share of a batch's pairs with an image that get a masked copy.")
    soft_labels: float = option(
        0.0, "Target of a pair with a rating: 1 / (1 + exp(-SOFT_LABELS (rating - 3))); 0: its label."
    )

    def check(self) -> None:
        """Raise InvalidOption for a steepness below 0."""
        if self.soft_labels < 0:
            raise InvalidOption(f"--soft-labels {self.soft_labels:g}: give a positive steepness, or 0 for labels")


@dataclass
class DataOptions:
    """The data to train, select and score on."""

    _argument_group_name = "data"

    train_on: list[str] = option(
        ["cxc/val", "sick/train", "stsb/train"],
        "Parts of the corpora; pairs are held out from the first. See the docs.",
    )
    data_dir: str | None = option(None, "Folder with the raw files; 'sample' for the sample.", shapes=False)
    images: str | None = option(
        None,
        "Folder with the images, at any depth; 'sample' for the sample's; default: text only.",
        shapes=False,
    )
    used_as: list[str] = option(
        [],
        "CORPUS=KINDS, such as snli_ve=visual,multimodal: use each pair of a corpus once as each of these kinds (text, "
        "visual, multimodal); KINDS alone is for all corpora. Default: the kind with all present captions and images.",
        aliases=["--as"],
    )
    text_data: bool = option(True, "Train on pairs of text only.")
    visual_data: bool = option(True, "Train on pairs with only an image as premise.")
    held_out: int | None = option(
        None,
        "Number of images of the first part whose pairs are held out to choose checkpoint, threshold and calibration; "
        "default: a tenth, 0 for none.",
    )
    dev: str | None = option(
        None, "A part such as snli_ve/dev to choose checkpoint, threshold and calibration, in place of --held-out."
    )
    threshold_for: Literal["f_half", "accuracy"] = option(
        "f_half", "The measure that chooses threshold and checkpoint."
    )
    precision: float | None = option(
        None, "Choose the threshold that reaches this precision (0.9) instead.", shapes=False
    )
    allow_test_data: bool = option(False, "Allow test splits; every report of the model then says so.")
    report_on: str | None = option(None, "A part, such as cxc/test, to score; writes OUTPUT-DIR/report.", shapes=False)

    def check(self) -> None:
        """Raise InvalidOption or UnknownName for options that make no run."""
        if self.precision is not None and not 0 < self.precision <= 1:
            raise InvalidOption(f"--precision {self.precision:g}: give a fraction above 0 and at most 1")
        if self.held_out is not None and self.held_out < 0:
            raise InvalidOption(f"--held-out {self.held_out}: give a number of images, or 0 for none")
        if self.dev is not None and self.held_out is not None:
            raise InvalidOption("--dev and --held-out both choose the checkpoint: give one of them")
        parts = [part_of(name) for name in self.train_on]
        if self.dev is not None and part_of(self.dev) in parts:
            raise InvalidOption(
                f"--dev {self.dev} is also in --train-on: train on other parts, or leave out --dev to hold out a tenth "
                "of the images of the first part"
            )
        self.kinds()
        if self.report_on is not None:
            find_labelled(self.report_on)

    @property
    def parts(self) -> list[str]:
        """The parts of --train-on, then that of --dev."""
        return [*self.train_on, *([] if self.dev is None else [self.dev])]

    @property
    def image_folder(self) -> Path | None:
        """The folder of --images."""
        return sample_images() if self.images == SAMPLE else Path(self.images) if self.images else None

    def kinds(self) -> dict[str, list[str]]:
        """Corpus to the kinds of pairs that --as gives for it."""
        corpora = list(dict.fromkeys(part_of(name)[0].name for name in self.parts))
        kinds_of_corpus: dict[str, list[str]] = {}
        for use in self.used_as:
            corpus, _, listed = use.rpartition("=")
            kinds = list(dict.fromkeys(kind.strip() for kind in listed.split(",")))
            for kind in kinds:
                if kind not in PAIR_KINDS:
                    raise UnknownName(f"kind of pairs in --as {use}", kind, PAIR_KINDS)
            if corpus and corpus not in corpora:
                raise UnknownName(f"corpus of --train-on and --dev in --as {use}", corpus, corpora)
            kinds_of_corpus |= dict.fromkeys([corpus] if corpus else corpora, kinds)
        return kinds_of_corpus


@dataclass
class TrainingOptions(TrainerOptions):
    """The paper's training: AdamW from 2e-5, weight decay 0.02, 96 pairs a batch, five epochs."""

    output_dir: str = option("entailment_classifier", "Folder for checkpoints, model and report.", shapes=False)
    learning_rate: float = option(2e-5, "Initial learning rate.")
    head_learning_rate: float | None = option(None, "Of the new gate and heads; default: --learning-rate.")
    weight_decay: float = 0.02
    num_train_epochs: float = option(5.0, "Passes over the pairs.")
    per_device_train_batch_size: int = option(96, "Pairs of a batch on each process.")
    per_device_eval_batch_size: int = 64
    metric_for_best_model: str = "f_half"


class Options(NamedTuple):
    """All options of a run."""

    model: ModelOptions
    loss: LossOptions
    data: DataOptions
    training: TrainingOptions

    def check(self) -> None:
        """Raise InvalidOption or UnknownName for options that make no run, before anything is loaded."""
        for options in self:
            options.check()

    @property
    def identity(self) -> Settings:
        """The options that shape the run, and whether it has images."""
        return {**identify_run(*self), "images": self.data.images is not None}


COMMAND = CommandLine("entailment-classifier", Options)
