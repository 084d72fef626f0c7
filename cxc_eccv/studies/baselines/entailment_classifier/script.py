"""Train a classifier of entailment: arguments, data, model, Trainer, threshold and calibration, report."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch.optim import Optimizer
from torch.utils.data import DataLoader
from transformers import TrainerState, set_seed

from cxc_eccv.encoding.loading import inference
from cxc_eccv.encoding.processes import current_processes
from cxc_eccv.errors import DataError, InvalidOption, UnknownName
from cxc_eccv.report.files import REPORT_FOLDER
from cxc_eccv.sources.catalog import SAMPLE
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.entailment_classifier.arguments import COMMAND, Arguments, DataArguments, starting_model
from cxc_eccv.studies.baselines.entailment_classifier.data import (
    LengthSampler,
    PairCollator,
    PairItems,
    Pairs,
    read_pairs,
    soft_targets,
)
from cxc_eccv.studies.entailment.classifier import EntailmentClassifier, EntailmentConfig
from cxc_eccv.studies.entailment.labelled import SeenPairs, find_labelled, read_labelled, record_seen
from cxc_eccv.studies.entailment.measures import choose_threshold, fit_calibration, measure_classifier
from cxc_eccv.studies.entailment.processing import EntailmentProcessor
from cxc_eccv.studies.entailment.quality import report_classifier, write_classifier_folder
from cxc_eccv.studies.entailment.scoring import Classifier
from cxc_eccv.studies.entailment.training_data import part_of
from cxc_eccv.studies.trainers.model_card import ScoredPairs, Trained, without_places
from cxc_eccv.studies.trainers.outcome import Selection, list_settings_that_ran
from cxc_eccv.studies.trainers.resuming import refuse_users_model, train_resumably
from cxc_eccv.studies.trainers.trainer import WholeTrainer, check_checkpointing
from cxc_eccv.studies.trainers.training_record import TrainingRecord, warn_of_training_data
from cxc_eccv.terminal import say
from cxc_eccv.types import FloatArray


def train(command: Sequence[str]) -> Trained:
    """Train, choose checkpoint, threshold and calibration on the held-out pairs, save, and score ``--report-on``."""
    arguments = Arguments(*COMMAND.read(command))
    data = arguments.data
    training = arguments.training
    library = Library(data.data_dir)
    refuse_users_model(Path(training.output_dir))
    # Checks the name before anything is loaded.
    if data.report_on is not None:
        find_labelled(data.report_on)
    arguments = arguments._replace(model=arguments.model.choose_branches(data.images))
    set_seed(training.seed)
    model, processor = starting_model(arguments.model, arguments.objective)
    check_checkpointing(model, training)
    if arguments.model.attention is not None:
        model.set_attn_implementation(arguments.model.attention)
    pairs = read_pairs(library, data, training.seed, model.config)
    record = pairs.provenance
    if arguments.model.pretrained is not None:
        record = _remember(record, getattr(model.config, "training_data", None))
    if not pairs.held.num_rows and training.eval_strategy != "no":
        raise InvalidOption(
            "no pairs are held out to choose the checkpoint: hold images out (--held-out 500), or add --eval-strategy "
            "no --no-load-best-model-at-end"
        )
    trainer = _make_trainer(model, processor, pairs, arguments)
    if trainer.is_world_process_zero():
        say(pairs.summary, err=True)
    train_resumably(trainer, arguments.identity)
    trained_model = _settle_and_save(trainer, data, record)
    is_first = trainer.is_world_process_zero()
    folder = Path(training.output_dir)
    before = arguments.model.pretrained
    seen = record_seen(folder, pairs.trained, pairs.held, before, is_first=is_first)
    trained = _describe(arguments, library, trained_model.config, trainer.state)
    if training.push_to_hub:
        trained = replace(trained, push=partial(trainer.push_to_hub, "Report and card"))
    classifier = Classifier.of(trained_model.train(False), processor, trained.name)
    return replace(trained, pairs=_score_pairs(classifier, data, library, seen))


def _score_pairs(classifier: Classifier, data: DataArguments, library: Library, seen: SeenPairs) -> ScoredPairs | None:
    """The pairs of ``--report-on`` with their probabilities and the report; None without the option."""
    if data.report_on is None:
        return None
    labelled = read_labelled(data.report_on, library, images=data.image_folder if classifier.has_visual else None)
    probabilities = classifier.score(*labelled.ask(classifier, data.image_folder))
    report = report_classifier(
        labelled,
        probabilities,
        library,
        model=classifier.name,
        threshold=classifier.threshold,
        training_data=classifier.training_data,
        seen=seen,
        fingerprint=classifier.fingerprint,
    )

    def write(folder: Path, command: str | None) -> list[Path]:
        return write_classifier_folder(folder, report, labelled, probabilities, command)

    return ScoredPairs(report, write)


NEW = ("text_head", "visual_head", "joint_head", "text_gate", "visual_gate", "visual_projection", "image_projection")
"""Modules with new weights."""


class EntailmentTrainer(WholeTrainer):
    """Trains a classifier; the measures of the ``held`` pairs at their best threshold choose the checkpoint."""

    def __init__(self, *, held: PairItems | None, threshold_for: str, **options: Any) -> None:  # noqa: ANN401 - Trainer's own
        self.held = held
        self.threshold_for = threshold_for
        # Trainer requires an eval_dataset, which our evaluate does not use.
        super().__init__(**{"eval_dataset": held, **options})

    def create_optimizer(self, model: Any = None) -> Optimizer:  # noqa: ANN401 - as Trainer says
        """The optimizer with a separate group for the new layers; biases and norms do not decay, as in Trainer."""
        if self.optimizer is None:
            trained: Any = self.model
            rate = getattr(self.args, "head_learning_rate", None) or self.args.learning_rate
            decayed = set(self.get_decay_parameter_names(trained))
            groups: dict[tuple[bool, bool], list[torch.nn.Parameter]] = {}
            for name, parameter in trained.named_parameters():
                if parameter.requires_grad:
                    groups.setdefault((name.startswith(NEW), name in decayed), []).append(parameter)
            kind, options = self.get_optimizer_cls_and_kwargs(self.args, trained)
            self.optimizer = kind(
                [
                    {
                        "params": parameters,
                        "lr": rate if new else self.args.learning_rate,
                        "weight_decay": self.args.weight_decay if decays else 0.0,
                    }
                    for (new, decays), parameters in groups.items()
                ],
                **options,
            )
        return self.optimizer

    def measure(self) -> dict[str, float]:
        """Accuracy, precision, recall and F0.5 on the held-out pairs, at their best threshold."""
        if self.held is None:
            return {}
        leads = self.leads(self.held)
        labels = np.asarray(self.held.targets)
        threshold = choose_threshold(leads, labels, for_=self.threshold_for)
        return {rate.name: rate.value for rate in measure_classifier(labels, leads, threshold)}

    def order(self, dataset: Any, seed: int) -> LengthSampler:  # noqa: ANN401 - as WholeTrainer says
        """All pairs, in batches of similar length."""
        return LengthSampler(dataset.lengths, self.args.train_batch_size * self.args.world_size, seed)

    def leads(self, items: PairItems) -> FloatArray:
        """(N,) the entailed logit minus the other, uncalibrated, in the precision of scoring."""
        model: Any = self.accelerator.unwrap_model(self.model)
        leads = np.empty(len(items))
        order = np.argsort(items.lengths, kind="stable").tolist()
        loader = DataLoader(
            items,
            batch_size=self.args.per_device_eval_batch_size,
            sampler=order,
            collate_fn=self.data_collator,
            num_workers=self.args.dataloader_num_workers,
        )
        done = 0
        with inference(model):
            for batch in loader:
                batch.pop("labels")
                # The class's own forward: --bf16 and --fp16 wrap the instance's.
                logits = type(model).forward(model, **self._prepare_inputs(batch)).logits
                rows = order[done : done + len(logits)]
                leads[rows] = (logits[:, 1].double() - logits[:, 0].double()).cpu().numpy()
                done += len(rows)
        return leads


def _make_trainer(
    model: EntailmentClassifier, processor: EntailmentProcessor, pairs: Pairs, arguments: Arguments
) -> EntailmentTrainer:
    looks = model.config.has_visual
    items = PairItems(pairs.trained, soft_targets(pairs.trained, arguments.objective.soft_labels), pairs.files)
    if current_processes().rank == 0 and (cut := processor.count_cut(*items.sides(looks))):
        warnings.warn(
            f"{cut:,} of {len(items):,} pairs to train on are longer than the context; their premises are truncated",
            stacklevel=2,
        )
    arguments.training.choose_workers(len(items) - items.images.count(None) if looks else 0)
    return EntailmentTrainer(
        held=PairItems(pairs.held, soft_targets(pairs.held, 0), pairs.files) if pairs.held.num_rows else None,
        threshold_for=arguments.data.threshold_for,
        model=model,
        args=arguments.training,
        train_dataset=items,
        data_collator=PairCollator(processor, looks),
        processing_class=processor,
    )


def _settle_and_save(trainer: EntailmentTrainer, data: DataArguments, record: TrainingRecord) -> EntailmentClassifier:
    """Write threshold, calibration and training data into the config, save the model, and return it."""
    # Without the wrapper of --bf16 and --fp16, so that a report's numbers are those of the saved model.
    model: Any = trainer.accelerator.unwrap_model(trainer.model, keep_fp32_wrapper=False)
    held = trainer.held
    leads, labels = (None, []) if held is None else (trainer.leads(held), held.targets)
    settle(model.config, leads, np.asarray(labels, dtype=np.float64), data)
    model.config.training_data = record
    trainer.save_model()
    trainer.save_state()
    return cast("EntailmentClassifier", model)


def _remember(record: TrainingRecord, before: TrainingRecord | None) -> TrainingRecord:
    """The record of training data, with that of the starting classifier."""
    seen: TrainingRecord = before or {}
    return {
        **record,
        "trained_on_test": record["trained_on_test"] or seen.get("trained_on_test", False),
        "trained_on_val": record["trained_on_val"] or seen.get("trained_on_val", False),
        "before": before,
    }


def settle(config: EntailmentConfig, leads: FloatArray | None, labels: FloatArray, data: DataArguments) -> None:
    """Write calibration and threshold from held-out pairs' (N,) leads into the config; warn if that is impossible."""
    config.threshold = 0.5
    config.calibration_scale = 1.0
    config.calibration_offset = 0.0
    untouched = "the threshold stays 0.5, without calibration"
    if leads is None:
        warnings.warn(f"no pairs are held out: {untouched}", stacklevel=3)
        return
    try:
        scale, offset = fit_calibration(leads, labels)
        threshold = choose_threshold(leads, labels, for_=data.threshold_for, precision=data.precision)
    except (DataError, InvalidOption) as error:
        warnings.warn(f"held-out pairs: {error}; {untouched}", stacklevel=3)
        return
    config.calibration_scale = scale
    config.calibration_offset = offset
    config.threshold = float(1 / (1 + np.exp(-(scale * threshold + offset))))


