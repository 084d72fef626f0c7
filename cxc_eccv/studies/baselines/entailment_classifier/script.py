"""Train a classifier of entailment: arguments, data, model, Trainer, threshold and calibration, report."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from transformers import set_seed

from cxc_eccv.builders.images import ImageFolder
from cxc_eccv.demo.run import sample_images
from cxc_eccv.errors import DataError, InvalidOption, UnknownName
from cxc_eccv.evaluation.report_files import REPORT_FOLDER
from cxc_eccv.sources.catalog import OFFICIAL
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.command_line import read_arguments
from cxc_eccv.studies.baselines.dual_encoder.loading import SAMPLE
from cxc_eccv.studies.baselines.entailment_classifier.arguments import (
    DataArguments,
    EntailmentTrainingArguments,
    ModelArguments,
    ObjectiveArguments,
    run_identity,
)
from cxc_eccv.studies.baselines.entailment_classifier.data import (
    PairCollator,
    PairItems,
    caption_images,
    hold_out,
    keep_apart,
    soft_targets,
)
from cxc_eccv.studies.baselines.entailment_classifier.loading import starting_model
from cxc_eccv.studies.baselines.entailment_classifier.trainer import EntailmentTrainer
from cxc_eccv.studies.baselines.training import (
    CHECKPOINTS,
    ScoredPairs,
    Trained,
    last_checkpoint,
    process_rank,
    show_progress,
    without_places,
)
from cxc_eccv.studies.entailment.classifier import EntailmentClassifier, EntailmentConfig
from cxc_eccv.studies.entailment.measures import choose_threshold, fit_calibration
from cxc_eccv.studies.entailment.processing import EntailmentProcessor
from cxc_eccv.studies.entailment.quality import report_classifier, warn_of_training_data
from cxc_eccv.studies.entailment.quality.labelled import find_labelled, read_labelled
from cxc_eccv.studies.entailment.quality.seen import SeenPairs, record_seen
from cxc_eccv.studies.entailment.scoring import Classifier
from cxc_eccv.studies.entailment.training_data import load_training_data, part_of
from cxc_eccv.types import FloatArray
from cxc_eccv.writing import explained, resumable

ABOUT = "Train a classifier of entailment: does an image with its captions entail a sentence?"
KINDS = (ModelArguments, ObjectiveArguments, DataArguments, EntailmentTrainingArguments)


class Pairs(NamedTuple):
    """Pairs to train on, held-out pairs, their provenance, and the image files by name."""

    trained: pa.Table
    held: pa.Table
    provenance: dict[str, Any]
    files: dict[str, Path]


def train(command: Sequence[str]) -> Trained:
    """Train, choose checkpoint, threshold and calibration on the held-out pairs, save, and score ``--report-on``."""
    model_arguments, objective, data, training = read_arguments("entailment-classifier", ABOUT, KINDS, command)
    library = Library(data.data_dir)
    # Checks the name before anything is loaded.
    if data.report_on is not None:
        find_labelled(data.report_on)
    model_arguments = model_arguments.choose_branches(data.images)
    set_seed(training.seed)
    model, processor = starting_model(model_arguments, objective)
    if model_arguments.attention is not None:
        model.set_attn_implementation(model_arguments.attention)
    pairs = _read_pairs(library, data, training.seed, model.config)
    record = pairs.provenance
    if model_arguments.pretrained is not None:
        record = _remember(record, getattr(model.config, "training_data", None))
    if not pairs.held.num_rows and training.eval_strategy != "no":
        raise InvalidOption(
            "no pairs are held out to choose the checkpoint: hold images out (--held-out 500), or add --eval-strategy "
            "no --no-load-best-model-at-end"
        )
    trainer = _trainer(model, processor, pairs, objective, data, training)
    identity = run_identity(model_arguments, objective, data, training)
    folder, is_first = Path(training.output_dir), trainer.is_world_process_zero()
    with explained(folder):
        checkpoint = last_checkpoint(folder, identity, resume=training.resume, is_first=is_first)
        with resumable(CHECKPOINTS.format(trainer.args.output_dir)):
            trainer.train(resume_from_checkpoint=checkpoint)
        trained_model = _settle_and_save(trainer, data, record)
        seen = record_seen(folder, pairs.trained, pairs.held, model_arguments.pretrained, is_first=is_first)
    trained = _describe(folder, library, model_arguments, data, identity, trained_model.config)
    if training.push_to_hub:
        trained = replace(trained, push=partial(trainer.push_to_hub, "Report and card"))
    if data.report_on is None:
        return trained
    trained_model.train(False)
    classifier = Classifier(trained_model, processor, trained.name)
    return replace(trained, pairs=_score(classifier, data.report_on, library, _folder(data), seen))


def _trainer(
    model: EntailmentClassifier,
    processor: EntailmentProcessor,
    pairs: Pairs,
    objective: ObjectiveArguments,
    data: DataArguments,
    training: EntailmentTrainingArguments,
) -> EntailmentTrainer:
    looks = model.config.has_visual
    items = PairItems(pairs.trained, soft_targets(pairs.trained, objective.soft_labels), pairs.files)
    if process_rank() == 0 and (cut := processor.count_cut(*items.sides(looks))):
        warnings.warn(
            f"{cut:,} of {len(items):,} pairs to train on are longer than the context; their premises are truncated",
            stacklevel=2,
        )
    trainer = EntailmentTrainer(
        held=PairItems(pairs.held, soft_targets(pairs.held, 0), pairs.files) if pairs.held.num_rows else None,
        threshold_for=data.threshold_for,
        model=model,
        args=training,
        train_dataset=items,
        data_collator=PairCollator(processor, looks),
        processing_class=processor,
    )
    show_progress(trainer)
    return trainer


def _settle_and_save(trainer: EntailmentTrainer, data: DataArguments, record: dict[str, Any]) -> EntailmentClassifier:
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


def _remember(record: dict[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """The record of training data, with that of the starting classifier."""
    seen = before or {}
    flags = {name: record[name] or seen.get(name, False) for name in ("trained_on_test", "trained_on_val")}
    return {**record, **flags, "before": before}


def _read_pairs(library: Library, data: DataArguments, seed: int, config: EntailmentConfig) -> Pairs:
    images = _folder(data) if config.has_visual else None
    loaded = load_training_data(
        library,
        data.parts,
        images=images,
        protect=data.protect,
        allow_test_data=data.allow_test_data,
        used_as=data.kinds(),
    )
    kinds = ["multimodal"]
    kinds += ["text"] if config.has_text and data.text_data else []
    kinds += ["visual"] if config.has_visual and data.visual_data else []
    kept = pc.is_in(loaded.pairs["kind"], value_set=pa.array(kinds))
    usable = loaded.pairs.filter(kept)
    owners = caption_images(library)
    if not usable.num_rows:
        others = ", ".join(loaded.pairs["kind"].unique().to_pylist())
        raise InvalidOption(f"all pairs are of kind {others}, which this run does not use: change its branches or data")
    if data.dev is None:
        source = part_of(data.train_on[0])[0].name
        trained, held = hold_out(usable, source, data.held_out, owners, seed)
    else:
        corpus, part = part_of(data.dev)
        size = int(loaded.provenance["sources"][f"{corpus.name}/{part}"]["pairs"])
        is_dev = np.arange(loaded.pairs.num_rows) >= loaded.pairs.num_rows - size
        trained, held = keep_apart(usable, is_dev[np.asarray(kept)], owners)
    _refuse_untrained(config, trained)
    files = {}
    if images is not None:
        find = ImageFolder(images).find
        files = {name: find(name) for name in usable["image"].unique().to_pylist() if name is not None}
    facts = {
        **loaded.provenance,
        "dev": data.dev,
        "left_out_by_kind": loaded.pairs.num_rows - usable.num_rows,
        "trained": trained.num_rows,
        "held_out": held.num_rows,
        "beside_held_out": usable.num_rows - trained.num_rows - held.num_rows,
    }
    return Pairs(trained, held, facts, {name: path for name, path in files.items() if path is not None})


def _refuse_untrained(config: EntailmentConfig, pairs: pa.Table) -> None:
    """Raise InvalidOption if a branch, or the gate with the joint head, has no pair to learn from."""
    kinds = set(pairs["kind"].unique().to_pylist())
    untrained = [
        part
        for part, is_there, learns_from in (
            ("the text branch", config.has_text, {"text", "multimodal"}),
            ("the visual branch", config.has_visual, {"visual", "multimodal"}),
            ("the gate with the joint head", config.has_text and config.has_visual, {"multimodal"}),
        )
        if is_there and not kinds & learns_from
    ]
    if untrained:
        raise InvalidOption(
            f"no pair trains {' and '.join(untrained)}: all pairs are {' or '.join(sorted(kinds))}. Give images "
            "(--images) and corpora whose pairs have captions and an image, or train one branch (--branches)"
        )


def _folder(data: DataArguments) -> Path | None:
    return sample_images() if data.images == SAMPLE else Path(data.images) if data.images else None


def settle(config: EntailmentConfig, leads: FloatArray | None, labels: FloatArray, data: DataArguments) -> None:
    """Write calibration and threshold from held-out pairs' (N,) leads into the config; warn if that is impossible."""
    config.threshold, config.calibration_scale, config.calibration_offset = 0.5, 1.0, 0.0
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
    config.calibration_scale, config.calibration_offset = scale, offset
    config.threshold = float(1 / (1 + np.exp(-(scale * threshold + offset))))


