"""Train a dual encoder: arguments, data, model, Trainer, report."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import set_seed

from cxc_eccv.baselines.dual_encoder.arguments import (
    DataArguments,
    DualEncoderTrainingArguments,
    ModelArguments,
    ObjectiveArguments,
)
from cxc_eccv.baselines.dual_encoder.checkpoint import last_checkpoint, run_identity
from cxc_eccv.baselines.dual_encoder.data import pairs_from_file, training_pairs
from cxc_eccv.baselines.dual_encoder.loading import SAMPLE, starting_model
from cxc_eccv.baselines.dual_encoder.losses import Objective
from cxc_eccv.baselines.dual_encoder.pairs import BatchPositives, TrainingPairs
from cxc_eccv.baselines.dual_encoder.processing import PairCollator, image_processor_of, tokenizer_of
from cxc_eccv.baselines.dual_encoder.recolouring import RecolouredPairs
from cxc_eccv.baselines.dual_encoder.scoring import HeldOutScorer, SplitScorer
from cxc_eccv.baselines.dual_encoder.trainer import DualEncoderTrainer
from cxc_eccv.baselines.script_arguments import read_arguments
from cxc_eccv.encoding.models import padded_length
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.evaluation import report_to_json
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Report
from cxc_eccv.writing import explained, replaced_file

__all__ = ["train"]

SPLITS = {"val": "validation", "validation": "validation", "test": "test"}
ABOUT = "Train a dual encoder of the CxC paper, or fine-tune CLIP and its kin."
HELD_OUT = 5000
"""Images of a file of pairs that select the checkpoint, as many as COCO's validation split has; at most a tenth."""
KINDS = (ModelArguments, ObjectiveArguments, DataArguments, DualEncoderTrainingArguments)


def train(command: Sequence[str]) -> Report | None:
    """Train, save model and processor, and score the split that ``--report_on`` names.

    Checkpoints of the same run in its output folder are gone on from.

    Args:
        command: arguments as on the command line.

    Returns:
        The report; None without ``--report_on``.

    Raises:
        InvalidOption: arguments at odds with each other.
        ModelError: the model cannot be loaded, lacks a side, or does not fit the checkpoints in the output folder.
        DataError: captions or images are missing or broken.
    """
    model_arguments, objective_arguments, data, training = read_arguments("dual-encoder", ABOUT, KINDS, command)
    library = Library(data.data_dir)
    # The paper pre-trains on images with one caption each.
    mode = objective_arguments.mode or ("i2t" if training.stage == "pretrain" else "t2t+i2t")
    # A wrong name is told before anything is loaded.
    objective = Objective(mode, objective_arguments.loss, objective_arguments.text_weight)
    set_seed(training.seed)
    model, processing = starting_model(model_arguments, mode)
    _refuse_to_recolour(data, mode)
    pairs = _training_pairs(library, data, processing, mode, training.seed)
    data.held_out = _held_out(data, training, len(pairs))
    score: HeldOutScorer | SplitScorer = SplitScorer(library, "validation", mode, processing, data.images)
    if data.held_out:
        pairs, held = pairs.hold_out(data.held_out)
        score = HeldOutScorer(held, mode, processing)
    _warn_of_leaks(data, training)
    _refuse_too_few(pairs, training)
    dataset = RecolouredPairs(pairs, tokenizer_of(processing)) if data.recolour else pairs

    trainer = DualEncoderTrainer(
        model=model,
        args=training,
        objective=replace(objective, positives=_positives(objective_arguments, library, pairs)),
        score=score,
        paper_schedule=training.schedule == "staircase",
        train_dataset=dataset,
        data_collator=PairCollator(
            tokenizer_of(processing),
            None if mode == "t2t" else image_processor_of(processing),
            padded_length(tokenizer_of(processing), model),
        ),
        processing_class=processing,
    )
    identity = run_identity(model_arguments, replace(objective_arguments, mode=mode), data, training)
    folder, is_first = Path(training.output_dir), trainer.is_world_process_zero()
    with explained(folder):
        trainer.train(resume_from_checkpoint=last_checkpoint(folder, identity, is_first=is_first))
        trainer.save_model()
        trainer.save_state()
    if data.report_on is None:
        return None
    report = SplitScorer(library, split_of(data.report_on), mode, processing, data.images).report(trainer.model)
    if is_first:
        with replaced_file(folder / "report.json") as part:
            part.write_text(report_to_json(report), encoding="utf-8")
    return report


def _training_pairs(
    library: Library,
    data: DataArguments,
    processing: Any,  # noqa: ANN401 - a tokenizer or a processor
    mode: str,
    seed: int,
) -> TrainingPairs:
    if data.pairs_file is not None:
        return pairs_from_file(Path(data.pairs_file), processing, mode=mode, images=data.images, seed=seed)
    return training_pairs(library, data.train_on, processing, mode=mode, images=data.images, seed=seed)


def _held_out(data: DataArguments, training: DualEncoderTrainingArguments, count: int) -> int:
    """Images to hold out, of so many; pairs of a file have no validation split beside them."""
    if data.held_out is not None:
        return data.held_out
    return min(HELD_OUT, count // 10) if data.pairs_file and training.eval_strategy != "no" else 0


def _positives(arguments: ObjectiveArguments, library: Library, pairs: TrainingPairs) -> BatchPositives:
    if arguments.judged_positives is None:
        return BatchPositives()
    return BatchPositives.judged(library, split_of(arguments.judged_positives), pairs.groups)


def split_of(name: str) -> str:
    """The dataset's name of a split with judgments; ``val`` is ``validation``.

    Raises:
        UnknownName: no such split.

    Example:
        >>> split_of("val")
        'validation'
    """
    if name not in SPLITS:
        raise UnknownName("split", name, SPLITS)
    return SPLITS[name]


def _refuse_too_few(pairs: TrainingPairs, training: DualEncoderTrainingArguments) -> None:
    batch = training.train_batch_size * training.world_size
    if len(pairs) < batch:
        raise InvalidOption(
            f"{len(pairs)} images make no batch of {batch}; take a smaller --per_device_train_batch_size"
        )


def _refuse_to_recolour(data: DataArguments, mode: str) -> None:
    if data.recolour and (mode == "t2t" or not data.data_dir == data.images == SAMPLE):
        raise InvalidOption("--recolour knows the embedded sample's drawings alone: --data_dir sample --images sample")


def _warn_of_leaks(data: DataArguments, training: DualEncoderTrainingArguments) -> None:
    seen = set() if data.pairs_file else {name.replace("validation", "val") for name in data.train_on}
    if "coco/val" in seen and training.load_best_model_at_end and not data.held_out:
        message = (
            "coco/val is trained on and selects the checkpoint; hold images out (--held_out 1000), or add "
            "--eval_strategy no --load_best_model_at_end no"
        )
        warnings.warn(message, stacklevel=3)
    if data.report_on is not None and f"coco/{data.report_on}".replace("validation", "val") in seen:
        warnings.warn(f"coco/{data.report_on} is trained on and reported", stacklevel=3)
