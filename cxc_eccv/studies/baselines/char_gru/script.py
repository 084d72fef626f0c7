"""Train the character GRU: arguments, data, Trainer, the ensemble of its best snapshots, report."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import MISSING, asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader
from transformers import AutoTokenizer, TrainerCallback, TrainingArguments, set_seed

from cxc_eccv.encoding import Encoding, encode, text_encoder
from cxc_eccv.encoding.checkpoints import load_part
from cxc_eccv.encoding.processes import Processes
from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation import evaluate
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.collections.coco import COLLECTION as COCO
from cxc_eccv.sources.collections.collection import Collection
from cxc_eccv.sources.collections.flickr8k import COLLECTION as FLICKR8K
from cxc_eccv.sources.download import sha256_of
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.caption_groups import CaptionGroup, caption_groups, held_out_recalls
from cxc_eccv.studies.baselines.char_gru.data import (
    CoCaptions,
    SharedBatches,
    character_tokenizer,
    coco_text,
    collate,
    extract_features,
    hold_out,
)
from cxc_eccv.studies.baselines.char_gru.model import CharGruConfig, CharGruEnsemble, CharGruModel, hinge_loss_of_views
from cxc_eccv.studies.baselines.features import ImageFeatures
from cxc_eccv.studies.baselines.model_card import Settings, Trained, without_places
from cxc_eccv.studies.baselines.training import (
    AnyModel,
    AnyTokenizer,
    CommandLine,
    EpochCallback,
    WholeTrainer,
    gather,
    option,
    process_count,
    process_rank,
    token_ids,
    train_resumably,
)
from cxc_eccv.studies.entailment.enhanced import Row
from cxc_eccv.types import Embeddings, Report
from cxc_eccv.types.model_options import check_source
from cxc_eccv.writing import replaced_file

PAPER = {"captions": 1, "intervals": "binomial_images"}
PRESETS: Mapping[str, Settings] = {
    "flickr8k": {
        "train_on": ["flickr8k/train"],
        "select_on": ["flickr8k/dev"],
        "report_on": "flickr8k/test",
        "highest_rate": 1e-3,
        **PAPER,
    },
    "coco": {
        "train_on": ["coco/train", "coco/restval"],
        "select_on": ["coco/val"],
        "report_on": "test",
        "highest_rate": 1e-4,
        **PAPER,
    },
}
"""Preset to the options of the paper's runs (Tables 2 and 3) that differ from the defaults."""

OF_NO_WEIGHT = ("preset", "output_dir", "data_dir", "image_folder", "report_on", "intervals")
"""Options that do not change the ensemble."""

ELSEWHERE = (*OF_NO_WEIGHT, "image_features", "image_model", "ensemble", "epochs")
"""Options that change neither the weights at a given step nor the choice among the snapshots."""


