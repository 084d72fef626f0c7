"""Train the character GRU: data, Trainer, the ensemble of its best snapshots, report."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import asdict, replace
from math import comb
from pathlib import Path

import torch
from transformers import AutoTokenizer, TrainingArguments, set_seed

from cxc_eccv.encoding import Encoding, encode
from cxc_eccv.encoding.checkpoints import load_part
from cxc_eccv.encoding.processes import current_processes
from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation import evaluate
from cxc_eccv.hashing import hash_content
from cxc_eccv.report import Report
from cxc_eccv.sources.collections.coco import COLLECTION as COCO
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.char_gru.arguments import COMMAND, OF_NO_WEIGHT, REPORTS, CharGruArguments
from cxc_eccv.studies.baselines.char_gru.data import (
    CoCaptions,
    SharedBatches,
    character_tokenizer,
    coco_text,
    extract_features,
    hold_out,
)
from cxc_eccv.studies.baselines.char_gru.model import CharGruConfig, CharGruEnsemble, CharGruModel
from cxc_eccv.studies.baselines.char_gru.snapshots import (
    SNAPSHOTS,
    CycleCallback,
    HeldOut,
    best_snapshots,
    read_scores,
)
from cxc_eccv.studies.baselines.char_gru.trainer import CharGruTrainer, cyclic_cosine
from cxc_eccv.studies.trainers.caption_groups import CaptionGroup, caption_groups
from cxc_eccv.studies.trainers.image_features import ImageFeatures
from cxc_eccv.studies.trainers.model_card import Trained, without_places
from cxc_eccv.studies.trainers.resuming import RECORD, refuse_users_model, train_resumably
from cxc_eccv.types import Embeddings
from cxc_eccv.types.model_options import check_source
from cxc_eccv.wording import list_names


def train(command: Sequence[str]) -> Trained:
    """Train, save the ensemble of the best snapshots, and score the split of ``--report-on``.

    Under torchrun the result is that of one process; the first process writes files, and all return the same.
    """
    arguments: CharGruArguments
    (arguments,) = COMMAND.read(command)
    library = Library(arguments.data_dir)
    folder = Path(arguments.output_dir)
    for model in (folder / ENSEMBLE, *(folder / SNAPSHOTS).glob("step-*")):
        refuse_users_model(model, folder / CHECKPOINTS / RECORD)
    features_file: str | Path | None = arguments.image_features
    features = ImageFeatures.read(features_file) if features_file else None
    groups, selecting = _parts(library, arguments, features)
    if arguments.image_model is not None and arguments.image_folder is not None:
        check_source(arguments.image_model)
        features_file = extract_features(
            arguments.image_model, library, arguments.parts, arguments.image_folder, folder / "image_features.npz"
        )
        features = ImageFeatures.read(features_file)
    hashes = {} if features_file is None else {"image_features_sha256": hash_content(features_file)}
    trainer = _make_trainer(groups, selecting, arguments, features)
    train_resumably(trainer, {**arguments.identity, **hashes})
    processes = current_processes()
    if processes.rank == 0:
        _save_ensemble(folder, arguments)
    processes.wait()
    trained = _describe(folder, library, arguments)
    if arguments.report_on is None:
        return trained
    return trained.scored(_score(trained.model, library, arguments, features))


CHECKPOINTS = "checkpoints"
ENSEMBLE = "ensemble"
"""The folders of Trainer and of the model within that of a run."""

LOADING = """\
from transformers import AutoModel, AutoTokenizer

