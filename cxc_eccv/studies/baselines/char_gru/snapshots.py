"""Snapshots of a run: measure the model after every epoch, save it after every cycle, and choose the best."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm
from transformers import TrainerCallback

from cxc_eccv.encoding import text_encoder
from cxc_eccv.metrics.recall_at_k import recall_at_k
from cxc_eccv.ranking import positive_ranks
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.studies.baselines.caption_groups import CaptionGroup, link_judgments
from cxc_eccv.studies.baselines.char_gru.data import ImageFeatures
from cxc_eccv.studies.baselines.training import AnyModel, AnyTokenizer, token_ids
from cxc_eccv.types import Embeddings
from cxc_eccv.writing import replaced_file

SCORES = "snapshots.json"
CURVES = "curves.csv"
SELECTION = "selection"
DEPTHS = (1, 5, 10)


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
        owners = np.repeat(np.arange(len(groups)), [len(group.texts) for group in groups])
        directions = ("t2t",) if features is None else ("i2t", "t2i")
        self.judgments = {direction: link_judgments(owners, direction) for direction in directions}
        self.tokenizer, self.features = tokenizer, features
        self.image_ids = np.array([group.image_id for group in groups], dtype=np.int64)

    def __call__(self, model: AnyModel) -> dict[str, float]:
        """Name to value, as fractions."""
        was_training = model.training
        encoder = text_encoder(model, processor=self.tokenizer, batch_size=256)
        images = None
        if self.features is not None:
            images = Embeddings(np.arange(self.image_ids.size), self.features.encode(model, self.image_ids))
        run = EmbeddingsRun(images, Embeddings(np.arange(len(self.texts)), encoder(self.texts)))
        recalls: dict[str, float] = {}
        for direction, judgments in self.judgments.items():
            ranks = positive_ranks(run, judgments, direction)
            recalls |= {f"{direction}/recall_at_{k}": float(recall_at_k(ranks, k=k).mean()) for k in DEPTHS}
        selection = float(np.mean([recalls[f"{direction}/recall_at_10"] for direction in self.judgments]))
        model.train(was_training)
        return {SELECTION: selection, **recalls}


class EpochRecord(TrainerCallback):
    """Writes measures after every epoch to ``curves.csv``, and saves a snapshot at the end of every cycle."""

    def __init__(
        self,
        folder: Path,
        epoch_steps: int,
        cycle_epochs: int,
        measure: Callable[[Any], Mapping[str, float]],
        tokenizer: AnyTokenizer,
    ) -> None:
        self.folder, self.epoch_steps, self.cycle_epochs = folder, epoch_steps, cycle_epochs
        self.measure, self.tokenizer = measure, tokenizer

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:  # noqa: ANN401
        """Measure the untrained model."""
        if state.global_step == 0 and state.is_world_process_zero:
            self._note(0, 0, self.measure(model))

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:  # noqa: ANN401
        """Measure at the end of an epoch; save at the end of a cycle."""
        epoch, within = divmod(state.global_step, self.epoch_steps)
        if within or not state.is_world_process_zero:
            return
        measures = self.measure(model)
        self._note(epoch, state.global_step, measures)
        if epoch % self.cycle_epochs == 0:
            self._save(f"step-{state.global_step:06d}", model, measures[SELECTION])

    def _note(self, epoch: int, step: int, measures: Mapping[str, float]) -> None:
        row = {"epoch": str(epoch), "step": str(step), **{name: f"{value:.6f}" for name, value in measures.items()}}
        rows = [*(known for known in read_curves(self.folder) if int(known["epoch"]) < epoch), row]
        columns = dict.fromkeys(name for line in rows for name in line)
        with replaced_file(self.folder / CURVES) as part, part.open("w", encoding="utf-8", newline="") as lines:
            writer = csv.DictWriter(lines, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        tqdm.write(f"epoch {epoch}: R@10 {100 * measures[SELECTION]:.1f} on the selection images")

    def _save(self, name: str, model: AnyModel, score: float) -> None:
        folder = self.folder / "snapshots"
        model.save_pretrained(folder / name)
        self.tokenizer.save_pretrained(folder / name)
        scores = _read_scores(folder) | {name: score}
        with replaced_file(folder / SCORES) as part:
            part.write_text(json.dumps(scores, indent=2) + "\n", encoding="utf-8")


def read_curves(folder: Path) -> list[dict[str, str]]:
    """The rows of a run's ``curves.csv``, by epoch; empty before the first."""
    path = folder / CURVES
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def _read_scores(folder: Path) -> dict[str, float]:
    path = folder / SCORES
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def best_snapshots(folder: Path, count: int = 2) -> list[Path]:
    """Folders of the snapshots with the highest scores, the best first; of equal ones the latest."""
    scores = _read_scores(folder)
    ranked = sorted(scores, key=lambda name: (scores[name], name), reverse=True)
    return [folder / name for name in ranked[:count]]