@dataclass
class CharGruArguments:
    """Options of the character GRU's training; the defaults are the paper's, except for the data."""

    output_dir: str = option(MISSING, "Folder for checkpoints, snapshots, ensemble and report.")
    preset: Literal["flickr8k", "coco"] | None = option(
        None, "Use the paper's data, splits and learning rate as defaults."
    )
    data_dir: str | None = option(None, "Mirror folder with the raw files, or 'sample'.")
    train_on: list[str] = option(
        ["flickr8k/all", "coco/val"],
        "Parts of the data: flickr8k/train, flickr8k/all, flickr30k/val, coco/train, coco/restval.",
    )
    select_on: list[str] | None = option(None, "Parts whose images select the snapshots: flickr8k/dev, coco/val.")
    held_out: int = option(500, "Without --select-on: training images held out to select snapshots by.")
    report_on: Literal["val", "validation", "test", "flickr8k/dev", "flickr8k/test"] | None = option(
        None, "Split of COCO or Flickr8k to score the ensemble on; writes OUTPUT-DIR/report."
    )
    intervals: Literal["bootstrap", "binomial", "binomial_images", "none"] = option(
        "bootstrap", "Intervals of the report."
    )
    image_features: str | None = option(None, "Embeddings file with a vector per image; default: captions only.")
    image_model: str | None = option(
        None,
        "Instead: image model whose features to extract into OUTPUT-DIR/image_features.npz, the mean over ten crops.",
    )
    image_folder: str | None = option(None, "Folder with the images for --image-model, at any depth.")
    coco_tokens: bool = option(True, "Use COCO captions as lower-case tokens with a full stop; else unchanged.")
    recurrent_unit: Literal["gru", "lstm"] = option("gru", "Recurrent unit.")
    hidden_size: int = option(1024, "Units per direction.")
    pooling: Literal["attention", "max"] = option("attention", "How steps are pooled.")
    margin: float = option(0.2, "Margin of the hinge loss.")
    highest_rate: float = option(1e-3, "Upper bound of the learning rate; the paper's is 1e-4 for COCO.")
    lowest_rate: float = option(1e-6, "Lower bound of the learning rate.")
    epochs: int = option(32, "Passes over every caption of every image.")
    cycle_epochs: int = option(4, "Epochs of a cycle, which ends with a snapshot.")
    images: int = option(32, "Images of a batch, over all processes.")
    captions: int = option(5, "Captions of each image in a batch.")
    ensemble: int = option(2, "Number of snapshots in the ensemble: the best on the selection images.")
    bf16: bool = option(False, "Train in bfloat16.")
    seed: int = option(0, "Seed of the weights and of the order of the images.")

    def __post_init__(self) -> None:
        if not self.margin > 0:
            raise InvalidOption(f"--margin {self.margin}: give a number above 0")
        cycles = self.epochs // self.cycle_epochs if self.cycle_epochs > 0 else 0
        if cycles < max(self.ensemble, 1) or self.ensemble < 1:
            raise InvalidOption(
                f"{self.epochs} epochs have {cycles} cycles of {self.cycle_epochs}, but the ensemble needs "
                f"{self.ensemble} snapshots; train longer or use fewer snapshots, at least one of each"
            )
        if (self.image_model is None) != (self.image_folder is None) or (self.image_model and self.image_features):
            raise InvalidOption("give --image-features FILE, or --image-model MODEL with --image-folder FOLDER")
        if self.preset is not None and not self.has_images:
            raise InvalidOption(
                f"--preset {self.preset} trains on images and captions; give --image-features FILE, or --image-model "
                "MODEL with --image-folder FOLDER"
            )
        if (self.report_on or "").startswith("flickr8k/") and not self.has_images:
            raise InvalidOption(
                f"--report-on {self.report_on} measures retrieval between images and captions: give image features, or "
                "report on COCO, which also has tasks of captions only"
            )
        if self.captions == 1 and not self.has_images:
            raise InvalidOption(
                "one caption of an image without image features makes no pair; give --image-features, or --captions 2"
            )

    @property
    def has_images(self) -> bool:
        """Whether it trains on image features."""
        return self.image_features is not None or self.image_model is not None

    @property
    def parts(self) -> list[str]:
        """The parts of the data that it reads, each once, such as ``coco/val``."""
        reported = {"val": "coco/val", "validation": "coco/val", "test": "coco/test"}
        names = [*self.train_on, *(self.select_on or [])]
        names += [] if self.report_on is None else [reported.get(self.report_on, self.report_on)]
        return list(dict.fromkeys(names))

    @property
    def identity(self) -> Settings:
        """The options that change the weights or the choice; a run resumes only from checkpoints with the same."""
        return {name: value for name, value in asdict(self).items() if name not in ELSEWHERE}


REPORTS: Mapping[str, tuple[Collection, str]] = {
    "val": (COCO, "validation"),
    "validation": (COCO, "validation"),
    "test": (COCO, "test"),
    "flickr8k/dev": (FLICKR8K, "validation"),
    "flickr8k/test": (FLICKR8K, "test"),
}
"""Choices of ``--report-on``."""


COMMAND = CommandLine("char-gru", [CharGruArguments], PRESETS)


