"""A snapshot of the model at the end of every cycle, with its score on the held-out captions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from cxc_eccv.errors import DataError

__all__ = ["SnapshotCallback", "best_snapshots", "read_scores"]

SCORES = "snapshots.json"


class SnapshotCallback(TrainerCallback):
    """Saves model and tokenizer where the learning rate is lowest, and writes down how good they are.

    Args:
        folder: each snapshot is ``folder/step-N``; scores are in ``folder/snapshots.json``.
        cycle: optimiser steps of a cycle.
        score: a model to its score on held-out captions, higher is better.
        tokenizer: saved along.
    """

    def __init__(self, folder: Path, cycle: int, score: Callable[[Any], float], tokenizer: Any) -> None:  # noqa: ANN401
        self.folder, self.cycle, self.score, self.tokenizer = folder, cycle, score, tokenizer

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:  # noqa: ANN401
        """Where a cycle ends, save and score."""
        if state.global_step % self.cycle or not state.is_world_process_zero:
            return
        name = f"step-{state.global_step:06d}"
        model.save_pretrained(self.folder / name)
        self.tokenizer.save_pretrained(self.folder / name)
        scores = read_scores(self.folder) | {name: self.score(model)}
        (self.folder / SCORES).write_text(json.dumps(scores, indent=2) + "\n", encoding="utf-8")
        print(f"{name}: held-out text-text R@10 {100 * scores[name]:.1f}", flush=True)  # noqa: T201 - the run's log


def read_scores(folder: Path) -> dict[str, float]:
    """Name of each snapshot to its score; empty before the first."""
    path = folder / SCORES
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def best_snapshots(folder: Path, count: int = 2) -> list[Path]:
    """Folders of the snapshots with the highest scores, the best first; of equal ones the later.

    Raises:
        DataError: there are fewer.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / SCORES).write_text('{"step-000004": 0.2, "step-000008": 0.4, "step-000012": 0.3}')
        >>> [path.name for path in best_snapshots(folder)]
        ['step-000008', 'step-000012']
    """
    scores = read_scores(folder)
    if len(scores) < count:
        raise DataError(f"{folder} holds {len(scores)} scored snapshots, {count} are asked for; train for more cycles")
    ranked = sorted(scores, key=lambda name: (scores[name], name), reverse=True)
    return [folder / name for name in ranked[:count]]
