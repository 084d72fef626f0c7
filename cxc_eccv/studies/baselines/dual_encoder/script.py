"""Train a dual encoder of the CxC paper (arXiv 2004.15020), or fine-tune CLIP and its kin, on captions and images."""

from __future__ import annotations

import warnings
from collections.abc import Sequence, Set
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from transformers import VisionTextDualEncoderProcessor, set_seed

from cxc_eccv.encoding.text_input import padded_length
from cxc_eccv.errors import InvalidOption
from cxc_eccv.report.files import REPORT_FOLDER
from cxc_eccv.sources.catalog import SAMPLE, SPLIT_NAMES
from cxc_eccv.sources.download import sample_images
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.dual_encoder.data import (
    BatchPositives,
    PairCollator,
    PairReader,
    Scorer,
    TrainingPairs,
    WeakPositives,
    image_paths,
    read_mined,
)
from cxc_eccv.studies.baselines.dual_encoder.loss import (
    MODES,
    DualEncoderTrainer,
    Objective,
    describe_collapse,
)
from cxc_eccv.studies.baselines.dual_encoder.model import (
    DualEncoderModel,
    find_pipeline_tag,
    has_sentence_form,
    image_backbone,
    limit_tokens,
    list_loading_code,
    load_dual_encoder,
    save_sentence_form,
    text_backbone,
)
from cxc_eccv.studies.baselines.dual_encoder.options import COMMAND, DataOptions, ModelOptions, Options
from cxc_eccv.studies.baselines.dual_encoder.sample import RecolouredPairs
from cxc_eccv.studies.trainers.caption_groups import part_images
from cxc_eccv.studies.trainers.image_features import ImageFeatures
from cxc_eccv.studies.trainers.model_card import Selection, Settings, Trained, list_settings_that_ran, without_places
from cxc_eccv.studies.trainers.resuming import refuse_users_model, train_resumably
from cxc_eccv.studies.trainers.tokens import Processing, find_image_processor, find_tokenizer
from cxc_eccv.studies.trainers.trainer import AnyModel, check_checkpointing
from cxc_eccv.studies.trainers.training_record import list_splits_seen, record_images, warn_of_training_data

HELD_OUT = 5000
"""Images of a file of pairs that select the checkpoint, as many as in COCO's validation split; at most a tenth."""

VALIDATION = "coco/val"
"""What evaluations score unless training images are held out."""

DESCRIBED = {
    "t2t": "pairs of captions of an image",
    "i2t": "images with their captions",
    "t2t+i2t": "images with their captions and pairs of captions of an image",
}
ABOUT_MODEL = "A dual encoder trained on {}, as in Crisscrossed Captions (arXiv 2004.15020)."


def train(command: Sequence[str]) -> Trained:
    """Train, save model and processor, and score the split of ``--report-on``."""
    # 1. Options
    options = COMMAND.read(command)
    data = options.data
    training = options.training
    folder = Path(str(training.output_dir))
    refuse_users_model(folder)
    options.check()

    # 2. Model: two backbones with new layers above them, or a trained dual encoder
    library = Library(data.data_dir, mined=data.weak_positives)
    features = read_images(options, library)
    set_seed(training.seed)
    model, processing = make_model(options.model, options.mode, 0 if features is None else features.width)
    check_checkpointing(model, training)

    # 3. Data: an item per image and epoch; held-out images or COCO's validation split choose the checkpoint
    pairs, held = read_pairs(options, library, processing, features)
    record = record_images(library, pairs.groups, getattr(model.config, "training_data", None))
    model.config.training_data = record
    warn_of_leaks(options, list_splits_seen(record))
    tokenizer = find_tokenizer(processing)
    collate = PairCollator(
        tokenizer,
        find_image_processor(processing) if options.has_image_tower else None,
        padded_length(tokenizer, model),
        None if features is None else features.of(pairs.groups),
    )
    dataset = RecolouredPairs(pairs, tokenizer) if data.recolour else pairs
    training.choose_workers(len(pairs) if options.has_image_tower else 0)

    # 4. Loss: in-batch over all processes; judged and weak positives are no negatives
    objective, weak = make_objective(options, library, pairs)
    scorer = Scorer(
        library, processing, MODES[options.mode], data.images if options.has_image_tower else None, features
    )
    split = None if data.report_on is None else SPLIT_NAMES[data.report_on]
    before = None if split is None else scorer.report(model, split)  # Trainer sets the seed again
    weak_batches = None
    if weak is not None:
        weak_batches = weak.make_batches(
            dataset,
            collate,
            use=options.loss.weak_positives_as,
            alpha=options.loss.alpha,
            size=training.train_batch_size,
            seed=training.seed,
        )
    trainer = DualEncoderTrainer(
        model=model,
        args=training,
        objective=objective,
        score=scorer.measure_validation if held is None else partial(scorer.measure_held_out, held),
        paper_schedule=training.schedule == "staircase",
        chunk_size=training.chunk_size,
        train_dataset=dataset,
        data_collator=collate,
        processing_class=processing,
        weak_positives_as=options.loss.weak_positives_as,
        alpha=options.loss.alpha,
        weak_batches=weak_batches,
    )

    # 5. Train
    identity = options.identity
    train_resumably(trainer, identity)

    # 6. Save and report
    trainer.save_model()
    trainer.save_state()
    if has_sentence_form(model) and trainer.is_world_process_zero():
        save_sentence_form(model, processing, folder)
    selecting = f"{data.held_out:,} held-out training images" if data.held_out else VALIDATION
    selection = Selection.read(trainer.state, training, selecting)
    trained = describe(options, identity, library, trainer, selection)
    if training.push_to_hub:
        trained = replace(trained, push=partial(trainer.push_to_hub, "Report and card"))
    if split is None:
        return trained
    report = scorer.report(trainer.model, split)
    if selection.metric is not None and split == "validation" and selecting == VALIDATION:
        report = selection.doubt(report)
    return replace(trained.scored(report, training_data=record), before=before)


