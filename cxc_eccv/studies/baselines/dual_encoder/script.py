"""Train a dual encoder: data, model, Trainer, selection of the checkpoint, report."""

from __future__ import annotations

import warnings
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from transformers import set_seed

from cxc_eccv.encoding import Encoding, encode
from cxc_eccv.encoding.text_input import padded_length
from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation import evaluate
from cxc_eccv.report import Report
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.catalog import SAMPLE, SPLIT_NAMES
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.dual_encoder.arguments import (
    COMMAND,
    Arguments,
    DataArguments,
    DualEncoderTrainingArguments,
)
from cxc_eccv.studies.baselines.dual_encoder.card import VALIDATION, choose_selection, describe
from cxc_eccv.studies.baselines.dual_encoder.data import (
    PairCollator,
    PairReader,
    RecolouredPairs,
    TrainingPairs,
    find_image_processor,
    find_tokenizer,
    image_paths,
)
from cxc_eccv.studies.baselines.dual_encoder.losses import (
    MODES,
    BatchPositives,
    Objective,
    WeakPositives,
    check_weak_positives,
)
from cxc_eccv.studies.baselines.dual_encoder.sentence_form import has_sentence_form, save_sentence_form
from cxc_eccv.studies.baselines.dual_encoder.starting import starting_model
from cxc_eccv.studies.baselines.dual_encoder.trainer import DualEncoderTrainer, Metrics
from cxc_eccv.studies.trainers.caption_groups import held_out_recalls, part_images
from cxc_eccv.studies.trainers.image_features import ImageFeatures
from cxc_eccv.studies.trainers.model_card import Trained
from cxc_eccv.studies.trainers.resuming import refuse_users_model, train_resumably
from cxc_eccv.studies.trainers.tokens import Processing
from cxc_eccv.studies.trainers.trainer import AnyModel, check_checkpointing
from cxc_eccv.studies.trainers.training_record import list_splits_seen, record_images
from cxc_eccv.types import Embeddings

HELD_OUT = 5000
"""Images of a file of pairs that select the checkpoint, as many as in COCO's validation split; at most a tenth."""


def train(command: Sequence[str]) -> Trained:
    """Train, save model and processor, and score the split of ``--report-on``."""
    arguments = Arguments(*COMMAND.read(command))
    data = arguments.data
    training = arguments.training
    # Checks the options and files before a model is loaded.
    refuse_users_model(Path(str(training.output_dir)))
    objective = _make_objective(arguments)
    library = Library(data.data_dir, mined=data.weak_positives)
    features = _read_images(arguments, library)
    set_seed(training.seed)
    model, processing = starting_model(arguments.model, arguments.mode, 0 if features is None else features.width)
    check_checkpointing(model, training)
    setup = Setup(arguments, library, processing, features)
    pairs, held = setup.read_pairs()
    record = record_images(library, pairs.groups, getattr(model.config, "training_data", None))
    model.config.training_data = record
    _warn_of_leaks(data, training, list_splits_seen(record))
    batch = training.train_batch_size * training.world_size
    if len(pairs) < batch:
        raise InvalidOption(
            f"{len(pairs)} images are too few for a batch of {batch}; use a smaller --per-device-train-batch-size"
        )
    objective, weak = setup.add_positives(objective, pairs)
    split = None if data.report_on is None else SPLIT_NAMES[data.report_on]
    # Trainer sets the seed again, so that the weights do not depend on this.
    before = None if split is None else setup.score_split(model, split)
    trainer = setup.make_trainer(model, objective, pairs, weak, held)
    train_resumably(trainer, arguments.identity)
    trainer.save_model()
    trainer.save_state()
    if has_sentence_form(model) and trainer.is_world_process_zero():
        save_sentence_form(model, setup.processing, Path(str(training.output_dir)))
    trained = describe(arguments, library, trainer)
    if training.push_to_hub:
        trained = replace(trained, push=partial(trainer.push_to_hub, "Report and card"))
    if split is None:
        return trained
    report = setup.score_split(trainer.model, split)
    selection = choose_selection(arguments, trainer.state)
    if selection.metric is not None and split == "validation" and selection.data == VALIDATION:
        report = selection.doubt(report)
    return replace(trained.scored(report, training_data=record), before=before)


