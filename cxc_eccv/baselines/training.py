"""What the training scripts share: the command line, tokens, processes, epochs, and going on from a checkpoint."""

from __future__ import annotations

import json
import math
import warnings
from argparse import Action, ArgumentDefaultsHelpFormatter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import distributed
from torch.distributed.nn.functional import all_gather
from transformers import HfArgumentParser, TrainerCallback

from cxc_eccv.errors import CheckpointMismatch, InvalidOption, UnknownName

__all__ = [
    "EpochCallback",
    "gather",
    "last_checkpoint",
    "process_count",
    "process_rank",
    "read_arguments",
    "token_ids",
]

CHECKPOINT_FILES = ("trainer_state.json", "optimizer.pt", "scheduler.pt", "model.safetensors")
"""Files of a checkpoint; the state is written last."""


def read_arguments(
    name: str,
    about: str,
    kinds: Sequence[type],
    command: Sequence[str],
    presets: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> tuple[Any, ...]:
    """One dataclass of each kind, filled in from the command line of ``cxc-eccv train NAME``; ``--help`` ends it.

    A dataclass's ``_argument_group_name`` is the heading of its options. ``presets`` are what ``--preset`` may name, to
    the options that stand where the command does not name them; UnknownName for any other.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Arguments:
        ...     epochs: int = 3
        >>> read_arguments("my-model", "Train it.", [Arguments], ["--epochs", "5"])
        (Arguments(epochs=5),)
    """
    parser = HfArgumentParser(
        list(kinds),  # type: ignore[arg-type] # its annotation knows instances alone
        prog=f"cxc-eccv train {name}",
        usage="%(prog)s [OPTIONS]",  # over a hundred options on one line help nobody
        description=about,
        formatter_class=_DefaultsHelp,
    )
    preset = parser.parse_known_args(list(command))[0].preset if presets else None
    if preset is not None:
        if preset not in presets:
            raise UnknownName("preset", preset, presets)
        parser.set_defaults(**presets[preset])
    *found, unknown = parser.parse_args_into_dataclasses(list(command), return_remaining_strings=True)
    if unknown:
        parser.error(f"unknown: {' '.join(unknown)}; --help lists the options")
    return tuple(found)


class _DefaultsHelp(ArgumentDefaultsHelpFormatter):
    """Tells the defaults that there are: None and an empty list say nothing to a user."""

    def _get_help_string(self, action: Action) -> str | None:
        return action.help if action.default in (None, []) else super()._get_help_string(action)


def token_ids(tokenizer: Any, texts: Sequence[str], kind: str = "captions") -> list[list[int]]:  # noqa: ANN401 - tokenizers share no type
    """Token ids of every text, cut to the tokenizer's ``model_max_length``; the first process warns of how many."""
    whole: list[list[int]] = tokenizer(list(texts), return_attention_mask=False, verbose=False)["input_ids"]
    context = int(tokenizer.model_max_length)
    longer = [row for row, ids in enumerate(whole) if len(ids) > context]
    if longer:
        message = f"{len(longer)} of {len(whole)} {kind} are longer than the context of {context} tokens and are cut"
        if process_rank() == 0:
            warnings.warn(message, stacklevel=2)
        cut = tokenizer([texts[row] for row in longer], return_attention_mask=False, truncation=True)["input_ids"]
        for row, ids in zip(longer, cut, strict=True):
            whole[row] = ids
    return whole


def process_count() -> int:
    """Processes of this run; 1 without torchrun."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def process_rank() -> int:
    """Number of this process, from 0."""
    return distributed.get_rank() if process_count() > 1 else 0


def gather(values: torch.Tensor) -> torch.Tensor:
    """(processes x K, ...) the (K, ...) values of all processes, by rank, so that each serves the others as negatives.

    The gradient of what other processes compute from this process's values is summed into them. As data-parallel
    training averages gradients over processes, K rows of loss per process train exactly as all rows on one would.
    InvalidOption where K differs.
    """
    if process_count() == 1:
        return values
    sizes = [torch.zeros(1, dtype=torch.long, device=values.device) for _ in range(process_count())]
    distributed.all_gather(sizes, torch.tensor([len(values)], device=values.device))
    if len({int(size) for size in sizes}) > 1:
        raise InvalidOption(f"batches of {[int(size) for size in sizes]} items on the processes; they must be equal")
    if values.requires_grad:
        return torch.cat(all_gather(values))
    parts = [torch.empty_like(values) for _ in range(process_count())]
    distributed.all_gather(parts, values.contiguous())
    return torch.cat(parts)


class EpochCallback(TrainerCallback):
    """Tells a sampler its ``epoch``, also in a run that goes on in the middle of one."""

    def __init__(self, sampler: Any) -> None:  # noqa: ANN401 - samplers with an epoch share no type
        self.sampler = sampler

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:  # noqa: ANN401 - Trainer's
        """Where an epoch begins, before its first batch is drawn."""
        self.sampler.epoch = math.floor((state.epoch or 0) + 1e-6)


def last_checkpoint(folder: Path, identity: dict[str, Any], *, is_first: bool = True) -> str | None:
    """The newest complete checkpoint below a run's folder, or None; the first process notes down whose folder it is.

    ``identity`` is what the weights of the run depend on; CheckpointMismatch names what was different in the run that
    the folder is of. A checkpoint that was being written as that run was interrupted is left aside, with a warning.
    """
    checkpoints = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.partition("-")[2]))
    record = folder / "run.json"
    if checkpoints:
        _refuse_another_run(record, identity)
    elif is_first:
        folder.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps(identity, indent=1), encoding="utf-8")
    complete = [path for path in checkpoints if all((path / name).is_file() for name in CHECKPOINT_FILES)]
    for path in checkpoints:
        if path not in complete:
            warnings.warn(f"{path} is incomplete and is left aside", stacklevel=2)
    return str(complete[-1]) if complete else None


def _refuse_another_run(record: Path, identity: dict[str, Any]) -> None:
    then = json.loads(record.read_text(encoding="utf-8")) if record.is_file() else {}
    different = [key for key in sorted({*then, *identity}) if then.get(key) != identity.get(key)]
    if different:
        key, more = different[0], len(different) - 1
        change = f"{key} was {then.get(key)!r} and is {identity.get(key)!r}"
        others = f", and {more} more arguments differ" if more else ""
        raise CheckpointMismatch(
            f"{record.parent} is of another run: {change}{others}. Repeat its arguments to go on, or choose another "
            "--output_dir."
        )
