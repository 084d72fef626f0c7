"""Train a classifier of entailment: does an image with its captions entail a sentence?

After Revising Image-Text Retrieval via Multi-Modal Entailment, 2022.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from transformers import set_seed

from cxc_eccv.encoding.processes import current_processes
from cxc_eccv.errors import DataError, InvalidOption, UnknownName
from cxc_eccv.report.files import REPORT_FOLDER
from cxc_eccv.sources.catalog import SAMPLE
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.entailment_classifier.data import PairCollator, PairItems, read_pairs
from cxc_eccv.studies.baselines.entailment_classifier.loss import EntailmentTrainer, settle, soft_targets
from cxc_eccv.studies.baselines.entailment_classifier.model import LOADING, make_model
from cxc_eccv.studies.baselines.entailment_classifier.options import COMMAND, DataOptions, Options
from cxc_eccv.studies.entailment.classifier import EntailmentClassifier, EntailmentConfig
from cxc_eccv.studies.entailment.labelled import SeenPairs, read_labelled, record_seen
from cxc_eccv.studies.entailment.processing import EntailmentProcessor
from cxc_eccv.studies.entailment.quality import report_classifier, write_classifier_folder
from cxc_eccv.studies.entailment.scoring import Classifier
from cxc_eccv.studies.entailment.training_data import part_of
from cxc_eccv.studies.trainers.model_card import (
    ScoredPairs,
    Selection,
    Settings,
    Trained,
    list_settings_that_ran,
    without_places,
)
from cxc_eccv.studies.trainers.resuming import refuse_users_model, train_resumably
from cxc_eccv.studies.trainers.trainer import check_checkpointing
from cxc_eccv.studies.trainers.training_record import TrainingRecord, warn_of_training_data
from cxc_eccv.terminal import say

ABOUT_MODEL = (
    "A classifier of entailment: does an image with its captions entail a sentence? After Revising Image-Text "
    "Retrieval via Multi-Modal Entailment (2022)."
)


def train(command: Sequence[str]) -> Trained:
    """Train, choose checkpoint, threshold and calibration on the held-out pairs, save, and score ``--report-on``."""
    # 1. Options
    options = COMMAND.read(command)
    options.check()
    data = options.data
    training = options.training
    folder = Path(training.output_dir)
    refuse_users_model(folder)
    options = options._replace(model=options.model.choose_branches(data.images))

    # 2. Model: encoders with a head for each branch and a joint one, or a trained classifier
    set_seed(training.seed)
    model, processor = make_model(options.model, options.loss)
    check_checkpointing(model, training)
    if options.model.attention is not None:
        model.set_attn_implementation(options.model.attention)

    # 3. Data: labelled pairs; held-out ones choose checkpoint, threshold and calibration
    library = Library(data.data_dir)
    pairs = read_pairs(library, data, training.seed, model.config)
    if not pairs.held.num_rows and training.eval_strategy != "no":
        raise InvalidOption(
            "no pairs are held out to choose the checkpoint: hold images out (--held-out 500), or add --eval-strategy "
            "no --no-load-best-model-at-end"
        )
    record = pairs.provenance
    if options.model.pretrained is not None:
        record = remember(record, getattr(model.config, "training_data", None))
    looks = model.config.has_visual
    items = PairItems(pairs.trained, soft_targets(pairs.trained, options.loss.soft_labels), pairs.files)
    held = None
    if pairs.held.num_rows:
        held = PairItems(pairs.held, soft_targets(pairs.held, 0), pairs.files)
    warn_of_cut_pairs(processor, items, looks=looks)
    training.choose_workers(len(items) - items.images.count(None) if looks else 0)

    # 4. Loss: cross entropy of labels or soft labels, which the model computes itself
    trainer = EntailmentTrainer(
        held=held,
        threshold_for=data.threshold_for,
        model=model,
        args=training,
        train_dataset=items,
        data_collator=PairCollator(processor, looks),
        processing_class=processor,
    )

    # 5. Train
    if trainer.is_world_process_zero():
        say(pairs.summary, err=True)
    identity = options.identity
    train_resumably(trainer, identity)

    # 6. Save and report
    trained_model = settle_and_save(trainer, data, record)
    is_first = trainer.is_world_process_zero()
    seen = record_seen(folder, pairs.trained, pairs.held, options.model.pretrained, is_first=is_first)
    selection = Selection.read(trainer.state, training, data.dev or "held-out training pairs")
    trained = describe(options, identity, library, trainer, selection)
    if training.push_to_hub:
        trained = replace(trained, push=partial(trainer.push_to_hub, "Report and card"))
    classifier = Classifier.of(trained_model.train(False), processor, trained.name)
    return replace(trained, pairs=score_pairs(classifier, data, library, seen))


def warn_of_cut_pairs(processor: EntailmentProcessor, items: PairItems, *, looks: bool) -> None:
    """Warn, on the first process, of pairs to train on that are longer than the context."""
    if current_processes().rank != 0:
        return
    cut = processor.count_cut(*items.sides(looks))
    if cut:
        warnings.warn(
            f"{cut:,} of {len(items):,} pairs to train on are longer than the context; their premises are truncated",
            stacklevel=3,
        )


def remember(record: TrainingRecord, before: TrainingRecord | None) -> TrainingRecord:
    """The record of training data, with that of the starting classifier."""
    seen: TrainingRecord = before or {}
    return {
        **record,
        "trained_on_test": record["trained_on_test"] or seen.get("trained_on_test", False),
        "trained_on_val": record["trained_on_val"] or seen.get("trained_on_val", False),
        "before": before,
    }


def settle_and_save(trainer: EntailmentTrainer, data: DataOptions, record: TrainingRecord) -> EntailmentClassifier:
    """Write threshold, calibration and training data into the config, save the model, and return it."""
    # Without the wrapper of --bf16 and --fp16, so that a report's numbers are those of the saved model.
    model: Any = trainer.accelerator.unwrap_model(trainer.model, keep_fp32_wrapper=False)
    held = trainer.held
    leads = None if held is None else trainer.leads(held)
    labels = [] if held is None else held.targets
    settle(model.config, leads, np.asarray(labels, dtype=np.float64), data)
    model.config.training_data = record
    trainer.save_model()
    trainer.save_state()
    return cast("EntailmentClassifier", model)


def score_pairs(classifier: Classifier, data: DataOptions, library: Library, seen: SeenPairs) -> ScoredPairs | None:
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

    return ScoredPairs(report, probabilities, write)


def describe(
    options: Options, identity: Settings, library: Library, trainer: EntailmentTrainer, selection: Selection
) -> Trained:
    """What a run leaves: model, settings, and how to load and score it."""
    classifier: Any = trainer.model
    config: EntailmentConfig = classifier.config
    model = options.model
    data = options.data
    folder = Path(options.training.output_dir)
    encoders = {"text_model"} if config.text_config is not None else set()
    if config.has_visual:
        encoders |= {"visual_text_model", "image_model"}
    if model.pretrained is None:
        base_models = [getattr(model, name) for name in sorted(encoders)]
        unused = {"text_model", "visual_text_model", "image_model"} - encoders
    else:
        base_models = [model.pretrained]
        unused = {*asdict(model)} - {"pretrained", "attention"}
    settings = list_settings_that_ran(identity, options.training, trainer.state)
    settings = {name: value for name, value in settings.items() if name not in unused}
    part, images = find_scorable(library, data, config)
    scoring = ["entailment", "score", part, "--model", str(folder)]
    if images:
        scoring += ["--images", images]
    if data.data_dir:
        scoring += ["--data-dir", data.data_dir]
    scoring += ["--output", str(folder.absolute() / REPORT_FOLDER)]
    loading = LOADING.format(
        import_pillow="from PIL import Image\n" if config.has_visual else "",
        images='[Image.open("dog.jpg")]' if config.has_visual else None,
    )
    return Trained(
        kind="entailment-classifier",
        about=" ".join([ABOUT_MODEL, *warn_of_training_data(config.training_data)]),
        output=folder,
        model=folder,
        has_images=config.has_visual,
        base_models=[name for name in base_models if name not in (None, SAMPLE) and not Path(name).exists()],
        parts=data.train_on,
        outcome=[selection.describe()],
        settings=without_places({**settings, **selection.settings}),
        loading=[loading],
        scoring=[scoring],
        library=library,
    )


def find_scorable(library: Library, data: DataOptions, config: EntailmentConfig) -> tuple[str, str | None]:
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
