"""Training on captions of the same image: cycles of the learning rate, and a snapshot after each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments, set_seed

from cxc_eccv.baselines.caption_groups import CaptionGroup
from cxc_eccv.baselines.char_gru.arguments import CharGruArguments
from cxc_eccv.baselines.char_gru.configuration import CharGruConfig
from cxc_eccv.baselines.char_gru.data import CoCaptions, Row, SharedBatches, character_tokenizer, collate
from cxc_eccv.baselines.char_gru.ensemble import EpochRecord
from cxc_eccv.baselines.char_gru.hinge import hinge_loss_of_processes
from cxc_eccv.baselines.char_gru.image_features import ImageFeatures
from cxc_eccv.baselines.char_gru.model import CharGruModel
from cxc_eccv.baselines.char_gru.scoring import HeldOut
from cxc_eccv.baselines.dual_encoder.checkpoint import last_checkpoint
from cxc_eccv.baselines.dual_encoder.trainer import EpochCallback
from cxc_eccv.errors import InvalidOption
from cxc_eccv.sts.evaluation import Encoder

__all__ = ["CharGruTrainer", "cyclic_cosine", "cyclic_cosine_rate", "train"]


class CharGruTrainer(Trainer):
    """Trainer with the hinge loss over the images of all processes, which is a mean over the batch.

    Args:
        batches: of this process.
        options: of ``transformers.Trainer``.
    """

    loss_is_scaled_for_ga = False

    def __init__(self, *, batches: SharedBatches, **options: Any) -> None:  # noqa: ANN401 - Trainer's own
        self.batches = batches
        super().__init__(**options)
        self.add_callback(EpochCallback(batches))

    def get_train_dataloader(self) -> DataLoader[Row]:
        """The batches as they are: they are shared already."""
        rows: Any = self.train_dataset
        return DataLoader(rows, batch_sampler=self.batches, collate_fn=collate)

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:  # noqa: ANN401 - as Trainer says
        """The loss of the whole batch, the same on every process."""
        outputs = model(**inputs)
        loss = hinge_loss_of_processes(outputs.views, self.accelerator.unwrap_model(model).config.margin)
        return (loss, outputs) if return_outputs else loss


def train(
    groups: Sequence[CaptionGroup],
    held_out: Sequence[CaptionGroup],
    arguments: CharGruArguments,
    features: ImageFeatures | None = None,
    similarity: Callable[[Encoder], Mapping[str, float]] | None = None,
) -> None:
    """Train from random weights, or go on from the last checkpoint in the output folder.

    Under torchrun the processes share every batch and train as one process would; the first one writes.

    Args:
        groups: captions by image.
        held_out: others, whose retrieval selects the snapshots.
        arguments: how, and where to.
        features: of all these images; None trains on captions alone.
        similarity: what else to measure of the text encoder after every epoch.

    Raises:
        CheckpointMismatch: the folder holds checkpoints of another run.
        InvalidOption: groups with fewer captions than a row takes, or a batch that the processes cannot share.
    """
    trainer = _trainer(groups, held_out, arguments, features, similarity)
    is_first = trainer.is_world_process_zero()
    checkpoints = Path(arguments.output_dir) / "checkpoints"
    trainer.train(resume_from_checkpoint=last_checkpoint(checkpoints, arguments.identity, is_first=is_first))


def _trainer(
    groups: Sequence[CaptionGroup],
    held_out: Sequence[CaptionGroup],
    arguments: CharGruArguments,
    features: ImageFeatures | None,
    similarity: Callable[[Encoder], Mapping[str, float]] | None,
) -> CharGruTrainer:
    set_seed(arguments.seed)
    folder = Path(arguments.output_dir)
    options = _trainer_arguments(arguments, folder)  # joins the processes
    tokenizer = character_tokenizer(text for group in groups for text in group.texts)
    of_images = None if features is None else features.of(groups)
    place = {"rank": options.process_index, "processes": options.world_size}
    rows = CoCaptions(groups, tokenizer, arguments.captions, of_images, arguments.seed)
    batches = SharedBatches(rows.rows, arguments.images, arguments.seed, **place)
    width = 0 if features is None else features.width
    config = CharGruConfig(vocab_size=len(tokenizer), image_feature_size=width, **arguments.sizes)
    model = CharGruModel(config)
    cycle = arguments.cycle_epochs * len(batches)
    measure = HeldOut(held_out, tokenizer, features, similarity)
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.highest_rate)
    return CharGruTrainer(
        model=model,
        args=options,
        batches=batches,
        train_dataset=rows,
        optimizers=(optimizer, cyclic_cosine(optimizer, cycle, arguments.lowest_rate)),
        callbacks=[EpochRecord(folder, len(batches), arguments.cycle_epochs, measure, tokenizer)],
    )


def _trainer_arguments(arguments: CharGruArguments, folder: Path) -> TrainingArguments:
    options: dict[str, Any] = {"remove_unused_columns": False, "disable_tqdm": True, "report_to": []}
    return TrainingArguments(
        output_dir=str(folder / "checkpoints"),
        num_train_epochs=arguments.epochs,
        per_device_train_batch_size=arguments.images,  # of all processes: SharedBatches shares it
        bf16=arguments.bf16,
        use_cpu=not torch.cuda.is_available(),
        seed=arguments.seed,
        save_strategy="epoch",
        save_total_limit=1,
        logging_steps=10,
        ddp_find_unused_parameters=False,
        max_grad_norm=0.0,  # the paper clips nothing
        **options,
    )


def cyclic_cosine_rate(step: int, cycle: int, highest: float, lowest: float) -> float:
    """The learning rate after ``step`` optimiser steps.

    ``0.5 (highest - lowest) (1 + cos(pi (1 + 2 step / cycle))) + lowest``: the lowest rate at the start and end of a
    cycle, the highest in its middle. The paper prints ``0.5 step x mb`` inside the cosine, where ``step`` is the number
    of batches of a cycle and ``mb`` those processed; only ``mb / (0.5 step)`` makes a cycle that long.

    Args:
        step: batches processed so far.
        cycle: batches of a cycle.
        highest: upper bound.
        lowest: lower bound.

    References:
        Merkx and Frank 2019, arXiv:1903.11393, section 3.3; after Smith, Cyclical learning rates, WACV 2017.

    Example:
        >>> [round(cyclic_cosine_rate(step, 4, 1.0, 0.0), 2) for step in range(6)]
        [0.0, 0.5, 1.0, 0.5, 0.0, 0.5]
    """
    return 0.5 * (highest - lowest) * (1 + math.cos(math.pi * (1 + 2 * step / cycle))) + lowest


def cyclic_cosine(optimizer: Optimizer, cycle: int, lowest: float) -> LambdaLR:
    """The schedule for an optimiser whose learning rate is the upper bound.

    Raises:
        InvalidOption: a cycle below one step, or bounds in the wrong order.
    """
    highest = float(optimizer.defaults["lr"])
    if cycle < 1 or not 0 <= lowest <= highest or highest == 0:
        raise InvalidOption(
            f"a learning rate between {lowest} and {highest} in cycles of {cycle} steps: the lower bound must not "
            "exceed the upper one, the upper one must be positive, and a cycle has at least one step"
        )
    return LambdaLR(optimizer, lambda step: cyclic_cosine_rate(step, cycle, highest, lowest) / highest)