LOADING = """\
{import_pillow}from transformers import AutoModel, AutoProcessor

model = AutoModel.from_pretrained("FOLDER", trust_remote_code=True)
processor = AutoProcessor.from_pretrained("FOLDER", trust_remote_code=True)
premise = "A dog runs on the beach. A brown dog at the sea."
inputs = processor([premise], {images}, ["An animal is outdoors."])
probability = model.probabilities(model(**inputs).logits)
"""
ABOUT_MODEL = (
    "A classifier of entailment: does an image with its captions entail a sentence? After Revising Image-Text "
    "Retrieval via Multi-Modal Entailment (2022)."
)


def _scorable(library: Library, data: DataArguments, config: EntailmentConfig) -> tuple[str, str | None]:
    """Pairs to score the classifier on, and the folder of their images, if any; capitals stand for unknown values."""
    folder = data.image_folder
    wanted = data.report_on or "cxc/test"
    if not config.has_visual:
        return wanted, None
    for name in (wanted, *(f"{part_of(name)[0].name}/test" for name in data.train_on)):
        try:
            labelled = read_labelled(name, library, images=folder)
        except (DataError, InvalidOption, UnknownName):
            continue
        if not labelled.table["image"].null_count:
            return name, data.images
    return "PAIRS", "THEIR_IMAGES"