def make_model(options: ModelOptions, mode: str, image_feature_size: int = 0) -> tuple[Any, Any]:
    """The model to start from, and its tokenizer (for texts only) or processor, for a mode of the loss.

    With an ``image_feature_size`` it has no image tower, but projects captions to vectors of that size.
    """
    if options.pretrained is not None:
        return load_dual_encoder(options.pretrained, mode, image_feature_size)
    text, tokenizer = text_backbone(options.text_model)
    image = None
    processing = tokenizer
    if mode != "t2t" and not image_feature_size:
        image, image_processor = image_backbone(options.image_model)
        processing = VisionTextDualEncoderProcessor(image_processor, tokenizer)
    model = DualEncoderModel.from_backbones(
        text,
        image,
        freeze_text=not options.train_text_model,
        extra_layers=options.extra_layers,
        extra_heads=options.extra_heads,
        extra_feed_forward=options.extra_feed_forward,
        extra_dropout=options.extra_dropout,
        pooling=options.pooling,
        image_pooling=options.image_pooling,
        normalize=options.normalize,
        scale=options.scale,
        learned_scale=options.learned_scale,
        image_feature_size=image_feature_size,
    )
    return model, limit_tokens(processing, model)


def read_images(options: Options, library: Library) -> ImageFeatures | None:
    """The vectors of images, which cover the splits to score; without them, check that the photographs are there."""
    data = options.data
    if data.image_features is None:
        if options.has_image_tower and data.images is not None and data.pairs_file is None:
            image_paths(list(part_images(library, data.train_on).values()), data.images)
        return None
    features = ImageFeatures.read(data.image_features)
    scored = set() if data.report_on is None else {SPLIT_NAMES[data.report_on]}
    if options.training.eval_strategy != "no" and data.held_out == 0:
        scored.add("validation")
    for split in scored:
        features.of_ids(library.split(split).image_ids)
    return features