def _make_objective(arguments: Arguments) -> Objective:
    """The loss, before judged and weak positives; InvalidOption for options that exclude each other."""
    arguments.check_image_features()
    loss = arguments.objective
    data = arguments.data
    check_weak_positives(loss, data)
    is_sample = data.images == SAMPLE and mirror_folder(data.data_dir) == mirror_folder(SAMPLE)
    if data.recolour and (arguments.mode == "t2t" or not is_sample):
        raise InvalidOption("--recolour works only with the embedded sample: give --data-dir sample --images sample")
    return Objective(arguments.mode, loss.loss, loss.text_weight, loss.margin)


def _read_images(arguments: Arguments, library: Library) -> ImageFeatures | None:
    """The vectors of images, which cover the splits to score; without them, check that the photographs are there."""
    data = arguments.data
    if data.image_features is None:
        if arguments.has_image_tower and data.images is not None and data.pairs_file is None:
            image_paths(list(part_images(library, data.train_on).values()), data.images)
        return None
    features = ImageFeatures.read(data.image_features)
    for scored in arguments.scored_splits:
        features.of_ids(library.split(scored).image_ids)
    return features


@dataclass(frozen=True, slots=True)
class Setup:
    """What every step of a run needs: arguments, library, the model's tokenizer or processor, vectors of images."""

    arguments: Arguments
    library: Library
    processing: Processing
    features: ImageFeatures | None = None

    def read_pairs(self) -> tuple[TrainingPairs, TrainingPairs | None]:
        """The pairs to train on, and held-out ones to choose the checkpoint; None for COCO's validation split."""
        data = self.arguments.data
        training = self.arguments.training
        reader = PairReader(self.processing, self.arguments.mode, data.images, training.seed, self.features)
        if data.pairs_file is not None:
            pairs = reader.read_file(Path(data.pairs_file))
        else:
            pairs = reader.read_parts(self.library, data.train_on)
        if data.held_out is None:
            # A file of pairs has no validation split, and one of vectors may have vectors of training images only.
            selects = (data.pairs_file or data.image_features) and training.eval_strategy != "no"
            data.held_out = min(HELD_OUT, len(pairs) // 10) if selects else 0
        return pairs.hold_out(data.held_out) if data.held_out else (pairs, None)

    def add_positives(self, objective: Objective, pairs: TrainingPairs) -> tuple[Objective, WeakPositives | None]:
        """The objective with the judged and the weak positives that the arguments name, and the weak ones."""
        arguments = self.arguments.objective
        if arguments.judged_positives is not None:
            judged = BatchPositives.judged(self.library, SPLIT_NAMES[arguments.judged_positives], pairs.groups)
            if not judged.has_pairs:
                raise InvalidOption(
                    f"--judged-positives {arguments.judged_positives}: no image that is trained on is in this split, "
                    "so its ratings add no positive. Train on coco/val or coco/test too, or leave the option out"
                )
            objective = replace(objective, positives=judged)
        if not self.arguments.data.weak_positives:
            return objective, None
        weak = WeakPositives.read(self.library, self.arguments.data, pairs.groups, arguments)
        return weak.spare(objective), weak

    def make_trainer(
        self,
        model: AnyModel,
        objective: Objective,
        pairs: TrainingPairs,
        weak: WeakPositives | None,
        held: TrainingPairs | None,
    ) -> DualEncoderTrainer:
        """The Trainer, whose evaluations score the held-out pairs, or COCO's validation split."""
        training = self.arguments.training
        tokenizer = find_tokenizer(self.processing)
        image_processor = find_image_processor(self.processing) if self.arguments.has_image_tower else None
        vectors = None if self.features is None else self.features.of(pairs.groups)
        collate = PairCollator(tokenizer, image_processor, padded_length(tokenizer, model), vectors)
        dataset = RecolouredPairs(pairs, tokenizer) if self.arguments.data.recolour else pairs
        batches = {"size": training.train_batch_size, "seed": training.seed}
        training.choose_workers(len(pairs) if self.arguments.has_image_tower else 0)
        return DualEncoderTrainer(
            model=model,
            args=training,
            objective=objective,
            score=self.score_validation if held is None else partial(self.score_held_out, held),
            paper_schedule=training.schedule == "staircase",
            train_dataset=dataset,
            data_collator=collate,
            processing_class=self.processing,
            **({} if weak is None else weak.batches(dataset, collate, **batches)),
        )

    def encode_split(self, model: AnyModel, split: str) -> EmbeddingsRun:
        """Encode all captions of a split, and all images unless the model has no image side; or take their vectors."""
        content = self.library.split(split)
        files = None
        if self.arguments.has_image_tower:
            paths = image_paths(content.images["file_name"].to_pylist(), self.arguments.data.images)
            files = zip(content.image_ids.tolist(), paths, strict=True)
        run = self.encode(model, files, content.captions)
        if self.features is None:
            return run
        return replace(run, images=Embeddings(content.image_ids, self.features.of_ids(content.image_ids)))

    def score_split(self, model: AnyModel, split: str) -> Report:
        """The report of a model on a split."""
        run = self.encode_split(model, split)
        return evaluate(run, split=split, data_dir=self.library, per_query=True, progress=False)

    def encode(self, model: AnyModel, images: Any, captions: Any) -> EmbeddingsRun:  # noqa: ANN401 - as encode says
        """Encode images, if any, and captions."""
        options = {"processor": self.processing, "encoding": Encoding(batch_size=128), "progress": False}
        return encode(model, images=images, captions=captions, **options)

    def score_validation(self, model: AnyModel) -> Metrics:
        """Report keys to values on the validation split, and ``recall_at_10``, the mean over the trained directions."""
        mode = self.arguments.mode
        parts = ("t2t", "sts") if mode == "t2t" else ("i2t", "t2i", "t2t", "sts", "sits")
        report = evaluate(
            self.encode_split(model, "validation"),
            [f"cxc/{part}" for part in parts],
            split="validation",
            data_dir=self.library,
            confidence=None,
            progress=False,
        )
        trained = [report.scores[f"cxc/{direction}/recall_at_10"] for direction in MODES[mode]]
        return {**report.scores, "recall_at_10": sum(trained) / len(trained)}

    def score_held_out(self, held: TrainingPairs, model: AnyModel) -> Metrics:
        """R@10 on held-out images of every trained direction, and ``recall_at_10``, their mean."""
        texts = [text for group in held.groups for text in group.texts]
        owners = np.repeat(np.arange(len(held)), np.diff(held.starts))
        images = None if held.image_paths is None else enumerate(held.image_paths)
        run = self.encode(model, images, list(enumerate(texts)))
        if self.features is not None:
            run = replace(run, images=Embeddings(np.arange(len(held)), self.features.of(held.groups)))
        recalls = held_out_recalls(run, owners, MODES[self.arguments.mode], depths=[10])
        mean = sum(recalls.values()) / len(recalls)
        return {f"held_out/{name}": recall for name, recall in recalls.items()} | {"recall_at_10": mean}


def _warn_of_leaks(data: DataArguments, training: DualEncoderTrainingArguments, seen: Set[str]) -> None:
    """Warn if a split that the model was trained on, in this run or before, selects its checkpoint or is reported."""
    if "coco/val" in seen and training.load_best_model_at_end and not data.held_out:
        message = (
            "coco/val is in the training data and selects the checkpoint; hold images out (--held-out 1000), or add "
            "--eval-strategy no --no-load-best-model-at-end"
        )
        warnings.warn(message, stacklevel=3)
    if data.report_on is not None and f"coco/{data.report_on}".replace("validation", "val") in seen:
        warnings.warn(f"coco/{data.report_on} is in the training data and reported", stacklevel=3)
