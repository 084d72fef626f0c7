"""The options of a training run, as ``HfArgumentParser`` reads them, and the paper's two settings of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass
from types import MappingProxyType
from typing import Any

from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.baselines.command_line import option, read_arguments

ABOUT = "Train the character GRU on captions of the same image, or on captions with image features."

PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "flickr8k": {
            "train_on": ["flickr8k/train"],
            "select_on": ["flickr8k/dev"],
            "report_on": "flickr8k/test",
            "captions": 1,
            "highest_rate": 1e-3,
            "intervals": "binomial_images",
        },
        "coco": {
            "train_on": ["coco/train", "coco/restval"],
            "select_on": ["coco/val"],
            "report_on": "test",
            "captions": 1,
            "highest_rate": 1e-4,
            "intervals": "binomial_images",
        },
    }
)
"""Name to the options of the paper's runs, as far as they differ from the defaults: its Table 2 and its Table 3."""

ELSEWHERE = (
    "preset",
    "output_dir",
    "data_dir",
    "report_on",
    "intervals",
    "curve_sts",
    "image_features",
    "ensemble",
    "epochs",
    "resume",
)
"""Options that the weights at a given step do not depend on, nor the choice among the snapshots."""


@dataclass
class CharGruArguments:
    """How to train the character GRU; what is not given is the paper's, but for the data."""

    output_dir: str = option(MISSING, "Folder for checkpoints, snapshots, ensemble, curves and report.")
    preset: str | None = option(
        None, "flickr8k or coco: data, splits and learning rate of the paper, where not given otherwise."
    )
    data_dir: str | None = option(None, "Mirror folder with the raw files, or 'sample'.")
    train_on: list[str] = option(
        ["flickr8k/all", "coco/val"],
        "Parts of the data: flickr8k/train, flickr8k/all, flickr30k/val, coco/train, coco/restval.",
    )
    select_on: list[str] | None = option(None, "Parts whose images select the snapshots: flickr8k/dev, coco/val.")
    held_out: int = option(500, "Without --select-on: training images kept back to select snapshots by.")
    report_on: str | None = option(
        None,
        "val or test of COCO, flickr8k/dev or flickr8k/test: score the ensemble there, and write OUTPUT-DIR/report.",
    )
    intervals: str = option("bootstrap", "Of the report: bootstrap, binomial, binomial_images or none.")
    curve_sts: list[str] = option([], "Tasks of cxc-eccv sts measured after every epoch, as sts2012 sick.")
    image_features: str | None = option(None, "Embeddings file with a vector per image; without it, captions alone.")
    coco_tokens: bool = option(True, "Enter COCO captions as tokens with a full stop; else as they are.")
    recurrent_unit: str = option("gru", "gru or lstm.")
    hidden_size: int = option(1024, "Units per direction.")
    pooling: str = option("attention", "attention or max.")
    margin: float = option(0.2, "Of the hinge loss.")
    highest_rate: float = option(1e-3, "Upper bound of the learning rate; the paper's is 1e-4 for COCO.")
    lowest_rate: float = option(1e-6, "Lower bound of the learning rate.")
    epochs: int = option(32, "Passes over every caption of every image.")
    cycle_epochs: int = option(4, "Epochs of a cycle; a snapshot ends each.")
    images: int = option(32, "Images of a batch, over all processes.")
    captions: int = option(5, "Captions of each image in a batch.")
    ensemble: int = option(2, "Snapshots of the ensemble, the best on the selection images.")
    bf16: bool = option(False, "Multiply in bfloat16.")
    seed: int = option(0, "Of the weights and the order of the images.")
    resume: bool | None = option(
        None, "Demand a checkpoint to go on from, or refuse one; by default a run goes on if it can."
    )

    def __post_init__(self) -> None:
        cycles = self.epochs // self.cycle_epochs if self.cycle_epochs > 0 else 0
        if cycles < max(self.ensemble, 1) or self.ensemble < 1:
            raise InvalidOption(
                f"{self.epochs} epochs hold {cycles} cycles of {self.cycle_epochs}, the ensemble takes {self.ensemble} "
                "snapshots; train longer or ask for fewer, at least one of each"
            )
        if self.preset is not None and self.image_features is None:
            raise InvalidOption(
                f"--preset {self.preset} is the paper's run on images and captions and needs --image-features FILE; "
                "make the file with cxc-eccv features"
            )
        if self.captions == 1 and self.image_features is None:
            raise InvalidOption(
                "one caption of an image and no features of it make no pair; give --image-features, or --captions 2"
            )

    @property
    def identity(self) -> dict[str, Any]:
        """What weights and choice depend on: a run goes on only from checkpoints of the same."""
        return {name: value for name, value in asdict(self).items() if name not in ELSEWHERE}


def parse_arguments(command: Sequence[str]) -> CharGruArguments:
    """The arguments of a command line; a preset's options stand where the command does not name them."""
    arguments: CharGruArguments
    (arguments,) = read_arguments("char-gru", ABOUT, [CharGruArguments], command, presets=PRESETS)
    return arguments
