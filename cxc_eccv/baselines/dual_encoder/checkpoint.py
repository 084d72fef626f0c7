"""Going on from the last checkpoint of an interrupted run, if it is of the same run."""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

from transformers import TrainingArguments

from cxc_eccv.baselines.dual_encoder.arguments import DataArguments, ModelArguments, ObjectiveArguments
from cxc_eccv.errors import CheckpointMismatch

__all__ = ["last_checkpoint", "run_identity"]

SHAPING = (
    "learning_rate",
    "schedule",
    "lr_scheduler_type",
    "warmup_steps",
    "optim",
    "adam_beta1",
    "adam_beta2",
    "adam_epsilon",
    "max_grad_norm",
    "weight_decay",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "num_train_epochs",
    "max_steps",
    "seed",
    "data_seed",
    "bf16",
    "fp16",
    "world_size",
)
"""Training arguments that the resulting weights depend on."""

NEEDED = ("trainer_state.json", "optimizer.pt", "scheduler.pt", "model.safetensors")
"""Files of a checkpoint; the state is written last."""

RECORD = "run.json"


def run_identity(
    model: ModelArguments, objective: ObjectiveArguments, data: DataArguments, training: TrainingArguments
) -> dict[str, Any]:
    """What the weights of a run depend on; where its data and images lie, and what is reported, do not count."""
    elsewhere = {"data_dir", "images", "report_on"}
    sought = {key: value for key, value in asdict(data).items() if key not in elsewhere}
    shaping = {key: getattr(training, key) for key in SHAPING}
    found: dict[str, Any] = json.loads(json.dumps({**asdict(model), **asdict(objective), **sought, **shaping}))
    return found


def last_checkpoint(folder: Path, identity: dict[str, Any], *, is_first: bool = True) -> str | None:
    """The newest complete checkpoint below a run's folder, or None; notes down whose folder it is.

    Args:
        folder: the run's output folder.
        identity: of the run, from :func:`run_identity`.
        is_first: this process writes.

    Raises:
        CheckpointMismatch: the folder holds checkpoints of a run with other arguments; names them.

    Warns:
        UserWarning: a checkpoint was being written when the run was interrupted, and is left aside.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> last_checkpoint(folder, {"seed": 1}) is None
        True
    """
    checkpoints = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.partition("-")[2]))
    record = folder / RECORD
    if checkpoints:
        _check(record, identity)
    elif is_first:
        folder.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps(identity, indent=1), encoding="utf-8")
    complete = [path for path in checkpoints if all((path / name).is_file() for name in NEEDED)]
    for path in checkpoints:
        if path not in complete:
            warnings.warn(f"{path} is incomplete and is left aside", stacklevel=2)
    return str(complete[-1]) if complete else None


def _check(record: Path, identity: dict[str, Any]) -> None:
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
