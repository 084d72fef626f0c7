"""The options of a training run, as ``HfArgumentParser`` reads them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from cxc_eccv.errors import InvalidOption

__all__ = ["CharGruArguments"]

ELSEWHERE = ("output_dir", "data_dir", "report_on", "image_features", "ensemble", "epochs")
"""Options that the weights at a given step do not depend on."""


@dataclass
class CharGruArguments:
    """How to train the character GRU; what is not given is the paper's."""

    output_dir: str = field(metadata={"help": "Folder for checkpoints, snapshots, ensemble and report."})
    data_dir: str | None = field(default=None, metadata={"help": "Mirror folder with the raw files, or 'sample'."})
    train_on: list[str] = field(
        default_factory=lambda: ["flickr8k/all", "coco/val"],
        metadata={"help": "Parts of the data: flickr8k/all, flickr30k/val, coco/train, coco/restval, coco/val."},
    )
    held_out: int = field(default=500, metadata={"help": "Images kept back to select snapshots by."})
    report_on: str | None = field(default=None, metadata={"help": "COCO split to report on: val or test."})
    image_features: str | None = field(
        default=None, metadata={"help": "Embeddings file with a vector per image; without it, captions alone."}
    )
    coco_tokens: bool = field(
        default=True, metadata={"help": "Enter COCO captions as tokens with a full stop; else as they are."}
    )
    recurrent_unit: str = field(default="gru", metadata={"help": "gru or lstm."})
    hidden_size: int = field(default=1024, metadata={"help": "Units per direction."})
    pooling: str = field(default="attention", metadata={"help": "attention or max."})
    margin: float = field(default=0.2, metadata={"help": "Of the hinge loss."})
    highest_rate: float = field(default=1e-3, metadata={"help": "Upper bound of the learning rate."})
    lowest_rate: float = field(default=1e-6, metadata={"help": "Lower bound of the learning rate."})
    epochs: int = field(default=32, metadata={"help": "Passes over the images."})
    cycle_epochs: int = field(default=4, metadata={"help": "Epochs of a cycle; a snapshot ends each."})
    images: int = field(default=32, metadata={"help": "Images of a batch, over all processes."})
    captions: int = field(default=5, metadata={"help": "Captions of each image in a batch."})
    ensemble: int = field(default=2, metadata={"help": "Snapshots of the ensemble, the best on the held-out images."})
    bf16: bool = field(default=False, metadata={"help": "Multiply in bfloat16."})
    seed: int = field(default=0, metadata={"help": "Of the weights and the order of the images."})

    def __post_init__(self) -> None:
        cycles = self.epochs // self.cycle_epochs
        if cycles < self.ensemble:
            raise InvalidOption(
                f"{self.epochs} epochs hold {cycles} cycles of {self.cycle_epochs}, the ensemble takes {self.ensemble} "
                "snapshots; train longer or ask for fewer"
            )

    @property
    def identity(self) -> dict[str, Any]:
        """What the weights depend on: a run goes on only from checkpoints of the same."""
        return {name: value for name, value in asdict(self).items() if name not in ELSEWHERE}

    @property
    def sizes(self) -> dict[str, Any]:
        """Options of the model's configuration."""
        names = ("recurrent_unit", "hidden_size", "pooling", "margin")
        return {name: getattr(self, name) for name in names}
