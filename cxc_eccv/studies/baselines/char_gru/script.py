"""Train the character GRU: captions of an image, with its features or each other; the ensemble of the best snapshots.

After Merkx and Frank, Learning semantic sentence representations from visually grounded language without lexical
knowledge, 2019, arXiv:1903.11393.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

import torch
from transformers import AutoTokenizer, TrainingArguments, set_seed

from cxc_eccv.encoding import Encoding, encode
from cxc_eccv.encoding.checkpoints import load_part
from cxc_eccv.encoding.processes import current_processes
from cxc_eccv.evaluation import evaluate
from cxc_eccv.hashing import hash_content
from cxc_eccv.report import Report
from cxc_eccv.sources.collections.coco import COLLECTION as COCO
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.char_gru.data import (
    CoCaptions,
    HeldOut,
    SharedBatches,
    character_tokenizer,
    coco_text,
    extract_features,
    hold_out,
    read_groups,
    refuse_shared,
)
from cxc_eccv.studies.baselines.char_gru.loss import CharGruTrainer, cyclic_cosine, describe_pairs
from cxc_eccv.studies.baselines.char_gru.model import (
    LOADING,
    LOADING_FEATURES,
    SNAPSHOTS,
    CharGruConfig,
    CharGruEnsemble,
    CharGruModel,
    CycleCallback,
    best_snapshots,
    read_scores,
)
from cxc_eccv.studies.baselines.char_gru.options import COMMAND, REPORTS, Options
from cxc_eccv.studies.trainers.caption_groups import CaptionGroup
from cxc_eccv.studies.trainers.image_features import ImageFeatures
from cxc_eccv.studies.trainers.model_card import Trained, without_places
from cxc_eccv.studies.trainers.resuming import RECORD, identify_run, refuse_users_model, train_resumably
from cxc_eccv.types import Embeddings
from cxc_eccv.types.model_options import check_source
from cxc_eccv.wording import list_names

CHECKPOINTS = "checkpoints"
ENSEMBLE = "ensemble"
"""The folders of Trainer and of the model within that of a run."""


def train(command: Sequence[str]) -> Trained:
    """Train, save the ensemble of the best snapshots, and score the split of ``--report-on``.

    Under torchrun the result is that of one process; the first process writes files, and all return the same.
    """
    # 1. Options
    options = COMMAND.read(command)
    options.check()
    folder = Path(options.output_dir)
    for model_folder in (folder / ENSEMBLE, *(folder / SNAPSHOTS).glob("step-*")):
        refuse_users_model(model_folder, folder / CHECKPOINTS / RECORD)

    # 2. Data: captions as characters, and vectors of their images
    library = Library(options.data_dir)
    features = None if options.image_features is None else ImageFeatures.read(options.image_features)
    groups, selecting = divide_groups(library, options, features)
    identity = dict(identify_run(options))
    if options.image_model is not None and options.image_folder is not None:
        check_source(options.image_model)
        file = extract_features(
            options.image_model, library, options.parts, options.image_folder, folder / "image_features.npz"
        )
        features = ImageFeatures.read(file)
        identity["image_features_sha256"] = hash_content(file)
    elif options.image_features is not None:
        identity["image_features_sha256"] = hash_content(options.image_features)
    training = make_training_arguments(options)
    tokenizer = character_tokenizer(text for group in groups for text in group.texts)
    vectors = None if features is None else features.of(groups)
    assert options.captions is not None  # noqa: S101 - Options chooses it
    rows = CoCaptions(groups, tokenizer, options.captions, vectors, options.seed)
    batches = SharedBatches(
        rows.rows, options.images, options.seed, rank=training.process_index, processes=training.world_size
    )
    training.logging_steps = max(10, len(batches) // 20)

    # 3. Model
    config = CharGruConfig(
        vocab_size=len(tokenizer),
        image_feature_size=0 if features is None else features.width,
        recurrent_unit=options.recurrent_unit,
        hidden_size=options.hidden_size,
        pooling=options.pooling,
        margin=options.margin,
    )
    set_seed(options.seed)
    model = CharGruModel(config)

    # 4. Loss: a hinge over the images of all processes; the learning rate rises and falls once in each cycle
    assert options.highest_rate is not None  # noqa: S101 - Options chooses it
    cycle = options.cycle_epochs * len(batches)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.highest_rate)
    trainer = CharGruTrainer(
        model=model,
        args=training,
        batches=batches,
        held_out=HeldOut(selecting, tokenizer, features),
        train_dataset=rows,
        eval_dataset=rows,  # Trainer requires one, which measure does not use
        optimizers=(optimizer, cyclic_cosine(optimizer, cycle, options.lowest_rate)),
        callbacks=[CycleCallback(folder, cycle, tokenizer)],
    )

    # 5. Train
    train_resumably(trainer, identity)

    # 6. Save and report
    processes = current_processes()
    if processes.rank == 0:
        save_ensemble(folder, options)
    processes.wait()
    trained = describe(folder, library, options)
    if options.report_on is None:
        return trained
    return trained.scored(score_ensemble(trained.model, library, options, features))


def divide_groups(
    library: Library, options: Options, features: ImageFeatures | None
) -> tuple[list[CaptionGroup], list[CaptionGroup]]:
    """Groups to train on, of images with features if there are any, and those that select the snapshots."""
    groups = read_groups(library, options.train_on, coco_tokens=options.coco_tokens)
    if features is not None:
        groups = features.select(groups)
    selecting = []
    if options.select_on is not None:
        selecting = read_groups(library, options.select_on, coco_tokens=options.coco_tokens)
    if options.report_on is not None:
        collection, split = REPORTS[options.report_on]
        image_ids = library.split(split, collection).image_ids
        if features is not None:
            features.of_ids(image_ids)
        reported = {(collection.photographs, number) for number in image_ids.tolist()}
        refuse_shared(groups, reported, f"--train-on and in --report-on {options.report_on}")
        refuse_shared(selecting, reported, f"--select-on and in --report-on {options.report_on}")
    if not selecting:
        return hold_out(groups, options.held_out)
    refuse_shared(groups, {group.image_key for group in selecting}, "--train-on and in --select-on")
    return groups, selecting


def make_training_arguments(options: Options) -> TrainingArguments:
    """The arguments of the Trainer; making them joins the processes."""
    return TrainingArguments(
        output_dir=str(Path(options.output_dir) / CHECKPOINTS),
        num_train_epochs=options.epochs,
        per_device_train_batch_size=options.images,  # for all processes: SharedBatches splits it
        bf16=options.bf16,
        use_cpu=not torch.cuda.is_available(),
        seed=options.seed,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        ddp_find_unused_parameters=False,
        max_grad_norm=0.0,  # the paper does not clip
        remove_unused_columns=False,
        report_to=[],
    )


def save_ensemble(folder: Path, options: Options) -> None:
    """Write the ensemble of the best snapshots of a run."""
    chosen = best_snapshots(folder / SNAPSHOTS, options.ensemble)
    ensemble = CharGruEnsemble.of([load_part(CharGruModel, path) for path in chosen])
    ensemble.config.coco_tokens = options.coco_tokens
    ensemble.save_pretrained(folder / ENSEMBLE)
    load_part(AutoTokenizer, chosen[0]).save_pretrained(folder / ENSEMBLE)


def score_ensemble(model: Path, library: Library, options: Options, features: ImageFeatures | None) -> Report:
    """Score the split of ``--report-on``: all possible tasks of COCO, or retrieval on Flickr8k."""
    assert options.report_on is not None  # noqa: S101 - checked by train
    collection, split = REPORTS[options.report_on]
    ensemble = load_part(CharGruEnsemble, model)
    tokenizer = load_part(AutoTokenizer, model)
    content = library.split(split, collection)
    texts = content.captions["text"].to_pylist()
    if collection is COCO and options.coco_tokens:
        texts = list(map(coco_text, texts))
    captions = zip(content.caption_ids.tolist(), texts, strict=True)
    run = encode(ensemble, captions=captions, processor=tokenizer, encoding=Encoding(batch_size=256), progress=False)
    if features is not None:
        run = replace(run, images=Embeddings(content.image_ids, features.encode(ensemble, content.image_ids)))
    tasks = "all" if collection is COCO else "flickr8k"
    return evaluate(run, tasks, split=split, data_dir=library, intervals=options.intervals, per_query=True)


CARD_SETTINGS = ("image_features", "image_model", "epochs", "ensemble")
"""Options that a card shows beside those that shape the run."""


def describe(folder: Path, library: Library, options: Options) -> Trained:
    """What a run leaves: the ensemble, its settings, and how to load it."""
    scores = read_scores(folder / SNAPSHOTS)
    snapshots = [path.name for path in best_snapshots(folder / SNAPSHOTS, options.ensemble)]
    chosen = list_names(f"{name} ({scores[name]:.4g})" for name in snapshots)
    selecting = list_names(options.select_on or [f"{options.held_out:,} held-out training images"])
    shown = [one.name for one in fields(options) if one.compare or one.name in CARD_SETTINGS]
    settings = {
        **{name: getattr(options, name) for name in shown},
        "snapshots": snapshots,
        "selection_metric": "recall_at_10",
        "selection_data": selecting,
        "processes": current_processes().count,
    }
    pairs = describe_pairs(options.captions or 1, has_images=options.has_images)
    return Trained(
        kind="char-gru",
        about=f"A character GRU after Merkx and Frank (arXiv 1903.11393). {pairs}",
        output=folder,
        model=folder / ENSEMBLE,
        has_images=options.has_images,
        base_models=(),
        parts=options.train_on,
        outcome=[f"The ensemble is of the snapshots with the best recall_at_10 on {selecting}: {chosen}."],
        settings=without_places(settings),
        loading=[LOADING, LOADING_FEATURES] if options.has_images else [LOADING],
        # No other command converts COCO captions to the tokens that the model may need.
        scoring=(),
        library=library,
    )