def _score(classifier: Classifier, name: str, library: Library, images: Path | None, seen: SeenPairs) -> ScoredPairs:
    config = classifier.model.config
    labelled = read_labelled(name, library, images=images if config.has_visual else None)
    probabilities = classifier.score(*labelled.ask(classifier, images).part(slice(None)))
    facts = {"fingerprint": classifier.fingerprint, "training_data": config.training_data, "seen": seen}
    facts |= {"model": classifier.name, "threshold": config.threshold}
    return ScoredPairs(report_classifier(labelled, probabilities, library, **facts), labelled, probabilities)


LOADING = """\
from cxc_eccv.studies.entailment.scoring import load_classifier

classifier = load_classifier("FOLDER")
premise = "A dog runs on the beach. A brown dog at the sea."
probability = classifier.score({inputs})
"""
INPUTS = {
    True: '[premise], ["dog.jpg"], ["An animal is outdoors."]',
    False: '[premise], None, ["An animal is outdoors."]',
}
ABOUT_MODEL = (
    "A classifier of entailment: does an image with its captions entail a sentence? After Revising Image-Text "
    "Retrieval via Multi-Modal Entailment (2022)."
)


def _scorable(library: Library, data: DataArguments, config: EntailmentConfig) -> tuple[str, str | None]:
    """Pairs to score the classifier on, and the folder of their images, if any; capitals stand for unknown values."""
    folder, wanted = _folder(data), data.report_on or "cxc/test"
    if not config.has_visual:
        return wanted, None
    for name in (wanted, *(f"{part_of(name)[0].name}/test" for name in data.train_on)):
        try:
            labelled = read_labelled(name, library, images=folder)
        except (DataError, InvalidOption, UnknownName):
            continue
        if not labelled.table["image"].null_count:
            return name, str(folder)
    return "PAIRS", "THEIR_IMAGES"