def read_pairs(
    options: Options, library: Library, processing: Processing, features: ImageFeatures | None
) -> tuple[TrainingPairs, TrainingPairs | None]:
    """The pairs to train on, and held-out ones to choose the checkpoint; None for COCO's validation split."""
    data = options.data
    training = options.training
    reader = PairReader(processing, options.mode, data.images, training.seed, features)
    if data.pairs_file is None:
        pairs = reader.read_parts(library, data.train_on)
    else:
        pairs = reader.read_file(Path(data.pairs_file))
    if data.held_out is None:
        # A file of pairs has no validation split, and one of vectors may have vectors of training images only.
        selects = (data.pairs_file or data.image_features) and training.eval_strategy != "no"
        data.held_out = min(HELD_OUT, len(pairs) // 10) if selects else 0
    held = None
    if data.held_out:
        pairs, held = pairs.hold_out(data.held_out)
    batch = training.train_batch_size * training.world_size
    if len(pairs) < batch:
        raise InvalidOption(
            f"{len(pairs)} images are too few for a batch of {batch}; use a smaller --per-device-train-batch-size"
        )
    return pairs, held


def warn_of_leaks(options: Options, seen: Set[str]) -> None:
    """Warn if a split that the model was trained on, in this run or before, selects its checkpoint or is reported."""
    data = options.data
    if "coco/val" in seen and options.training.load_best_model_at_end and not data.held_out:
        message = (
            "coco/val is in the training data and selects the checkpoint; hold images out (--held-out 1000), or add "
            "--eval-strategy no --no-load-best-model-at-end"
        )
        warnings.warn(message, stacklevel=3)
    if data.report_on is not None and f"coco/{data.report_on}".replace("validation", "val") in seen:
        warnings.warn(f"coco/{data.report_on} is in the training data and reported", stacklevel=3)


def make_objective(options: Options, library: Library, pairs: TrainingPairs) -> tuple[Objective, WeakPositives | None]:
    """The loss with judged and weak positives, and the weak ones."""
    loss = options.loss
    data = options.data
    objective = Objective(mode=options.mode, loss=loss.loss, text_weight=loss.text_weight, margin=loss.margin)
    if loss.judged_positives is not None:
        judged = BatchPositives.judged(library, SPLIT_NAMES[loss.judged_positives], pairs.groups)
        if not judged.has_pairs:
            raise InvalidOption(
                f"--judged-positives {loss.judged_positives}: no image that is trained on is in this split, so its "
                "ratings add no positive. Train on coco/val or coco/test too, or leave the option out"
            )
        objective = replace(objective, positives=judged)
    if not data.weak_positives:
        return objective, None
    weak = WeakPositives.read(library, data.train_on, pairs.groups, files=len(data.weak_positives))
    return objective.spare(weak, loss.weak_positives_as), weak


def describe(
    options: Options, identity: Settings, library: Library, trainer: DualEncoderTrainer, selection: Selection
) -> Trained:
    """What a run leaves: model, settings, and how to load and score it."""
    start = options.model
    data = options.data
    folder = Path(str(options.training.output_dir))
    has_images = options.has_image_tower
    model: AnyModel = trainer.model
    if start.pretrained is not None:
        base_models = [start.pretrained]
        unused = {*asdict(start)} - {"pretrained"}
    elif has_images:
        base_models = [start.text_model, start.image_model]
        unused = set()
    else:
        base_models = [start.text_model]
        unused = {"image_model"}
    settings = list_settings_that_ran(
        identity, options.training, trainer.state, has_schedule=not trainer.paper_schedule
    )
    settings = {name: value for name, value in settings.items() if name not in unused}

    images = sample_images() if data.images == SAMPLE else Path(data.images or ".")
    about = ABOUT_MODEL.format(DESCRIBED[options.mode])
    return Trained(
        kind="dual-encoder",
        about=" ".join([about, *describe_leaks(model, library, data)]),
        output=folder,
        model=folder,
        has_images=has_images or data.image_features is not None,
        base_models=[name for name in base_models if name != SAMPLE and not Path(name).exists()],
        parts=data.train_on if data.pairs_file is None else (),
        settings=without_places({**settings, **selection.settings}),
        loading=list_loading_code(model, has_images=has_images),
        scoring=list_scoring_commands(folder, data, has_images=has_images),
        library=library,
        outcome=[selection.describe(), *describe_collapse(trainer.state)],
        images=images if has_images else None,
        pipeline_tag=find_pipeline_tag(model),
    )


def list_scoring_commands(folder: Path, data: DataOptions, *, has_images: bool) -> list[list[str]]:
    """The commands that encode and score the test split; none with features, as encode does not join their vectors."""
    if data.image_features is not None:
        return []
    raw = ["--data-dir", data.data_dir] if data.data_dir else []
    side = ["--images", data.images or "IMAGES"] if has_images else ["--side", "captions"]
    vectors = str(folder.absolute() / "test.npz")
    return [
        ["encode", "--model", str(folder), *side, *raw, "--output", vectors],
        ["evaluate", vectors, *raw, "--output", str(folder.absolute() / REPORT_FOLDER)],
    ]


def describe_leaks(model: AnyModel, library: Library, data: DataOptions) -> list[str]:
    """Warnings that it, or the classifier that mined its weak positives, was trained on val or test data."""
    seen = warn_of_training_data(model.config.training_data, "{:,} images of {}")
    mined = read_mined(library, data.train_on) if data.weak_positives else []
    records = [pairs.facts["classifier"].get("training_data") for pairs in mined]
    cautions = [caution for record in records for caution in warn_of_training_data(record)]
    return [*seen, *(f"The classifier of its weak positives: {caution}" for caution in cautions)]
