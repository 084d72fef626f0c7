"""Train a dual encoder: arguments, data, model, Trainer, selection of the checkpoint, report."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence, Set
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from transformers import MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING, set_seed

from cxc_eccv.encoding import Encoding, encode
from cxc_eccv.encoding.text_input import padded_length
from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation import evaluate
from cxc_eccv.evaluation.report import REPORT_FOLDER
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.catalog import SPLIT_NAMES
from cxc_eccv.sources.download import mirror_folder, sample_images
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.caption_groups import ALL, held_out_recalls, part_images, parts_of
from cxc_eccv.studies.baselines.dual_encoder.arguments import (
    COMMAND,
    SAMPLE,
    Arguments,
    DataArguments,
    DualEncoderTrainingArguments,
    starting_model,
)
from cxc_eccv.studies.baselines.dual_encoder.chunks import encode_in_chunks
from cxc_eccv.studies.baselines.dual_encoder.data import (
    EpochSampler,
    PairCollator,
    PairReader,
    RecolouredPairs,
    TrainingPairs,
    find_image_processor,
    find_tokenizer,
    image_paths,
    list_splits_seen,
    record_seen,
)
from cxc_eccv.studies.baselines.dual_encoder.losses import (
    MODES,
    BatchPositives,
    Objective,
    WeakPositives,
    check_weak_positives,
)
from cxc_eccv.studies.baselines.dual_encoder.model import DualEncoderModel
from cxc_eccv.studies.baselines.dual_encoder.sentence_form import has_sentence_form, save_sentence_form
from cxc_eccv.studies.baselines.features import ImageFeatures
from cxc_eccv.studies.baselines.model_card import Settings, Trained, without_places
from cxc_eccv.studies.baselines.training import (
    AnyModel,
    Processing,
    WholeTrainer,
    check_checkpointing,
    train_resumably,
)
from cxc_eccv.studies.entailment.enhanced import EnhancedTrainer, Row, WeakBatches
from cxc_eccv.studies.entailment.quality import warn_of_training_data
from cxc_eccv.types import Embeddings, Report

Metrics = dict[str, float]

HELD_OUT = 5000
"""Images of a file of pairs that select the checkpoint, as many as in COCO's validation split; at most a tenth."""

DESCRIBED = {
    "t2t": "pairs of captions of an image",
    "i2t": "images with their captions",
    "t2t+i2t": "images with their captions and pairs of captions of an image",
}


def train(command: Sequence[str]) -> Trained:
    """Train, save model and processor, and score the split of ``--report-on``."""
    arguments = Arguments(*COMMAND.read(command))
    data, training = arguments.data, arguments.training
    library = Library(data.data_dir, mined=data.weak_positives)
    # Checks the options before anything is loaded.
    arguments.check_image_features()
    loss = arguments.objective
    objective = Objective(arguments.mode, loss.loss, loss.text_weight, loss.margin)
    check_weak_positives(loss, data)
    split = None if data.report_on is None else SPLIT_NAMES[data.report_on]
    is_sample = data.images == SAMPLE and mirror_folder(data.data_dir) == mirror_folder(SAMPLE)
    if data.recolour and (arguments.mode == "t2t" or not is_sample):
        raise InvalidOption("--recolour works only with the embedded sample: give --data-dir sample --images sample")
    features = None if data.image_features is None else ImageFeatures.read(data.image_features)
    if features is not None:
        for scored in arguments.scored_splits:
            features.of_ids(library.split(scored).image_ids)
    if arguments.has_image_tower and data.images is not None and data.pairs_file is None:
        image_paths(list(part_images(library, data.train_on).values()), data.images)
    set_seed(training.seed)
    model, processing = starting_model(arguments.model, arguments.mode, 0 if features is None else features.width)
    check_checkpointing(model, training)
    setup = Setup(arguments, library, processing, features)
    pairs, held = setup.read_pairs()
    record = record_seen(library, pairs.groups, getattr(model.config, "training_data", None))
    model.config.training_data = record
    _warn_of_leaks(data, training, list_splits_seen(record))
    batch = training.train_batch_size * training.world_size
    if len(pairs) < batch:
        raise InvalidOption(
            f"{len(pairs)} images are too few for a batch of {batch}; use a smaller --per-device-train-batch-size"
        )
    objective, weak = setup.add_positives(objective, pairs)
    # Trainer sets the seed again, so that the weights do not depend on this.
    before = None if split is None else setup.score_split(model, split)
    trainer = setup.make_trainer(model, objective, pairs, weak, held)
    identity = arguments.identity
    train_resumably(trainer, identity)
    trainer.save_model()
    trainer.save_state()
    if has_sentence_form(model) and trainer.is_world_process_zero():
        save_sentence_form(model, setup.processing, Path(str(training.output_dir)))
    trained = _describe(setup, identity, trainer.model)
    if training.push_to_hub:
        trained = replace(trained, push=partial(trainer.push_to_hub, "Report and card"))
    if split is None:
        return trained
    report = setup.score_split(trainer.model, split)
    return replace(trained.scored(report, training_data=record), before=before)


