"""The options of ``cxc-eccv train dual-encoder``: model, loss, data, training; further ones are transformers'."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal, NamedTuple

from cxc_eccv.errors import InvalidOption
from cxc_eccv.hashing import hash_content
from cxc_eccv.sources.catalog import SAMPLE
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.studies.trainers.model_card import Settings
from cxc_eccv.studies.trainers.options import CommandLine, option
from cxc_eccv.studies.trainers.resuming import identify_run
from cxc_eccv.studies.trainers.trainer import TrainerOptions
from cxc_eccv.wording import list_names

LEARNING_RATES = {"pretrain": 1e-4, "finetune": 5e-6}
"""Stage to the initial learning rate, from the CxC paper's appendix."""

PRETRAINING_STEPS = 30_000


PRESETS: Mapping[str, Settings] = {
    "quick": {
        "no_pretraining": True,
        "text_model": "sentence-transformers/all-MiniLM-L6-v2",
        "train_text_model": True,
        "extra_layers": 0,
        "pooling": "mean",
        "normalize": True,
        "scale": 20.0,
        "mode": "t2t",
        "loss": "softmax",
        "train_on": ["coco/val"],
        "learning_rate": 5e-5,
        "max_grad_norm": 1.0,
        "per_device_train_batch_size": 128,
        "num_train_epochs": 2.0,
        "logging_steps": 5.0,
        "eval_strategy": "no",
        "save_strategy": "no",
        "load_best_model_at_end": False,
    }
}
"""Preset to options that differ from the defaults."""


@dataclass
class ModelOptions:
    """The model to train."""

    _argument_group_name = "model"

    preset: Literal["quick"] | None = option(
        None,
        "quick: defaults that fine-tune MiniLM on pairs of captions of coco/val, in minutes on two cores.",
        shapes=False,
    )
    pretrained: str | None = option(None, "Dual encoder to start from: ours, CLIP, SigLIP, VisionTextDualEncoder.")
    no_pretraining: bool = option(False, "Start from the two backbones instead.")
    text_model: str = option("google-bert/bert-base-uncased", "Text backbone; sample: a tiny one for the sample.")
    image_model: str = option("google/efficientnet-b4", "Image backbone; sample: a tiny one for the sample.")
    train_text_model: bool = option(False, "Train the text backbone; frozen otherwise.")
    extra_layers: int = option(3, "Trainable transformer layers above the text backbone.")
    extra_heads: int = option(8, "Attention heads of these layers.")
    extra_feed_forward: int = option(3072, "Width of their hidden layer.")
    extra_dropout: float = option(0.1, "Dropout of these layers.")
    pooling: Literal["first_token", "mean"] = option("first_token", "How tokens are pooled.")
    image_pooling: Literal["backbone", "max"] = option("backbone", "backbone: that of the backbone; or max.")
    normalize: bool = option(False, "Features of unit length; dot products otherwise.")
    scale: float = option(1.0, "Factor of similarities in the loss.")
    learned_scale: bool = option(False, "Train the scale.")

    def check(self) -> None:
        """Raise InvalidOption unless the options say where to start."""
        if (self.pretrained is None) != self.no_pretraining:
            raise InvalidOption("give either --pretrained with a dual encoder to start from, or --no-pretraining")