def train(command: Sequence[str]) -> Trained:
    """Train, save the ensemble of the best snapshots, and score the split of ``--report-on``.

    Under torchrun the result is that of one process; the first process writes files, and all return the same.
    """
    arguments: CharGruArguments
    (arguments,) = COMMAND.read(command)
    library, folder = Library(arguments.data_dir), Path(arguments.output_dir)
    features_file: str | Path | None = arguments.image_features
    features = ImageFeatures.read(features_file) if features_file else None
    groups, selecting = _parts(library, arguments, features)
    if arguments.image_model is not None and arguments.image_folder is not None:
        check_source(arguments.image_model)
        features_file = extract_features(
            arguments.image_model, library, arguments.parts, arguments.image_folder, folder / "image_features.npz"
        )
        features = ImageFeatures.read(features_file)
    hashes = {} if features_file is None else {"image_features_sha256": sha256_of(features_file)}
    trainer = _make_trainer(groups, selecting, arguments, features)
    train_resumably(trainer, {**arguments.identity, **hashes})
    processes = Processes(process_rank(), process_count())
    if processes.rank == 0:
        _save_ensemble(folder, arguments)
    processes.wait()
    trained = _describe(folder, library, arguments)
    if arguments.report_on is None:
        return trained
    return trained.scored(_score(trained.model, library, arguments, features))


