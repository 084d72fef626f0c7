"""Snapshots with their scores, and the best of them as one model: the mean of their unit vectors."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel, TrainerCallback
from transformers.modeling_outputs import BaseModelOutputWithPooling

from cxc_eccv.baselines.char_gru.configuration import CharGruConfig
from cxc_eccv.baselines.char_gru.model import CharGruModel
from cxc_eccv.errors import DataError, InvalidOption

__all__ = [
    "SELECTION",
    "CharGruEnsemble",
    "CharGruEnsembleConfig",
    "EpochRecord",
    "best_snapshots",
    "read_curves",
    "read_scores",
]


class CharGruEnsembleConfig(PreTrainedConfig):
    """Configuration of an ensemble.

    Args:
        members: number of models.
        member: the configuration that they share, as a dictionary.
        **kwargs: what every configuration takes.
    """

    model_type = "cxc_eccv_char_gru_ensemble"

    def __init__(self, members: int = 2, member: dict[str, Any] | None = None, **kwargs: Any) -> None:  # noqa: ANN401
        self.members, self.member = members, member or {}
        super().__init__(**kwargs)

    @property
    def vocab_size(self) -> int:
        """Characters that every member embeds."""
        return int(CharGruConfig.from_dict(self.member).vocab_size)


class CharGruEnsemble(PreTrainedModel):
    """Members of one configuration; a vector is the mean of their unit vectors, at unit length again.

    Args:
        config: number and configuration of the members.

    References:
        Merkx and Frank 2019, arXiv:1903.11393, section 3.3; after Huang et al., Snapshot ensembles, ICLR 2017.
    """

    config_class = CharGruEnsembleConfig
    main_input_name = "input_ids"

    def __init__(self, config: CharGruEnsembleConfig) -> None:
        super().__init__(config)
        member = CharGruConfig.from_dict(config.member)
        self.members = nn.ModuleList([CharGruModel(member) for _ in range(config.members)])
        self.post_init()  # type: ignore[no-untyped-call] # as above

    @classmethod
    def of(cls, models: Sequence[CharGruModel]) -> CharGruEnsemble:
        """An ensemble of trained models, which it holds copies of.

        Raises:
            InvalidOption: no model, or configurations that differ.

        Example:
            >>> config = CharGruConfig(vocab_size=9, hidden_size=4, attention_size=3, image_feature_size=0)
            >>> len(CharGruEnsemble.of([CharGruModel(config), CharGruModel(config)]).members)
            2
        """
        shapes = [{name: tensor.shape for name, tensor in model.state_dict().items()} for model in models]
        if not models or any(shape != shapes[0] for shape in shapes):
            raise InvalidOption("an ensemble needs at least one model, and models of one configuration")
        ensemble = cls(CharGruEnsembleConfig(len(models), models[0].config.to_dict()))
        for member, model in zip(ensemble.members, models, strict=True):
            member.load_state_dict(model.state_dict())
        ensemble.train(mode=False)
        return ensemble

    def get_text_features(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> BaseModelOutputWithPooling:
        """As of a member."""
        return _mean([member.get_text_features(input_ids, attention_mask) for member in self._models])

    def get_image_features(self, image_features: Tensor) -> BaseModelOutputWithPooling:
        """As of a member."""
        return _mean([member.get_image_features(image_features) for member in self._models])

    @property
    def _models(self) -> list[CharGruModel]:
        return [member for member in self.members if isinstance(member, CharGruModel)]

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Members initialise themselves."""


def _mean(outputs: Sequence[BaseModelOutputWithPooling]) -> BaseModelOutputWithPooling:
    # transformers says that the field may be missing; our models always set it.
    given = [output.pooler_output for output in outputs if output.pooler_output is not None]
    vectors = torch.stack(given).mean(dim=0)
    return BaseModelOutputWithPooling(pooler_output=normalize(vectors, dim=-1))


AutoConfig.register(CharGruEnsembleConfig.model_type, CharGruEnsembleConfig, exist_ok=True)
AutoModel.register(CharGruEnsembleConfig, CharGruEnsemble, exist_ok=True)


SCORES = "snapshots.json"
CURVES = "curves.csv"
SELECTION = "selection"
"""Name of the measure that snapshots are selected by."""


class EpochRecord(TrainerCallback):
    """Measures the model after every epoch, and saves it with its tokenizer where the learning rate is lowest.

    Rows of ``curves.csv`` are ``epoch``, ``step`` and what was measured; epoch 0 is the untrained model. A run that
    goes on writes the epochs that it repeats anew.

    Args:
        folder: of the run: each snapshot is ``snapshots/step-N``, their scores are in ``snapshots/snapshots.json``.
        epoch_steps: optimiser steps of an epoch.
        cycle_epochs: epochs of a cycle.
        measure: a model to its measures, among them ``selection``, higher is better.
        tokenizer: saved along.
    """

    def __init__(
        self,
        folder: Path,
        epoch_steps: int,
        cycle_epochs: int,
        measure: Callable[[Any], Mapping[str, float]],
        tokenizer: Any,  # noqa: ANN401 - untyped in transformers
    ) -> None:
        self.folder, self.epoch_steps, self.cycle_epochs = folder, epoch_steps, cycle_epochs
        self.measure, self.tokenizer = measure, tokenizer

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:  # noqa: ANN401
        """Measure the untrained model."""
        if state.global_step == 0 and state.is_world_process_zero:
            self._note(0, 0, self.measure(model))

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:  # noqa: ANN401
        """Where an epoch ends, measure; where a cycle ends, save as well."""
        epoch, within = divmod(state.global_step, self.epoch_steps)
        if within or not state.is_world_process_zero:
            return
        found = self.measure(model)
        self._note(epoch, state.global_step, found)
        if epoch % self.cycle_epochs == 0:
            self._save(f"step-{state.global_step:06d}", model, found[SELECTION])

    def _note(self, epoch: int, step: int, found: Mapping[str, float]) -> None:
        row = {"epoch": str(epoch), "step": str(step), **{name: f"{value:.6f}" for name, value in found.items()}}
        kept = [known for known in read_curves(self.folder) if int(known["epoch"]) < epoch]
        _write_curves(self.folder, [*kept, row])
        print(f"epoch {epoch}: R@10 {100 * found[SELECTION]:.1f} on the selection images", flush=True)  # noqa: T201

    def _save(self, name: str, model: Any, score: float) -> None:  # noqa: ANN401
        folder = self.folder / "snapshots"
        model.save_pretrained(folder / name)
        self.tokenizer.save_pretrained(folder / name)
        _replace(folder / SCORES, json.dumps(read_scores(folder) | {name: score}, indent=2) + "\n")


def read_curves(folder: Path) -> list[dict[str, str]]:
    """The rows of a run's ``curves.csv``, by epoch; empty before the first."""
    path = folder / CURVES
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


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


def _write_curves(folder: Path, rows: Sequence[Mapping[str, str]]) -> None:
    columns = dict.fromkeys(name for row in rows for name in row)
    lines = [",".join(columns), *(",".join(row.get(name) or "" for name in columns) for row in rows)]
    _replace(folder / CURVES, "\n".join(lines) + "\n")


def _replace(path: Path, text: str) -> None:
    """A run that is killed while it writes leaves the file as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