model = AutoModel.from_pretrained("FOLDER", trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained("FOLDER", trust_remote_code=True)
inputs = tokenizer(["A dog runs."], return_tensors="pt")
vectors = model.get_text_features(inputs["input_ids"], inputs["attention_mask"]).pooler_output
"""
LOADING_FEATURES = """\
import numpy
import torch

features = torch.from_numpy(numpy.load("image_features.npz")["image_embeddings"])
vectors = model.get_image_features(features).pooler_output
"""


def _describe(folder: Path, library: Library, arguments: CharGruArguments) -> Trained:
    settings = {name: value for name, value in asdict(arguments).items() if name not in OF_NO_WEIGHT}
    scores = read_scores(folder / SNAPSHOTS)
    chosen = {path.name: scores[path.name] for path in best_snapshots(folder / SNAPSHOTS, arguments.ensemble)}
    selecting = list_names(arguments.select_on or [f"{arguments.held_out:,} held-out training images"])
    values = list_names(f"{name} ({score:.4g})" for name, score in chosen.items())
    settings |= {"snapshots": list(chosen), "selection_metric": "recall_at_10", "selection_data": selecting}
    return Trained(
        kind="char-gru",
        about=f"A character GRU after Merkx and Frank (arXiv 1903.11393). {describe_pairs(arguments)}",
        output=folder,
        model=folder / ENSEMBLE,
        has_images=arguments.has_images,
        base_models=(),
        parts=arguments.train_on,
        outcome=[f"The ensemble is of the snapshots with the best recall_at_10 on {selecting}: {values}."],
        settings=without_places({**settings, "processes": current_processes().count}),
        loading=[LOADING, *([LOADING_FEATURES] if arguments.has_images else [])],
        # No other command converts COCO captions to the tokens that the model may need.
        scoring=(),
        library=library,
    )


def describe_pairs(arguments: CharGruArguments) -> str:
    """A sentence that says which pairs of an image's captions and features the loss had."""
    captions = arguments.captions or 1
    between_captions = comb(captions, 2)
    if not arguments.has_images:
        return (
            f"Its loss had {between_captions} pairs of captions of each image and no image, while the paper's has "
            "pairs of an image and a caption."
        )
    if captions == 1:
        return "Its loss had pairs of an image and a caption, as the paper's."
    return (
        f"Its loss had {captions + between_captions} pairs of each image: {captions} of the image and a caption, and "
        f"{between_captions} of two captions, while the paper's has only pairs of an image and a caption."
    )


def _parts(
    library: Library, arguments: CharGruArguments, features: ImageFeatures | None
) -> tuple[list[CaptionGroup], list[CaptionGroup]]:
    """Groups to train on, of images with features if there are any, and those that select the snapshots."""
    groups = _groups(library, arguments.train_on, arguments)
    groups = groups if features is None else features.select(groups)
    selecting = [] if arguments.select_on is None else _groups(library, arguments.select_on, arguments)
    if arguments.report_on is not None:
        collection, split = REPORTS[arguments.report_on]
        image_ids = library.split(split, collection).image_ids
        if features is not None:
            features.of_ids(image_ids)
        reported = {(collection.photographs, number) for number in image_ids.tolist()}
        _refuse_shared(groups, reported, f"--train-on and in --report-on {arguments.report_on}")
        _refuse_shared(selecting, reported, f"--select-on and in --report-on {arguments.report_on}")
    if not selecting:
        return hold_out(groups, arguments.held_out)
    _refuse_shared(
        groups, {(group.photographs, group.image_id) for group in selecting}, "--train-on and in --select-on"
    )
    return groups, selecting


def _groups(library: Library, names: Sequence[str], arguments: CharGruArguments) -> list[CaptionGroup]:
    groups = caption_groups(library, names)
    if not arguments.coco_tokens:
        return groups
    return [
        replace(group, texts=tuple(map(coco_text, group.texts))) if group.photographs == COCO.photographs else group
        for group in groups
    ]


def _refuse_shared(groups: Sequence[CaptionGroup], others: Set[tuple[str, int]], options: str) -> None:
    both = [group.image_id for group in groups if (group.photographs, group.image_id) in others]
    if both:
        raise InvalidOption(
            f"{len(both)} images are in {options}, the first: {both[0]}; give parts without common images"
        )


def _make_trainer(
    groups: Sequence[CaptionGroup],
    selecting: Sequence[CaptionGroup],
    arguments: CharGruArguments,
    features: ImageFeatures | None,
) -> CharGruTrainer:
    set_seed(arguments.seed)
    folder = Path(arguments.output_dir)
    options = _training_arguments(arguments, folder / CHECKPOINTS)
    tokenizer = character_tokenizer(text for group in groups for text in group.texts)
    of_images = None if features is None else features.of(groups)
    place = {"rank": options.process_index, "processes": options.world_size}
    assert arguments.captions is not None  # noqa: S101 - the options choose it
    assert arguments.highest_rate is not None  # noqa: S101 - likewise
    rows = CoCaptions(groups, tokenizer, arguments.captions, of_images, arguments.seed)
    batches = SharedBatches(rows.rows, arguments.images, arguments.seed, **place)
    options.logging_steps = max(10, len(batches) // 20)
    sizes = {name: getattr(arguments, name) for name in ("recurrent_unit", "hidden_size", "pooling", "margin")}
    width = 0 if features is None else features.width
    model = CharGruModel(CharGruConfig(vocab_size=len(tokenizer), image_feature_size=width, **sizes))
    cycle = arguments.cycle_epochs * len(batches)
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.highest_rate)
    return CharGruTrainer(
        model=model,
        args=options,
        batches=batches,
        held_out=HeldOut(selecting, tokenizer, features),
        train_dataset=rows,
        eval_dataset=rows,  # Trainer requires one, which measure does not use
        optimizers=(optimizer, cyclic_cosine(optimizer, cycle, arguments.lowest_rate)),
        callbacks=[CycleCallback(folder, cycle, tokenizer)],
    )


def _training_arguments(arguments: CharGruArguments, checkpoints: Path) -> TrainingArguments:
    """The arguments of the Trainer; making them joins the processes."""
    return TrainingArguments(
        output_dir=str(checkpoints),
        num_train_epochs=arguments.epochs,
        per_device_train_batch_size=arguments.images,  # for all processes: SharedBatches splits it
        bf16=arguments.bf16,
        use_cpu=not torch.cuda.is_available(),
        seed=arguments.seed,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        ddp_find_unused_parameters=False,
        max_grad_norm=0.0,  # the paper does not clip
        remove_unused_columns=False,
        report_to=[],
    )


def _save_ensemble(folder: Path, arguments: CharGruArguments) -> None:
    chosen = best_snapshots(folder / SNAPSHOTS, arguments.ensemble)
    target = folder / ENSEMBLE
    ensemble = CharGruEnsemble.of([load_part(CharGruModel, path) for path in chosen])
    ensemble.config.coco_tokens = arguments.coco_tokens
    ensemble.save_pretrained(target)
    load_part(AutoTokenizer, chosen[0]).save_pretrained(target)


def _score(model: Path, library: Library, arguments: CharGruArguments, features: ImageFeatures | None) -> Report:
    """Score a split: all possible tasks of COCO, or retrieval on Flickr8k."""
    assert arguments.report_on is not None  # noqa: S101 - checked by train
    collection, split = REPORTS[arguments.report_on]
    ensemble = load_part(CharGruEnsemble, model)
    content = library.split(split, collection)
    texts = content.captions["text"].to_pylist()
    entered = [coco_text(text) for text in texts] if collection is COCO and arguments.coco_tokens else texts
    captions = zip(content.caption_ids.tolist(), entered, strict=True)
    tokenizer = load_part(AutoTokenizer, model)
    run = encode(ensemble, captions=captions, processor=tokenizer, encoding=Encoding(batch_size=256), progress=False)
    if features is not None:
        run = replace(run, images=Embeddings(content.image_ids, features.encode(ensemble, content.image_ids)))
    tasks = "all" if collection is COCO else "flickr8k"
    return evaluate(run, tasks, split=split, data_dir=library, intervals=arguments.intervals, per_query=True)