LOADING = """\
from transformers import AutoModel, AutoTokenizer

model = AutoModel.from_pretrained("FOLDER", trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained("FOLDER")
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
    pairs = "captions with image features" if arguments.has_images else "captions of the same image"
    settings = {name: value for name, value in asdict(arguments).items() if name not in OF_NO_WEIGHT}
    return Trained(
        kind="char-gru",
        about=f"A character GRU trained on {pairs}, after Merkx and Frank (arXiv 1903.11393).",
        output=folder,
        model=folder / "ensemble",
        has_images=arguments.has_images,
        base_models=(),
        parts=arguments.train_on,
        settings=without_places({**settings, "processes": process_count()}),
        loading=[LOADING, *([LOADING_FEATURES] if arguments.has_images else [])],
        # No other command converts COCO captions to the tokens that the model may need.
        scoring=(),
        library=library,
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


SNAPSHOTS, SCORES = "snapshots", "snapshots.json"
SELECTION = "selection"


class HeldOut:
    """Measures R@1, R@5 and R@10 on held-out images; the mean of R@10 over the directions selects snapshots."""

    def __init__(
        self,
        groups: Sequence[CaptionGroup],
        tokenizer: AnyTokenizer,
        features: ImageFeatures | None = None,
    ) -> None:
        self.texts = [text for group in groups for text in group.texts]
        token_ids(tokenizer, self.texts, "held-out captions")
        self.owners = np.repeat(np.arange(len(groups)), [len(group.texts) for group in groups])
        self.directions = ("t2t",) if features is None else ("i2t", "t2i")
        self.tokenizer, self.features = tokenizer, features
        self.image_ids = np.array([group.image_id for group in groups], dtype=np.int64)

    def __call__(self, model: AnyModel) -> dict[str, float]:
        """Name to value, as fractions."""
        encoder = text_encoder(model, processor=self.tokenizer, batch_size=256)
        images = None
        if self.features is not None:
            images = Embeddings(np.arange(self.image_ids.size), self.features.encode(model, self.image_ids))
        run = EmbeddingsRun(images, Embeddings(np.arange(len(self.texts)), encoder(self.texts)))
        recalls = held_out_recalls(run, self.owners, self.directions, depths=[1, 5, 10])
        selection = float(np.mean([recalls[f"{direction}/recall_at_10"] for direction in self.directions]))
        return {SELECTION: selection, **recalls}


class CycleCallback(TrainerCallback):
    """Saves the model and its score after the evaluation at the end of every cycle, in ``snapshots``."""

    def __init__(self, folder: Path, cycle: int, tokenizer: AnyTokenizer) -> None:
        self.folder, self.cycle, self.tokenizer = folder / SNAPSHOTS, cycle, tokenizer

    def on_evaluate(self, args: Any, state: Any, control: Any, **others: Any) -> None:  # noqa: ANN401 - Trainer's
        """Save on the first process if a cycle ends; ``cycle`` is in steps."""
        if state.global_step % self.cycle or not state.is_world_process_zero:
            return
        name = f"step-{state.global_step:06d}"
        others["model"].save_pretrained(self.folder / name)
        self.tokenizer.save_pretrained(self.folder / name)
        scores = _read_scores(self.folder) | {name: others["metrics"][f"eval_{SELECTION}"]}
        with replaced_file(self.folder / SCORES) as part:
            part.write_text(json.dumps(scores, indent=2) + "\n", encoding="utf-8")


def _read_scores(folder: Path) -> dict[str, float]:
    path = folder / SCORES
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def best_snapshots(folder: Path, count: int = 2) -> list[Path]:
    """Folders of the snapshots with the highest scores, the best first; of equal ones the latest."""
    scores = _read_scores(folder)
    ranked = sorted(scores, key=lambda name: (scores[name], name), reverse=True)
    return [folder / name for name in ranked[:count]]


class CharGruTrainer(WholeTrainer):
    """A Trainer with the hinge loss over the images of all processes, a mean over the batch."""

    loss_is_scaled_for_ga = False

    def __init__(self, *, batches: SharedBatches, held_out: HeldOut, **options: Any) -> None:  # noqa: ANN401 - Trainer's own
        self.batches, self.held_out = batches, held_out
        super().__init__(**options)
        self.add_callback(EpochCallback(batches))

    def get_train_dataloader(self) -> DataLoader[Row]:
        """The batches of :class:`SharedBatches`, which are already split among the processes."""
        rows: Any = self.train_dataset
        return DataLoader(rows, batch_sampler=self.batches, collate_fn=collate)

    def measure(self) -> dict[str, float]:
        """Recalls on the held-out images."""
        return self.held_out(self.accelerator.unwrap_model(self.model))

    def compute_loss(self, model: torch.nn.Module, inputs: Row, *_: Any, **_options: Any) -> Tensor:  # noqa: ANN401 - Trainer's own
        """The loss of the whole batch, the same on every process."""
        return hinge_loss_of_processes(model(**inputs).views, self.accelerator.unwrap_model(model).config.margin)


def hinge_loss_of_processes(views: Sequence[Tensor], margin: float = 0.2) -> Tensor:
    """The loss of the batch of all processes, computed on each of them, since gradients are averaged."""
    return hinge_loss_of_views(gather(torch.stack(list(views), dim=1)).unbind(dim=1), margin)


def _make_trainer(
    groups: Sequence[CaptionGroup],
    selecting: Sequence[CaptionGroup],
    arguments: CharGruArguments,
    features: ImageFeatures | None,
) -> CharGruTrainer:
    set_seed(arguments.seed)
    folder = Path(arguments.output_dir)
    options = _training_arguments(arguments, folder / "checkpoints")
    tokenizer = character_tokenizer(text for group in groups for text in group.texts)
    of_images = None if features is None else features.of(groups)
    place = {"rank": options.process_index, "processes": options.world_size}
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


def cyclic_cosine(optimizer: Optimizer, cycle: int, lowest: float) -> LambdaLR:
    """The cyclic schedule of an optimiser whose learning rate is the upper bound; ``cycle`` is in steps."""
    highest = float(optimizer.defaults["lr"])
    if cycle < 1 or not 0 <= lowest <= highest or highest == 0:
        raise InvalidOption(
            f"learning rate from {lowest} to {highest} in cycles of {cycle} steps: the lower bound must not exceed the "
            "upper one, the upper one must be positive, and a cycle needs at least one step"
        )
    return LambdaLR(optimizer, lambda step: cyclic_cosine_rate(step, cycle, highest, lowest) / highest)


def cyclic_cosine_rate(step: int, cycle: int, highest: float, lowest: float) -> float:
    """The learning rate after ``step`` optimiser steps.

    ``0.5 (highest - lowest) (1 + cos(pi (1 + 2 step / cycle))) + lowest``: the lowest rate at the start and end of a
    cycle, the highest in its middle. The paper prints ``0.5 step x mb`` inside the cosine, where ``step`` is the number
    of batches of a cycle and ``mb`` those processed; only ``mb / (0.5 step)`` makes a cycle that long.

    References:
        Merkx and Frank 2019, arXiv:1903.11393, section 3.3; after Smith, Cyclical learning rates, WACV 2017.

    Example:
        >>> [round(cyclic_cosine_rate(step, 4, 1.0, 0.0), 2) for step in range(6)]
        [0.0, 0.5, 1.0, 0.5, 0.0, 0.5]
    """
    return 0.5 * (highest - lowest) * (1 + math.cos(math.pi * (1 + 2 * step / cycle))) + lowest


def _save_ensemble(folder: Path, arguments: CharGruArguments) -> None:
    chosen, target = best_snapshots(folder / SNAPSHOTS, arguments.ensemble), folder / "ensemble"
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
