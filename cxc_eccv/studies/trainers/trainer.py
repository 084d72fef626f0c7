"""The Trainer of the training scripts, its options, and the values of all its processes."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import distributed
from torch.utils.data import DataLoader, Sampler
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.trainer_utils import speed_metrics

from cxc_eccv.encoding.checkpoints import open_checkpoint
from cxc_eccv.encoding.processes import current_processes
from cxc_eccv.errors import InvalidOption, ModelError
from cxc_eccv.studies.trainers.options import option

# Our dual encoders and those of transformers share no type.
AnyModel = Any


def check_checkpointing(model: AnyModel, training: TrainingArguments) -> None:
    """Raise InvalidOption if ``--gradient-checkpointing`` does not reach a model, or a tower of it that is trained."""
    if not training.gradient_checkpointing:
        return
    towers = [tower for name, tower in model.named_children() if name.endswith("_model")]
    trained = [tower for tower in towers if any(weight.requires_grad for weight in tower.parameters())]
    reached = [any(isinstance(layer, GradientCheckpointingLayer) for layer in tower.modules()) for tower in trained]
    if not (model.supports_gradient_checkpointing and all(reached)):
        refused = trained[reached.index(False)] if model.supports_gradient_checkpointing else model
        raise InvalidOption(
            f"--gradient-checkpointing: {type(refused).__name__} has no layers that can compute their activations "
            "again. Give a transformer such as ViT, BERT or CLIP, or leave the option out"
        )


def _is_not_of_keys(record: logging.LogRecord) -> bool:
    """Whether a message of Trainer is not about the weights that it leaves out, which WholeTrainer reads."""
    return " keys in the checkpoint model" not in str(record.msg)


class WholeTrainer(Trainer):
    """A Trainer with its own evaluation and order of the training data, and complete loading of checkpoints.

    It stops if the loss is not finite; transformers' would log 0 and continue. ``save_pretrained`` writes some
    backbones' weights (ViT's) under old names, which transformers' Trainer leaves out and warns of.
    """

    def training_step(self, *arguments: Any, **options: Any) -> torch.Tensor:  # noqa: ANN401 - Trainer's own
        """Take a step as Trainer does; ModelError if the loss is not finite."""
        loss: torch.Tensor = super().training_step(*arguments, **options)
        if not loss.isfinite():
            raise ModelError(
                f"step {self.state.global_step + 1}: the loss is {loss.item():g}. Start a new run with a lower "
                "learning rate, with clipped gradients, or without --fp16"
            )
        return loss

    def measure(self) -> Mapping[str, float]:
        """The metrics of an evaluation; empty for none."""
        raise NotImplementedError

    def order(self, dataset: Any, seed: int) -> Sampler[Any]:  # noqa: ANN401 - datasets share no type
        """The sampler of the training data, with an attribute ``epoch``."""
        raise NotImplementedError

    def evaluate(self, *_arguments: Any, **_options: Any) -> dict[str, float]:  # noqa: ANN401 - as Trainer says
        """The metrics of :meth:`measure`, with the prefix ``eval_``."""
        started = time.time()
        metrics = {f"eval_{key}": value for key, value in self.measure().items()}
        if metrics:
            metrics |= speed_metrics("eval", started)
            self.log(metrics)
            self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Batches in the order of :meth:`order`, divided among the processes.

        Workers are not seeded from the generator that dropout draws from, so weights depend neither on their number nor
        on how often they start.
        """
        dataset: Any = self.train_dataset
        args = self.args
        seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
        sampler = self.order(dataset, seed)
        self.add_callback(EpochCallback(sampler))
        loader = DataLoader(
            dataset,
            batch_size=args.train_batch_size,
            sampler=sampler,
            collate_fn=self.data_collator,
            drop_last=args.dataloader_drop_last,
            num_workers=args.dataloader_num_workers,
            prefetch_factor=args.dataloader_prefetch_factor,
            persistent_workers=args.dataloader_persistent_workers,
            pin_memory=args.dataloader_pin_memory,
        )
        prepared: Any = self.accelerator.prepare(loader)
        prepared.base_dataloader.generator = torch.Generator()  # accelerate wraps torch's loader
        return cast("DataLoader[Any]", prepared)

    def train(self, resume_from_checkpoint: Any = None, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - Trainer's own
        """Train as Trainer does, and read all weights of the checkpoints that it begins and ends with."""
        if resume_from_checkpoint is not None:
            self.read_weights(resume_from_checkpoint)
        logger = logging.getLogger("transformers.trainer")
        logger.addFilter(_is_not_of_keys)
        try:
            output = super().train(resume_from_checkpoint, *arguments, **options)
        finally:
            logger.removeFilter(_is_not_of_keys)
        if self.args.load_best_model_at_end and self.state.best_model_checkpoint is not None:
            self.read_weights(self.state.best_model_checkpoint)
        return output

    def read_weights(self, checkpoint: str) -> None:
        """Read the weights of a checkpoint into the model."""
        model: Any = self.accelerator.unwrap_model(self.model)
        model.load_state_dict(open_checkpoint(type(model), checkpoint).state_dict())

    def create_model_card(self, *_arguments: Any, **_options: Any) -> None:  # noqa: ANN401 - as Trainer says
        """Do nothing: the command writes the card from the result."""


@dataclass
class TrainerOptions(TrainingArguments):
    """``TrainingArguments`` with the defaults of the scripts."""

    _argument_group_name = "training"

    dataloader_num_workers: int | None = option(  # type: ignore[assignment] # Trainer sees a number
        None, "Processes that load images. Default: one a core, at most 8; 0 for few images, or none.", shapes=False
    )
    dataloader_pin_memory: bool = field(default_factory=torch.cuda.is_available)
    remove_unused_columns: bool = False
    eval_strategy: str = "epoch"
    save_strategy: str = "epoch"
    logging_steps: float = 50
    load_best_model_at_end: bool = True
    report_to: str = "none"
    # A tower may get no gradient: BERT's unused pooler, or that of images in a batch of text. Several processes would
    # fail on it with checkpointed activations.
    ddp_find_unused_parameters: bool | None = True

    def __post_init__(self) -> None:
        self._workers_are_open = self.dataloader_num_workers is None
        if self.dataloader_num_workers is None:
            self.dataloader_num_workers = 0
        if getattr(self, "activation_checkpointing", False) is None:  # its newer name, which warns of the older
            self.activation_checkpointing = self.gradient_checkpointing
        super().__post_init__()  # type: ignore[no-untyped-call] # transformers' own

    def check(self) -> None:
        """Raise InvalidOption for options of transformers that these scripts do not go with."""
        if self.resume_from_checkpoint is not None:
            raise InvalidOption(
                "--resume-from-checkpoint is not supported: a run resumes from the newest checkpoint of its "
                "--output-dir; to start a new run from a checkpoint's weights, use --pretrained"
            )
        if self.auto_find_batch_size:
            raise InvalidOption(
                "--auto-find-batch-size is not supported, as the loss depends on the batch: lower "
                "--per-device-train-batch-size"
            )

    def choose_workers(self, images: int) -> None:
        """Set the number of workers, unless it is given, for so many images to decode in an epoch; they persist."""
        if self._workers_are_open and images >= FEW_IMAGES:
            self.dataloader_num_workers = min(8, count_cores())
        if self.dataloader_num_workers:
            self.dataloader_persistent_workers = True
            # Forked processes cannot use the tokenizer's threads; tokenizers warns unless it is told.
            os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


FEW_IMAGES = 1_000
"""Fewer images than this are decoded in the time that workers take to start."""


def count_cores() -> int:
    """Processor cores for this process: those that it may use, shared with the processes that torchrun starts here."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


class EpochCallback(TrainerCallback):
    """Sets the ``epoch`` of a sampler, also when a run resumes within an epoch."""

    def __init__(self, sampler: Any) -> None:  # noqa: ANN401 - samplers with an epoch share no type
        self.sampler = sampler

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:  # noqa: ANN401 - Trainer's
        """Set the epoch before its first batch is drawn."""
        self.sampler.epoch = math.floor((state.epoch or 0) + 1e-6)


class _AllGather(torch.autograd.Function):
    """Concatenates the values of all processes; the gradient of this process's part is summed over them."""

    @staticmethod
    def forward(_context: Any, values: torch.Tensor) -> torch.Tensor:  # noqa: ANN401 - autograd's own
        parts = [torch.empty_like(values) for _ in range(current_processes().count)]
        distributed.all_gather(parts, values)
        return torch.cat(parts)

    @staticmethod
    def backward(_context: Any, gradient: torch.Tensor) -> torch.Tensor:  # noqa: ANN401 - autograd's own
        total = gradient.clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(total)
        processes = current_processes()
        return total.chunk(processes.count)[processes.rank]


def gather(values: torch.Tensor) -> torch.Tensor:
    """(processes x K, ...) the (K, ...) values of all processes, by rank, to use as negatives everywhere.

    Gradients from the losses of other processes are summed; data-parallel training then averages over processes, so
    training on K rows per process equals training on all rows in one process. K must be equal on all processes.
    """
    if current_processes().count == 1:
        return values
    gathered: torch.Tensor = _AllGather.apply(values.contiguous())  # type: ignore[no-untyped-call] # torch's own
    return gathered
