"""Training that continues from the last checkpoint of the same run."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any

from transformers import Trainer, TrainingArguments

from cxc_eccv.errors import CheckpointMismatch
from cxc_eccv.studies.trainers.model_card import Settings
from cxc_eccv.terminal import say
from cxc_eccv.writing import refuse_foreign, resumable

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
"""Options of transformers that the weights depend on."""


def identify_run(*options: Any) -> Settings:  # noqa: ANN401 - dataclasses of options
    """The options that shape a run: those of ``option(shapes=True)``, and some of transformers' TrainingArguments."""
    shaping: dict[str, Any] = {}
    for each in options:
        shaping |= {name: getattr(each, name) for name in _list_shaping(type(each))}
    identity: Settings = json.loads(json.dumps(shaping))
    return identity


def _list_shaping(kind: Any) -> list[str]:  # noqa: ANN401 - a dataclass
    """The names of the options of a dataclass that shape a run."""
    if not issubclass(kind, TrainingArguments):
        return [one.name for one in fields(kind) if one.compare]
    inherited = {one.name for one in fields(TrainingArguments)}
    return [*SHAPING, *(one.name for one in fields(kind) if one.compare and one.name not in inherited)]


def train_resumably(trainer: Trainer, identity: Settings) -> None:
    """Train from the newest checkpoint of the run with this ``identity``, if any."""
    output = str(trainer.args.output_dir)
    checkpoint = last_checkpoint(Path(output), identity, is_first=trainer.is_world_process_zero())
    if checkpoint is not None and trainer.is_world_process_zero():
        say(f"continuing from {checkpoint}", err=True)
    with resumable(f"Checkpoints saved so far are in {output}; the same command continues from the last one."):
        trainer.train(resume_from_checkpoint=checkpoint)


RECORD = "run.json"
"""The file beside checkpoints that says which run they are of."""

MODEL_FILES = (
    "config.json",
    "adapter_config.json",
    "modules.json",
    "*.safetensors",
    "pytorch_model*.bin",
    "tokenizer*",
    "vocab*",
    "*processor_config.json",
)
"""Names of files of models, which training writes."""


def find_model_files(folder: Path) -> list[str]:
    """The names of the files of a model in a folder, sorted."""
    return sorted({path.name for pattern in MODEL_FILES for path in folder.glob(pattern)})


def refuse_users_model(folder: Path, record: Path | None = None) -> None:
    """Refuse to train into a folder with a model, or with checkpoints, of which no run of ours is recorded.

    ``record`` is the run's record, by default ``run.json`` in the folder.
    """
    record = folder / RECORD if record is None else record
    if record.is_file():
        return
    if any(record.parent.glob("checkpoint-*")):
        raise _without_record(record)
    files = find_model_files(folder)
    refuse_foreign(folder, files, (), "recorded training run", "Move them away, or choose another --output-dir")


def _without_record(record: Path) -> CheckpointMismatch:
    return CheckpointMismatch(
        f"{record.parent} has checkpoints, but no {RECORD}, which says which run they are of. Put the file back to "
        "resume the run, or choose another --output-dir"
    )


SHARDS = ("pytorch_model_fsdp_*", "global_step*")
"""Folders of a checkpoint with the parts of its processes: FSDP's and DeepSpeed's."""

PER_PROCESS = ("world_size", "per_device_train_batch_size")
"""Training arguments that may change together when a run resumes."""


def last_checkpoint(folder: Path, identity: Settings, *, is_first: bool = True) -> str | None:
    """The newest complete checkpoint of a run, or None.

    The first process says if the number of processes changed. CheckpointMismatch if the run whose checkpoints or model
    are there had another ``identity`` or is not recorded, or if FSDP or DeepSpeed split the newest checkpoint.
    """
    record = folder / RECORD
    checkpoints = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.partition("-")[2]))
    # The state is written last.
    complete = [path for path in checkpoints if (path / "trainer_state.json").is_file()]
    has_result = bool(checkpoints) or (record.is_file() and bool(find_model_files(folder)))
    change = _compare_runs(record, identity) if has_result else None
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
    if not record.is_file():
        raise _without_record(record)
    then = json.loads(record.read_text(encoding="utf-8"))
    moved = then.get("world_size") != identity.get("world_size")
    compared = {*then, *identity} - {*(PER_PROCESS if moved else ())}
    different = [key for key in sorted(compared) if then.get(key) != identity.get(key)]
    if different:
        key = different[0]
        more = len(different) - 1
        change = f"{key} was {then.get(key)!r} and is {identity.get(key)!r}"
        others = f", and {more} more arguments differ" if more else ""
        raise CheckpointMismatch(
            f"{record.parent} has the checkpoints or the model of another run: {change}{others}. Repeat its arguments "
            "to resume it, or choose another --output-dir."
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
