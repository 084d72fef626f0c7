"""Shared parts of the training scripts: command line from dataclasses, tokens, processes, epochs and checkpoints."""

from __future__ import annotations

import json
import logging
import math
import os
import time
import warnings
from argparse import SUPPRESS, RawDescriptionHelpFormatter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, cast

import torch
from torch import distributed
from torch.utils.data import DataLoader, Sampler
from transformers import (
    HfArgumentParser,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.trainer_utils import speed_metrics

from cxc_eccv.encoding.checkpoints import open_checkpoint
from cxc_eccv.errors import CheckpointMismatch, InvalidOption, ModelError
from cxc_eccv.studies.baselines.model_card import Settings
from cxc_eccv.terminal import say
from cxc_eccv.writing import resumable

# Our dual encoders and those of transformers share no type, nor do tokenizers and processors.
AnyModel = Any
AnyTokenizer = Any
Processing = Any

SHAPING = (
    "learning_rate",
    "lr_scheduler_type",
    "lr_scheduler_kwargs",
    "warmup_steps",
    "optim",
    "adam_beta1",
    "adam_beta2",
    "adam_epsilon",
    "max_grad_norm",
    "weight_decay",
    "per_device_train_batch_size",
    "dataloader_drop_last",
    "gradient_accumulation_steps",
    "num_train_epochs",
    "max_steps",
    "seed",
    "data_seed",
    "bf16",
    "fp16",
    "world_size",
)
"""Training arguments that the weights depend on."""


def identify_run(
    arguments: Sequence[Any], training: TrainingArguments, names: Sequence[str], unused: Collection[str]
) -> Settings:
    """The options of dataclasses that weights depend on, without the unused ones, and these names of the training."""
    options = {key: value for kind in arguments for key, value in asdict(kind).items() if key not in unused}
    shaping = {key: getattr(training, key) for key in (*SHAPING, *names)}
    identity: Settings = json.loads(json.dumps({**options, **shaping}))
    return identity


def token_ids(tokenizer: AnyTokenizer, texts: Sequence[str], kind: str = "captions") -> list[list[int]]:
    """Token ids of every text, truncated to the tokenizer's ``model_max_length``; the first process counts them."""
    whole: list[list[int]] = tokenizer(list(texts), return_attention_mask=False, verbose=False)["input_ids"]
    context = int(tokenizer.model_max_length)
    longer = [row for row, ids in enumerate(whole) if len(ids) > context]
    if longer:
        if process_rank() == 0:
            message = f"{len(longer)} of {len(whole)} {kind} exceed the context of {context} tokens and are truncated"
            warnings.warn(message, stacklevel=2)
        cut = tokenizer([texts[row] for row in longer], return_attention_mask=False, truncation=True)["input_ids"]
        for row, ids in zip(longer, cut, strict=True):
            whole[row] = ids
    return whole


def process_count() -> int:
    """Number of processes of this run; 1 without torchrun."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def process_rank() -> int:
    """Number of this process, from 0."""
    return distributed.get_rank() if process_count() > 1 else 0


class _AllGather(torch.autograd.Function):
    """Concatenates the values of all processes; the gradient of this process's part is summed over them."""

    @staticmethod
    def forward(_context: Any, values: torch.Tensor) -> torch.Tensor:  # noqa: ANN401 - autograd's own
        parts = [torch.empty_like(values) for _ in range(process_count())]
        distributed.all_gather(parts, values)
        return torch.cat(parts)

    @staticmethod
    def backward(_context: Any, gradient: torch.Tensor) -> torch.Tensor:  # noqa: ANN401 - autograd's own
        total = gradient.clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(total)
        return total.chunk(process_count())[process_rank()]


def gather(values: torch.Tensor) -> torch.Tensor:
    """(processes x K, ...) the (K, ...) values of all processes, by rank, to use as negatives everywhere.

    Gradients from the losses of other processes are summed; data-parallel training then averages over processes, so
    training on K rows per process equals training on all rows in one process. K must be equal on all processes.
    """
    if process_count() == 1:
        return values
    gathered: torch.Tensor = _AllGather.apply(values.contiguous())  # type: ignore[no-untyped-call] # torch's own
    return gathered


def option(default: Any, text: str, *, aliases: Sequence[str] = ()) -> Any:  # noqa: ANN401 - as of dataclasses.field
    """A field of such a dataclass, with its default and its help; lists are copied for each instance."""
    metadata = {"help": text, **({"aliases": list(aliases)} if aliases else {})}
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


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
        args, seed = self.args, self.args.seed if self.args.data_seed is None else self.args.data_seed
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
class ScriptArguments(TrainingArguments):
    """``TrainingArguments`` with the defaults of the scripts."""

    _argument_group_name = "training"

    dataloader_num_workers: int | None = option(  # type: ignore[assignment] # Trainer sees a number
        None, "Processes that load images. Default: one a core, at most 8; 0 for few images, or none."
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
        """Raise InvalidOption for the path of a checkpoint, which these scripts find by themselves."""
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
        self._workers_are_open = self.dataloader_num_workers is None
        if self.dataloader_num_workers is None:
            self.dataloader_num_workers = 0
        if getattr(self, "activation_checkpointing", False) is None:  # its newer name, which warns of the older
            self.activation_checkpointing = self.gradient_checkpointing
        super().__post_init__()  # type: ignore[no-untyped-call] # transformers' own

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


def train_resumably(trainer: Trainer, identity: Settings) -> None:
    """Train from the newest checkpoint of the run with this ``identity``, if any."""
    output = str(trainer.args.output_dir)
    checkpoint = last_checkpoint(Path(output), identity, is_first=trainer.is_world_process_zero())
    if checkpoint is not None and trainer.is_world_process_zero():
        say(f"continuing from {checkpoint}", err=True)
    with resumable(f"Checkpoints saved so far are in {output}; the same command continues from the last one."):
        trainer.train(resume_from_checkpoint=checkpoint)


SHARDS = ("pytorch_model_fsdp_*", "global_step*")
"""Folders of a checkpoint with the parts of its processes: FSDP's and DeepSpeed's."""

PER_PROCESS = ("world_size", "per_device_train_batch_size")
"""Training arguments that may change together when a run resumes."""


def last_checkpoint(folder: Path, identity: Settings, *, is_first: bool = True) -> str | None:
    """The newest complete checkpoint of a run, or None.

    The first process says if the number of processes changed. CheckpointMismatch if the run had another ``identity``,
    or if FSDP or DeepSpeed split the newest checkpoint.
    """
    record = folder / "run.json"
    checkpoints = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.partition("-")[2]))
    # The state is written last.
    complete = [path for path in checkpoints if (path / "trainer_state.json").is_file()]
    change = _compare_runs(record, identity) if checkpoints else None
    if checkpoints:
        _refuse_shards(checkpoints[-1])
    if is_first and (change or not checkpoints):
        folder.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps(identity, indent=1), encoding="utf-8")
    if is_first and change:
        say(change, err=True)
    for path in checkpoints:
        if path not in complete:
            warnings.warn(f"{path} is incomplete and is ignored", stacklevel=2)
    return str(complete[-1]) if complete else None