@dataclass(frozen=True, slots=True)
class Setup:
    """What every step of a run needs: arguments, library, the model's tokenizer or processor, vectors of images."""

    arguments: Arguments
    library: Library
    processing: Processing
    features: ImageFeatures | None = None

    def read_pairs(self) -> tuple[TrainingPairs, TrainingPairs | None]:
        """The pairs to train on, and held-out ones to choose the checkpoint; None for COCO's validation split."""
        data, training = self.arguments.data, self.arguments.training
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
        training, tokenizer = self.arguments.training, find_tokenizer(self.processing)
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
        content, files = self.library.split(split), None
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


def staircase(step: int) -> float:
    """The paper's factor of the learning rate: 0.1% less after every 1000 steps."""
    return float(0.999 ** (step // 1000))


class DualEncoderTrainer(EnhancedTrainer, WholeTrainer):
    """Trains a model with ``text_embeds`` and ``image_embeds``; ``score`` computes the metrics of a model.

    The loss of ``added_batches`` of weak positives, times their ``weight``, is added to that of each batch.
    """

    # The loss is a mean over the batch: Trainer divides it when it accumulates gradients.
    loss_is_scaled_for_ga = False

    args: DualEncoderTrainingArguments
    objective: Objective

    def __init__(
        self,
        *,
        objective: Objective,
        score: Callable[[Any], Metrics] | None = None,
        paper_schedule: bool = True,
        added_batches: WeakBatches | None = None,
        **options: Any,  # noqa: ANN401 - Trainer's own
    ) -> None:
        self.objective, self.score, self.paper_schedule = objective, score, paper_schedule
        # Trainer requires an eval_dataset, which our evaluate does not use.
        super().__init__(**{"eval_dataset": options.get("train_dataset"), **options})
        if self.args.chunk_size is not None:
            encode_in_chunks(self.model, self.args.chunk_size)
        self._adds_batches = added_batches is not None
        self.weak_batches = added_batches or self.weak_batches

    def images_of(self, inputs: Row) -> list[int]:
        """The positions of the batch's images."""
        positions: list[int] = inputs["image_index"].tolist()
        return positions

    def step_of_extra_batch(self) -> int | None:
        """The step of EnhancedTrainer's extra batch, or the current step for batches whose loss is added."""
        return self.state.global_step if self._adds_batches else super().step_of_extra_batch()

    def training_step(self, *arguments: Any, **options: Any) -> torch.Tensor:  # noqa: ANN401 - Trainer's own
        """Add the gradients of a batch and of its added weak positives; return the loss of the batch."""
        loss = super().training_step(*arguments, **options)
        if self._adds_batches:
            self.train_on_weak_positives()
        return loss

    def compute_loss(self, model: torch.nn.Module, inputs: Row, *_: Any, **_options: Any) -> torch.Tensor:  # noqa: ANN401 - Trainer's own
        """The objective on one batch, against the batches of all processes."""
        indices = {name: inputs.pop(name) for name in ("text_index", "image_index")}
        weight = inputs.pop("weight", 1.0)
        outputs = model(**inputs)
        images = outputs.image_embeds if self.objective.has_images else None
        loss: torch.Tensor = weight * self.objective(outputs.text_embeds, images, self._scale(outputs), **indices)
        return loss

    def create_scheduler(self, num_training_steps: int, optimizer: Optimizer | None = None) -> LRScheduler:
        """The paper's staircase, or the schedule of the arguments."""
        if not self.paper_schedule:
            return super().create_scheduler(num_training_steps, optimizer)
        if self.lr_scheduler is None:
            chosen: Any = self.optimizer if optimizer is None else optimizer
            self.lr_scheduler = LambdaLR(chosen, staircase)
            self._created_lr_scheduler = True
        return self.lr_scheduler

    def measure(self) -> Metrics:
        """The library's metrics on the whole validation split, under their report keys."""
        return {} if self.score is None else self.score(self.accelerator.unwrap_model(self.model))

    def order(self, dataset: Any, seed: int) -> EpochSampler:  # noqa: ANN401 - as WholeTrainer says
        """All images, in an order that depends on seed and epoch."""
        return EpochSampler(len(dataset), seed)

    def _scale(self, outputs: Any) -> torch.Tensor:  # noqa: ANN401 - our output or a CLIP-like one
        # Models like CLIP have the logarithm of the factor, and return features of unit length.
        model = self.accelerator.unwrap_model(self.model)
        scale: torch.Tensor = outputs.scale if "scale" in outputs else model.logit_scale.exp()
        return scale


LOADING = """\
from transformers import AutoModel, {processor}

model = AutoModel.from_pretrained("FOLDER"{code})
processor = {processor}.from_pretrained("FOLDER")
inputs = processor(text=["A dog runs."], return_tensors="pt")
vectors = model.get_text_features(inputs["input_ids"], inputs["attention_mask"]).pooler_output
"""
LOADING_IMAGES = """\
from PIL import Image

inputs = processor(images=[Image.open("dog.jpg")], return_tensors="pt")
vectors = model.get_image_features(inputs["pixel_values"]).pooler_output
"""
LOADING_SENTENCES = """\
from sentence_transformers import SentenceTransformer

vectors = SentenceTransformer("FOLDER").encode(["A dog runs."])
"""
ABOUT_MODEL = "A dual encoder trained on {}, as in Crisscrossed Captions (arXiv 2004.15020)."


def _describe(setup: Setup, identity: Settings, model: AnyModel) -> Trained:
    arguments, data, folder = setup.arguments.model, setup.arguments.data, Path(setup.arguments.training.output_dir)
    has_images = setup.arguments.has_image_tower
    towers = [arguments.text_model, *([arguments.image_model] if has_images else [])]
    started = towers if arguments.pretrained is None else [arguments.pretrained]
    without = set() if has_images else {"image_model"}
    unused = {*asdict(arguments)} - {"pretrained"} if arguments.pretrained else without
    images = sample_images() if data.images == SAMPLE else Path(data.images or ".")
    is_ours = isinstance(model, DualEncoderModel)
    is_clip = type(model.config) in MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING
    raw = ["--data-dir", data.data_dir] if data.data_dir else []
    shown = ["--images", data.images or "IMAGES"] if has_images else ["--only", "captions"]
    vectors, report = (str(folder.absolute() / name) for name in ("test.npz", REPORT_FOLDER))
    return Trained(
        kind="dual-encoder",
        about=" ".join(
            [ABOUT_MODEL.format(DESCRIBED[setup.arguments.mode]), *_describe_leaks(model, setup.library, data)]
        ),
        output=folder,
        model=folder,
        has_images=has_images or setup.features is not None,
        base_models=[name for name in started if name != SAMPLE and not Path(name).exists()],
        parts=data.train_on if data.pairs_file is None else (),
        settings=without_places({name: value for name, value in identity.items() if name not in unused}),
        loading=[
            LOADING.format(
                processor="AutoProcessor" if has_images else "AutoTokenizer",
                code=", trust_remote_code=True" if is_ours else "",
            ),
            *([LOADING_IMAGES] if has_images else []),
            *([LOADING_SENTENCES] if has_sentence_form(model) else []),
        ],
        # cxc-eccv encode does not join the vectors of images.
        scoring=[
            ["encode", "--model", str(folder), *shown, *raw, "--output", vectors],
            ["evaluate", vectors, *raw, "--output", report],
        ]
        if setup.features is None
        else (),
        library=setup.library,
        images=images if has_images else None,
        pipeline_tag="feature-extraction" if is_ours else "zero-shot-image-classification" if is_clip else None,
    )


def _describe_leaks(model: AnyModel, library: Library, data: DataArguments) -> list[str]:
    """Warnings that it, or the classifier that mined its weak positives, was trained on val or test data."""
    parts = parts_of(data.train_on) if data.weak_positives else []
    mined = [library.split(split, name).mined() for name, split in parts if split != ALL]
    records = [pairs.facts["classifier"].get("training_data") for pairs in mined if pairs is not None]
    cautions = [caution for record in records for caution in warn_of_training_data(record)]
    seen = warn_of_training_data(model.config.training_data, "{:,} images of {}")
    return [*seen, *(f"The classifier of its weak positives: {caution}" for caution in cautions)]


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
