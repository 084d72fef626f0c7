"""Training on captions of the same image, with cycles of the learning rate and a snapshot after each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainingArguments, set_seed

from cxc_eccv.baselines.caption_groups import CaptionGroup
from cxc_eccv.baselines.char_gru.arguments import CharGruArguments
from cxc_eccv.baselines.char_gru.characters import character_tokenizer
from cxc_eccv.baselines.char_gru.co_captions import CoCaptions, collate
from cxc_eccv.baselines.char_gru.configuration import CharGruConfig
from cxc_eccv.baselines.char_gru.image_features import ImageFeatures
from cxc_eccv.baselines.char_gru.model import CharGruModel
from cxc_eccv.baselines.char_gru.schedule import cyclic_cosine
from cxc_eccv.baselines.char_gru.scoring import HeldOut
from cxc_eccv.baselines.char_gru.snapshots import SnapshotCallback
from cxc_eccv.baselines.dual_encoder.checkpoint import last_checkpoint

__all__ = ["CharGruTrainer", "train"]


class CharGruTrainer(Trainer):
    """Trainer with the model's own loss, which is a mean over the batch."""

    loss_is_scaled_for_ga = False


def train(
    groups: Sequence[CaptionGroup],
    held_out: Sequence[CaptionGroup],
    arguments: CharGruArguments,
    features: ImageFeatures | None = None,
) -> None:
    """Train from random weights, or go on from the last checkpoint in the output folder.

    Args:
        groups: captions by image.
        held_out: others, whose retrieval scores the snapshots.
        arguments: how, and where to.
        features: of all these images; None trains on captions alone.

    Raises:
        CheckpointMismatch: the folder holds checkpoints of another run.
        InvalidOption: groups with fewer captions than a row takes.
    """
    set_seed(arguments.seed)
    folder = Path(arguments.output_dir)
    tokenizer = character_tokenizer(text for group in groups for text in group.texts)
    of_images = None if features is None else features.of(groups)
    rows = CoCaptions(groups, tokenizer, arguments.captions, of_images)
    width = 0 if features is None else features.width
    config = CharGruConfig(vocab_size=len(tokenizer), image_feature_size=width, **arguments.sizes)
    model = CharGruModel(config)
    cycle = arguments.cycle_epochs * math.ceil(len(rows) / arguments.images)
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.highest_rate)
    trainer = CharGruTrainer(
        model=model,
        args=_trainer_arguments(arguments, folder),
        data_collator=collate,
        train_dataset=rows,
        optimizers=(optimizer, cyclic_cosine(optimizer, cycle, arguments.lowest_rate)),
        callbacks=[SnapshotCallback(folder / "snapshots", cycle, HeldOut(held_out, tokenizer, features), tokenizer)],
    )
    checkpoints = folder / "checkpoints"
    trainer.train(resume_from_checkpoint=last_checkpoint(checkpoints, arguments.identity))


def _trainer_arguments(arguments: CharGruArguments, folder: Path) -> TrainingArguments:
    options: dict[str, Any] = {"remove_unused_columns": False, "disable_tqdm": True, "report_to": []}
    return TrainingArguments(
        output_dir=str(folder / "checkpoints"),
        num_train_epochs=arguments.epochs,
        per_device_train_batch_size=arguments.images,
        bf16=arguments.bf16,
        use_cpu=not torch.cuda.is_available(),
        seed=arguments.seed,
        save_strategy="epoch",
        save_total_limit=1,
        logging_steps=10,
        max_grad_norm=0.0,  # the paper clips nothing
        **options,
    )