def _refuse_shards(checkpoint: Path) -> None:
    shards = [path.name for pattern in SHARDS for path in checkpoint.glob(pattern)]
    if shards:
        raise CheckpointMismatch(
            f"{checkpoint} is split among processes by FSDP or DeepSpeed ({shards[0]}) and cannot be resumed. Merge "
            "its weights with accelerate merge-weights, or its zero_to_fp32.py, and start a new run from them with "
            "--pretrained and another --output-dir"
        )


def _compare_runs(record: Path, identity: Settings) -> str | None:
    """What another number of processes changes, or None if it is the same; CheckpointMismatch for another run."""
    then = json.loads(record.read_text(encoding="utf-8")) if record.is_file() else {}
    moved = bool(then) and then.get("world_size") != identity.get("world_size")
    compared = {*then, *identity} - {*(PER_PROCESS if moved else ())}
    different = [key for key in sorted(compared) if then.get(key) != identity.get(key)]
    if different:
        key, more = different[0], len(different) - 1
        change = f"{key} was {then.get(key)!r} and is {identity.get(key)!r}"
        others = f", and {more} more arguments differ" if more else ""
        raise CheckpointMismatch(
            f"{record.parent} has checkpoints of another run: {change}{others}. Repeat its arguments to resume it, or "
            "choose another --output-dir."
        )
    if not moved:
        return None
    before, after = (math.prod(run[key] for key in PER_PROCESS) for run in (then, identity))
    batch = (
        f"a batch still has {after} items, and only dropout is drawn anew"
        if before == after
        else f"a batch has {after} items in place of {before}, so an epoch has another number of steps, and some items "
        "of this one are drawn twice or never"
    )
    return f"this run had {then['world_size']} processes and has {identity['world_size']}: {batch}"


FURTHER_OPTIONS = (
    "Every option of transformers' TrainingArguments works too, such as\n--max-steps, --logging-steps, --bf16,"
    " --gradient-checkpointing and --seed:\nhttps://huggingface.co/docs/transformers/main_classes/trainer"
)

NAMES: Mapping[Any, str] = {int: "INT", float: "FLOAT"}
"""Types of options to their names in the help."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The options of ``cxc-eccv train NAME``: dataclasses, whose ``_argument_group_name`` is their heading.

    ``presets`` maps the names for ``--preset`` to new defaults of options.
    """

    name: str
    kinds: Sequence[type]
    presets: Mapping[str, Settings] = field(default_factory=dict)

    def read(self, command: Sequence[str]) -> tuple[Any, ...]:
        """Parse a command line into one dataclass of each kind."""
        parser = HfArgumentParser(
            list(self.kinds),  # type: ignore[arg-type] # its annotation only allows instances
            prog=f"cxc-eccv train {self.name}",
            usage=SUPPRESS,  # the command prints it
            epilog=FURTHER_OPTIONS if any(issubclass(kind, TrainingArguments) for kind in self.kinds) else None,
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,  # as in all commands
        )
        self._describe_options(parser)
        preset = parser.parse_known_args(list(command))[0].preset if self.presets else None
        if preset is not None:
            parser.set_defaults(**self.presets[preset])
        *arguments, unknown = parser.parse_args_into_dataclasses(list(command), return_remaining_strings=True)
        if unknown:
            parser.error(f"unknown options: {' '.join(unknown)}; --help lists the options")
        return tuple(arguments)

    def _describe_options(self, parser: HfArgumentParser) -> None:
        """Hide what transformers declares, show an option once, and its default unless its help has it."""
        shared = {one.name: one for one in fields(TrainingArguments)}
        declared = {one.name: one for kind in self.kinds for one in fields(kind)}
        for action in parser._actions:
            one = declared.get(action.dest)
            if one is None:
                continue
            if one is shared.get(one.name) or "help" not in one.metadata:
                action.help = SUPPRESS
                continue
            action.option_strings = [flag for flag in action.option_strings if "_" not in flag]
            action.metavar = (
                None if action.choices else "BOOL" if action.nargs == "?" else NAMES.get(action.type, "TEXT")
            )
            if action.default not in (None, False, []) and "efault: " not in str(action.help):
                shown = " ".join(map(str, action.default)) if isinstance(action.default, list) else action.default
                action.help = f"{action.help} Default: {shown}."
