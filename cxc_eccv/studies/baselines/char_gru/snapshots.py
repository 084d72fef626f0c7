"""Snapshots of the model at the end of each cycle, and the choice among them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from transformers import TrainerCallback

from cxc_eccv.encoding import text_encoder
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.studies.trainers.caption_groups import CaptionGroup, held_out_recalls
from cxc_eccv.studies.trainers.image_features import ImageFeatures
from cxc_eccv.studies.trainers.tokens import AnyTokenizer, token_ids
from cxc_eccv.studies.trainers.trainer import AnyModel
from cxc_eccv.types import Embeddings
from cxc_eccv.writing import replaced_file

SNAPSHOTS = "snapshots"
SCORES = "snapshots.json"
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
        self.tokenizer = tokenizer
        self.features = features
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
        self.folder = folder / SNAPSHOTS
        self.cycle = cycle
        self.tokenizer = tokenizer

    def on_evaluate(self, args: Any, state: Any, control: Any, **others: Any) -> None:  # noqa: ANN401 - Trainer's
        """Save on the first process if a cycle ends; ``cycle`` is in steps."""
        if state.global_step % self.cycle or not state.is_world_process_zero:
            return
        name = f"step-{state.global_step:06d}"
        others["model"].save_pretrained(self.folder / name)
        self.tokenizer.save_pretrained(self.folder / name)
        scores = read_scores(self.folder) | {name: others["metrics"][f"eval_{SELECTION}"]}
        with replaced_file(self.folder / SCORES) as part:
            part.write_text(json.dumps(scores, indent=2) + "\n", encoding="utf-8")


def read_scores(folder: Path) -> dict[str, float]:
    """The name of every snapshot to the mean R@10 that it is chosen by."""
    path = folder / SCORES
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def best_snapshots(folder: Path, count: int = 2) -> list[Path]:
    """Folders of the snapshots with the highest scores, the best first; of equal ones the latest."""
    scores = read_scores(folder)
    ranked = sorted(scores, key=lambda name: (scores[name], name), reverse=True)
    return [folder / name for name in ranked[:count]]