def _describe(arguments: Arguments, library: Library, config: EntailmentConfig, state: TrainerState) -> Trained:
    model = arguments.model
    data = arguments.data
    folder = Path(arguments.training.output_dir)
    visual = {"visual_text_model", "image_model"} if config.has_visual else set()
    encoders = visual | ({"text_model"} if config.text_config is not None else set())
    if model.pretrained is None:
        unused = {"text_model", "visual_text_model", "image_model"} - encoders
        started = [getattr(model, name) for name in sorted(encoders)]
    else:
        unused = {*asdict(model)} - {"pretrained", "attention"}
        started = [model.pretrained]
    part, images = _scorable(library, data, config)
    shown = ["--images", images] if images else []
    raw = ["--data-dir", data.data_dir] if data.data_dir else []
    report = str(folder.absolute() / REPORT_FOLDER)
    selection = Selection.read(state, arguments.training, data.dev or "held-out training pairs")
    settings = list_settings_that_ran(arguments.identity, arguments.training, state)
    return Trained(
        kind="entailment-classifier",
        about=" ".join([ABOUT_MODEL, *warn_of_training_data(config.training_data)]),
        output=folder,
        model=folder,
        has_images=config.has_visual,
        base_models=[name for name in started if name not in (None, SAMPLE) and not Path(name).exists()],
        parts=data.train_on,
        settings=without_places(
            {**{name: value for name, value in settings.items() if name not in unused}, **selection.settings}
        ),
        outcome=[selection.describe()],
        loading=[
            LOADING.format(
                import_pillow="from PIL import Image\n" if config.has_visual else "",
                images='[Image.open("dog.jpg")]' if config.has_visual else None,
            )
        ],
        scoring=[["entailment", "score", part, "--model", str(folder), *shown, *raw, "--output", report]],
        library=library,
    )
