"""Arguments of the training script: model, data and objective; others are transformers' TrainingArguments."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from transformers import TrainingArguments

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.studies.baselines.command_line import option
from cxc_eccv.studies.baselines.training import SHAPING, ScriptArguments

LEARNING_RATES = {"pretrain": 1e-4, "finetune": 5e-6}
"""Stage to the initial learning rate, from the CxC paper's appendix."""

PRETRAINING_STEPS = 30_000
SMALL_BATCH = 128
"""Pairs over all processes in the paper's ablation with a small batch."""


@dataclass
class ModelArguments:
    """The model to train."""

    _argument_group_name = "model"

    pretrained: str | None = option(None, "Dual encoder to start from: ours, CLIP, SigLIP, VisionTextDualEncoder.")
    no_pretraining: bool = option(False, "Start from the two backbones instead.")
    text_model: str = option("google-bert/bert-base-uncased", "Text backbone; sample: a tiny one for the sample.")
    image_model: str = option("google/efficientnet-b4", "Image backbone; sample: a tiny one for the sample.")
    resnet: bool = option(False, "ResNet-152 as image backbone, as in the paper's ablation.")
    train_text_model: bool = option(False, "Train the text backbone; frozen otherwise.")
    extra_layers: int = option(3, "Trainable transformer layers above the text backbone.")
    extra_heads: int = option(8, "Attention heads of these layers.")
    extra_feed_forward: int = option(3072, "Width of their hidden layer.")
    extra_dropout: float = option(0.1, "Dropout of these layers.")
    pooling: str = option("first_token", "first_token or mean.")
    image_pooling: str = option("backbone", "backbone: that of the backbone; or max.")
    normalize: bool = option(False, "Features of unit length; dot products otherwise.")
    scale: float = option(1.0, "Factor of similarities in the loss.")
    learned_scale: bool = option(False, "Train the scale.")


@dataclass
class ObjectiveArguments:
    """The loss to minimise."""

    _argument_group_name = "objective"

    mode: str | None = option(None, "t2t, i2t or t2t+i2t; default: i2t to pre-train, t2t+i2t to fine-tune.")
    loss: str = option(
        "paper",
        "paper: the positive is not in the denominator; softmax; triplet_all (VSE0), triplet_semi_hard, "
        "triplet_hardest (VSE++): hinge losses over all negatives of the batch, or over one.",
    )
    margin: float = option(0.2, "Margin of the triplet losses; VSE uses it with --normalize.")
    text_weight: float = option(1.0, "c, the weight of the text-text loss relative to image-text.")
    judged_positives: str | None = option(None, "val or test: pairs rated similar in this split are positives too.")
    weak_positives_as: str = option(
        "extra_batch",
        "extra_batch: follow each batch by one of weak positives, at --alpha times the learning rate; weight: add "
        "their loss times --alpha; multi_positive: those within a batch are positives. Weak positives are never "
        "negatives.",
    )
    alpha: float = option(0.3, "Weight of weak positives, or factor of the learning rate, 0 to 1.")


@dataclass
class DataArguments:
    """The data to train and score on."""

    _argument_group_name = "data"

    train_on: list[str] = option(
        ["coco/train"], "coco/train, coco/restval, coco/val, flickr30k/train, flickr8k/all, ..."
    )
    pairs_file: str | None = option(None, "In place of --train-on, a file of lines: image file, tab, caption.")
    weak_positives: list[str] = option(
        [], "Files of cxc-eccv mine, one for each split: captions that also describe other images."
    )
    data_dir: str | None = option(None, "Folder with the raw files; 'sample' for the sample.")
    images: str | None = option(None, "Folder with the images, at any depth; 'sample' for the sample's.")
    held_out: int | None = option(
        None,
        "Training images to hold out, whose R@10 selects the checkpoint in place of COCO val; default: 5000 of "
        "--pairs-file, but at most a tenth, and none of --train-on.",
    )
    recolour: bool = option(False, "Augment the embedded sample by changing colours in pictures and captions.")
    report_on: str | None = option(None, "val or test: score the trained model there, and write OUTPUT-DIR/report.")


@dataclass
class DualEncoderTrainingArguments(ScriptArguments):
    """The paper's training: Adam, 64 pairs per process, no clipping, the checkpoint with the best R@10."""

    output_dir: str = option("dual_encoder", "Folder for checkpoints, model and report.")
    stage: str = option("finetune", "pretrain: from 1e-4; finetune: from 5e-6.")
    learning_rate: float | None = option(  # type: ignore[assignment] # Trainer sees a number
        None,
        "Initial learning rate; default: that of the stage.",
    )
    schedule: str = option("staircase", "staircase: 0.1%% less every 1000 steps; other: --lr-scheduler-type.")
    num_train_epochs: float | None = option(  # type: ignore[assignment] # Trainer sees a number
        None,
        "Default: 3; to pre-train, --max-steps 30000.",
    )
    max_grad_norm: float = option(0.0, "Clip gradients at this norm; 0: do not clip.")
    small_batch: bool = option(False, "128 pairs over all processes.")
    weight_decay: float = 0.0
    per_device_train_batch_size: int = 64
    dataloader_drop_last: bool = True
    metric_for_best_model: str = "recall_at_10"

    def __post_init__(self) -> None:
        if self.stage not in LEARNING_RATES:
            raise UnknownName("stage", self.stage, LEARNING_RATES)
        if self.schedule not in ("staircase", "other"):
            raise UnknownName("schedule", self.schedule, ("staircase", "other"))
        if self.learning_rate is None:
            self.learning_rate = LEARNING_RATES[self.stage]
        if self.num_train_epochs is None:
            self.num_train_epochs = 3.0
            if self.stage == "pretrain" and self.max_steps < 0:
                self.max_steps = PRETRAINING_STEPS
        super().__post_init__()
        if self.small_batch:
            if SMALL_BATCH % self.world_size:
                raise InvalidOption(
                    f"--small-batch: {SMALL_BATCH} pairs cannot be divided among {self.world_size} processes; use a "
                    f"divisor of {SMALL_BATCH}"
                )
            self.per_device_train_batch_size = SMALL_BATCH // self.world_size


def run_identity(
    model: ModelArguments, objective: ObjectiveArguments, data: DataArguments, training: TrainingArguments
) -> dict[str, Any]:
    """The options that the weights of a run depend on, without those for places of files and the report."""
    elsewhere = {"data_dir", "images", "report_on"}
    shaping = {key: getattr(training, key) for key in (*SHAPING, "schedule")}
    given = {**asdict(model), **asdict(objective), **asdict(data), **shaping}
    unused = elsewhere | (set() if objective.loss.startswith("triplet") else {"margin"})
    if not data.weak_positives:
        unused |= {"weak_positives", "weak_positives_as", "alpha"}
    identity: dict[str, Any] = json.loads(json.dumps({key: given[key] for key in given if key not in unused}))
    return identity