def _describe(
    folder: Path,
    library: Library,
    arguments: ModelArguments,
    data: DataArguments,
    identity: dict[str, Any],
    config: EntailmentConfig,
) -> Trained:
    visual = {"visual_text_model", "image_model"} if config.has_visual else set()
    encoders = visual | ({"text_model"} if config.text_config is not None else set())
    if arguments.pretrained is None:
        unused = {"text_model", "visual_text_model", "image_model"} - encoders
        started = [getattr(arguments, name) for name in sorted(encoders)]
    else:
        unused, started = {*asdict(arguments)} - {"pretrained", "attention"}, [arguments.pretrained]
    part, images = _scorable(library, data, config)
    shown = ["--images", images] if images else []
    raw = ["--data-dir", data.data_dir] if data.data_dir else []
    return Trained(
        kind="entailment-classifier",
        about=" ".join([ABOUT_MODEL, *warn_of_training_data(config.training_data)]),
        output=folder,
        model=folder,
        has_images=config.has_visual,
        base_models=[name for name in started if name not in (None, SAMPLE) and not Path(name).exists()],
        parts=data.train_on if library.edition == OFFICIAL else (),
        settings=without_places({name: value for name, value in identity.items() if name not in unused}),
        loading=LOADING.format(inputs=INPUTS[config.has_visual]),
        scoring=[
            ["entailment", "score", part, "--model", str(folder), *shown, *raw, "--output", str(folder / REPORT_FOLDER)]
        ],
        library=library,
    )