@dataclass
class LossOptions:
    """The loss to minimise."""

    _argument_group_name = "objective"

    mode: Literal["t2t", "i2t", "t2t+i2t"] | None = option(
        None,
        "Which pairs to train on: captions of an image (t2t), images with captions (i2t), or both. Default: that of "
        "--stage, i2t or t2t+i2t.",
    )
    loss: Literal["paper", "softmax", "triplet_all", "triplet_semi_hard", "triplet_hardest"] = option(
        "paper",
        "paper: the positive is not in the denominator; softmax; triplet_all (VSE0), triplet_semi_hard, "
        "triplet_hardest (VSE++): hinge losses over all negatives of the batch, or over one.",
    )
    margin: float = option(0.2, "Margin of the triplet losses; VSE uses it with --normalize.")
    text_weight: float = option(1.0, "c, the weight of the text-text loss relative to image-text.")
    judged_positives: Literal["val", "validation", "test"] | None = option(
        None, "Split whose pairs that are rated similar are positives too."
    )
    weak_positives_as: Literal["extra_batch", "weight", "multi_positive"] = option(
        "extra_batch",
        "extra_batch: follow each batch by one of weak positives, at --alpha times the learning rate; weight: add "
        "their loss times --alpha; multi_positive: those within a batch are positives. Weak positives are never "
        "negatives.",
    )
    alpha: float = option(0.3, "Weight of weak positives, or factor of the learning rate, 0 to 1.")

    def check(self, data: DataOptions) -> None:
        """Raise InvalidOption for a weight out of range, and for options that do not go with those of the data."""
        if not (self.margin > 0 and self.text_weight > 0):
            raise InvalidOption(f"margin={self.margin}, text_weight={self.text_weight}: give numbers above 0")
        if not 0 <= self.alpha <= 1:
            raise InvalidOption(f"--alpha {self.alpha}: give a weight from 0 to 1")
        if not data.weak_positives:
            plain = LossOptions()
            if (self.weak_positives_as, self.alpha) != (plain.weak_positives_as, plain.alpha):
                raise InvalidOption(
                    "--weak-positives-as and --alpha need --weak-positives: give files of weak positives"
                )
            return
        if data.pairs_file is not None:
            raise InvalidOption("--weak-positives needs ids of captions, which --pairs-file lacks; use --train-on")
        if data.recolour and self.weak_positives_as == "multi_positive":
            raise InvalidOption(
                "--recolour changes the colours of each pair independently, so a caption no longer describes another "
                "picture of its batch. Use --weak-positives-as extra_batch or weight"
            )


@dataclass
class DataOptions:
    """The data to train and score on."""

    _argument_group_name = "data"

    train_on: list[str] = option(
        ["coco/train"], "coco/train, coco/restval, coco/val, flickr30k/train, flickr8k/all, ..."
    )
    pairs_file: str | None = option(None, "In place of --train-on, a file of lines: image file, tab, caption.")
    weak_positives: list[str] = option(
        [], "Files of cxc-eccv mine, one for each split: captions that also describe other images."
    )
    data_dir: str | None = option(None, "Folder with the raw files; 'sample' for the sample.", shapes=False)
    images: str | None = option(None, "Folder with the images, at any depth; 'sample' for the sample's.", shapes=False)
    image_features: str | None = option(
        None,
        "In place of --images and an image tower, an embeddings file with a vector per image, to train captions onto.",
        shapes=False,
    )
    held_out: int | None = option(
        None,
        "Training images to hold out, whose R@10 selects the checkpoint in place of COCO val; default: 5000 of "
        "--pairs-file or --image-features, but at most a tenth, and none of --train-on.",
    )
    recolour: bool = option(False, "Augment the embedded sample by changing colours in pictures and captions.")
    report_on: Literal["val", "validation", "test"] | None = option(
        None,
        "Split to score the trained model on; writes OUTPUT-DIR/report.",
        shapes=False,
    )


