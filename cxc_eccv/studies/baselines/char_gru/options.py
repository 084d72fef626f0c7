"""The options of ``cxc-eccv train char-gru``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from typing import Literal

from cxc_eccv.errors import InvalidOption
from cxc_eccv.sources.collections.coco import COLLECTION as COCO
from cxc_eccv.sources.collections.collection import Collection
from cxc_eccv.sources.collections.flickr8k import COLLECTION as FLICKR8K
from cxc_eccv.studies.trainers.caption_groups import parts_of
from cxc_eccv.studies.trainers.model_card import Settings
from cxc_eccv.studies.trainers.options import CommandLine, option

PAPER_RATES = {"flickr8k": 1e-3, "coco": 1e-4}
"""Collection to the upper bound of the learning rate that the paper trains image-caption pairs with."""

REPORTS: Mapping[str, tuple[Collection, str]] = {
    "val": (COCO, "validation"),
    "validation": (COCO, "validation"),
    "test": (COCO, "test"),
    "flickr8k/dev": (FLICKR8K, "validation"),
    "flickr8k/test": (FLICKR8K, "test"),
}
"""Choices of ``--report-on``."""

PRESETS: Mapping[str, Settings] = {
    "flickr8k": {
        "train_on": ["flickr8k/train"],
        "select_on": ["flickr8k/dev"],
        "report_on": "flickr8k/test",
        "intervals": "binomial_images",
    },
    "coco": {
        "train_on": ["coco/train", "coco/restval"],
        "select_on": ["coco/val"],
        "report_on": "test",
        "intervals": "binomial_images",
    },
}
"""Preset to the options of the paper's runs (Tables 2 and 3) that differ from the defaults."""


@dataclass
class Options:
    """Options of the character GRU's training; the defaults are the paper's, except for the data."""

    output_dir: str = option(MISSING, "Folder for checkpoints, snapshots, ensemble and report.", shapes=False)
    preset: Literal["flickr8k", "coco"] | None = option(
        None, "Use the paper's data, splits and learning rate as defaults.", shapes=False
    )
    data_dir: str | None = option(None, "Mirror folder with the raw files, or 'sample'.", shapes=False)
    train_on: list[str] = option(
        ["flickr8k/all", "coco/val"],
        "Parts of the data: flickr8k/train, flickr8k/all, flickr30k/val, coco/train, coco/restval.",
    )
    select_on: list[str] | None = option(None, "Parts whose images select the snapshots: flickr8k/dev, coco/val.")
    held_out: int = option(500, "Without --select-on: training images held out to select snapshots by.")
    report_on: Literal["val", "validation", "test", "flickr8k/dev", "flickr8k/test"] | None = option(
        None, "Split of COCO or Flickr8k to score the ensemble on; writes OUTPUT-DIR/report.", shapes=False
    )
    intervals: Literal["bootstrap", "binomial", "binomial_images", "none"] = option(
        "bootstrap", "Intervals of the report.", shapes=False
    )
    # The hash of the vectors identifies the run.
    image_features: str | None = option(
        None, "Embeddings file with a vector per image; default: captions only.", shapes=False
    )
    image_model: str | None = option(
        None,
        "Instead: image model whose features to extract into OUTPUT-DIR/image_features.npz, the mean over ten crops.",
        shapes=False,
    )
    image_folder: str | None = option(None, "Folder with the images for --image-model, at any depth.", shapes=False)
    coco_tokens: bool = option(True, "Use COCO captions as lower-case tokens with a full stop; else unchanged.")
    recurrent_unit: Literal["gru", "lstm"] = option("gru", "Recurrent unit.")
    hidden_size: int = option(1024, "Units per direction.")
    pooling: Literal["attention", "max"] = option("attention", "How steps are pooled.")
    margin: float = option(0.2, "Margin of the hinge loss.")
    highest_rate: float | None = option(
        None,
        "Upper bound of the learning rate. Default: 1e-4 for image features with COCO in --train-on, as in the paper; "
        "else 1e-3.",
    )
    lowest_rate: float = option(1e-6, "Lower bound of the learning rate.")
    epochs: int = option(32, "Passes over every caption of every image.", shapes=False)  # more of them continue a run
    cycle_epochs: int = option(4, "Epochs of a cycle, which ends with a snapshot.")
    images: int = option(32, "Images of a batch, over all processes.")
    captions: int | None = option(
        None,
        "Captions of each image in a batch; all pairs of them, and of each with the image, are in the loss. Default: 1 "
        "with image features, as in the paper; 5 without.",
    )
    ensemble: int = option(2, "Number of snapshots in the ensemble: the best on the selection images.", shapes=False)
    bf16: bool = option(False, "Train in bfloat16.")
    seed: int = option(0, "Seed of the weights and of the order of the images.")

    def __post_init__(self) -> None:
        if self.captions is None:
            self.captions = 1 if self.has_images else 5
        if self.highest_rate is None:
            trains_on_coco = any(name == COCO.name for name, _ in parts_of(self.train_on))
            self.highest_rate = PAPER_RATES["coco" if self.has_images and trains_on_coco else "flickr8k"]

    def check(self) -> None:
        """Raise InvalidOption for options that make no run."""
        if not self.margin > 0:
            raise InvalidOption(f"--margin {self.margin}: give a number above 0")
        cycles = self.epochs // self.cycle_epochs if self.cycle_epochs > 0 else 0
        if cycles < max(self.ensemble, 1) or self.ensemble < 1:
            raise InvalidOption(
                f"{self.epochs} epochs have {cycles} cycles of {self.cycle_epochs}, but the ensemble needs "
                f"{self.ensemble} snapshots; train longer or use fewer snapshots, at least one of each"
            )
        if (self.image_model is None) != (self.image_folder is None) or (self.image_model and self.image_features):
            raise InvalidOption("give --image-features FILE, or --image-model MODEL with --image-folder FOLDER")
        if self.has_images:
            return
        if self.preset is not None:
            raise InvalidOption(
                f"--preset {self.preset} trains on images and captions; give --image-features FILE, or --image-model "
                "MODEL with --image-folder FOLDER"
            )
        if (self.report_on or "").startswith("flickr8k/"):
            raise InvalidOption(
                f"--report-on {self.report_on} measures retrieval between images and captions: give image features, or "
                "report on COCO, which also has tasks of captions only"
            )
        if self.captions == 1:
            raise InvalidOption(
                "one caption of an image without image features makes no pair; give --image-features, or --captions 2"
            )

    @property
    def has_images(self) -> bool:
        """Whether it trains on image features."""
        return self.image_features is not None or self.image_model is not None

    @property
    def parts(self) -> list[str]:
        """The parts of the data that it reads, each once, such as ``coco/val``."""
        names = [*self.train_on, *(self.select_on or [])]
        if self.report_on is not None:
            reported = {"val": "coco/val", "validation": "coco/val", "test": "coco/test"}
            names.append(reported.get(self.report_on, self.report_on))
        return list(dict.fromkeys(names))


COMMAND = CommandLine("char-gru", Options, PRESETS)