@dataclass
class TrainingOptions(TrainerOptions):
    """The paper's training: Adam, 64 pairs per process, no clipping, the checkpoint with the best R@10."""

    output_dir: str = option("dual_encoder", "Folder for checkpoints, model and report.", shapes=False)
    stage: Literal["pretrain", "finetune"] = option(
        "finetune",
        "Step of the CxC paper's training, for its defaults. pretrain: image-text pairs, 30000 steps, a learning rate "
        "of 1e-4. finetune: also text-text pairs, 3 epochs, 5e-6.",
        shapes=False,
    )
    learning_rate: float | None = option(  # type: ignore[assignment] # Trainer sees a number
        None, "Initial learning rate; a new model on few images needs more, such as 1e-3. Default: that of --stage."
    )
    schedule: Literal["staircase", "other"] = option(
        "staircase", "Of the learning rate: 0.1%% less every 1000 steps, or (other) that of --lr-scheduler-type."
    )
    num_train_epochs: float | None = option(  # type: ignore[assignment] # Trainer sees a number
        None, "Passes over the images. Default: 3, or with --stage pretrain as many as 30000 steps make."
    )
    max_grad_norm: float = option(0.0, "Clip gradients at this norm; 0: do not clip.")
    weight_decay: float = 0.0
    per_device_train_batch_size: int = option(64, "Images of a batch on each process.")
    chunk_size: int | None = option(
        None,
        "Captions, and images, to encode at a time (GradCache): a large batch in the memory of a chunk, for one more "
        "forward pass. Default: the whole batch.",
    )
    dataloader_drop_last: bool = True
    metric_for_best_model: str = "recall_at_10"

    def __post_init__(self) -> None:
        if self.learning_rate is None:
            self.learning_rate = LEARNING_RATES[self.stage]
        if self.num_train_epochs is None:
            self.num_train_epochs = 3.0
            if self.stage == "pretrain" and self.max_steps < 0:
                self.max_steps = PRETRAINING_STEPS
        super().__post_init__()

    def check(self) -> None:
        """Raise InvalidOption for options of transformers that do not go with ours."""
        super().check()
        if self.chunk_size is None:
            return
        if self.chunk_size < 2:
            raise InvalidOption(
                f"--chunk-size {self.chunk_size}: give at least 2, or leave it out to encode the whole batch"
            )
        if self.torch_compile:
            raise InvalidOption("--chunk-size does not work with --torch-compile: leave one of them out")
        if self.n_gpu > 1:
            raise InvalidOption(
                f"--chunk-size needs a process for each GPU: start torchrun --nproc-per-node {self.n_gpu}, or show one "
                "GPU with CUDA_VISIBLE_DEVICES=0"
            )


OF_IMAGE_TOWER = ("image_model", "image_pooling", "images", "pairs_file", "recolour")
"""Options that do not go with vectors of images, which are found by image id."""


class Options(NamedTuple):
    """All options of a run."""

    model: ModelOptions
    loss: LossOptions
    data: DataOptions
    training: TrainingOptions

    @property
    def mode(self) -> str:
        """The mode of the loss: the named one, else that of the stage."""
        # The paper pre-trains on images with one caption each.
        return self.loss.mode or ("i2t" if self.training.stage == "pretrain" else "t2t+i2t")

    @property
    def has_image_tower(self) -> bool:
        """Whether the model reads images; it does not if it trains on captions only, or onto image vectors."""
        return self.mode != "t2t" and self.data.image_features is None

    def check(self) -> None:
        """Raise InvalidOption for options that make no run, before anything is loaded."""
        self.training.check()
        self.model.check()
        self._check_image_features()
        self.loss.check(self.data)
        data = self.data
        is_sample = data.images == SAMPLE and mirror_folder(data.data_dir) == mirror_folder(SAMPLE)
        if data.recolour and (self.mode == "t2t" or not is_sample):
            raise InvalidOption(
                "--recolour works only with the embedded sample: give --data-dir sample --images sample"
            )

    def _check_image_features(self) -> None:
        if self.data.image_features is None:
            return
        if self.mode == "t2t":
            raise InvalidOption("--mode t2t trains on captions only; leave it out, or leave out --image-features")
        plain = {**asdict(ModelOptions()), **asdict(DataOptions())}
        named = {**asdict(self.model), **asdict(self.data)}
        refused = [name for name in OF_IMAGE_TOWER if named[name] != plain[name]]
        if refused:
            raise InvalidOption(
                "--image-features takes the place of images and their tower; leave out "
                f"{list_names(f'--{name}'.replace('_', '-') for name in refused)}"
            )

    @property
    def identity(self) -> Settings:
        """The options that shape the run, without those that it does not use, and hashes of its files."""
        identity = {**identify_run(*self), "mode": self.mode}
        unused = [] if self.loss.loss.startswith("triplet") else ["margin"]
        if self.data.weak_positives:
            identity["weak_positives_sha256"] = sorted(map(hash_content, self.data.weak_positives))
        else:
            unused += ["weak_positives", "weak_positives_as", "alpha"]
        if self.data.pairs_file is not None:
            identity["pairs_file_sha256"] = hash_content(self.data.pairs_file)
        if self.data.image_features is not None:
            identity["image_features_sha256"] = hash_content(self.data.image_features)
        return {name: value for name, value in identity.items() if name not in unused}


COMMAND = CommandLine("dual-encoder", Options, PRESETS)
