"""What a training run came to: its steps, the step whose weights were kept, what chose it, and the options that ran."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformers import TrainerState, TrainingArguments

from cxc_eccv.report import Report
from cxc_eccv.studies.trainers.model_card import Settings

SCHEDULED = ("lr_scheduler_type", "lr_scheduler_kwargs", "warmup_steps")
"""Options of the schedules of transformers."""

STRATEGIES = {"eval_strategy": ("eval_steps", "eval_delay"), "save_strategy": ("save_steps",)}
"""Strategy to the options that it reads if it is ``steps``."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The weights that a run kept: those of step ``kept`` of ``steps``, and the metric that chose it on ``data``.

    Without a metric nothing was chosen, and the weights are those of the last step.
    """

    steps: int
    kept: int
    data: str
    metric: str | None = None
    value: float | None = None

    @classmethod
    def read(cls, state: TrainerState, training: TrainingArguments, data: str) -> Selection:
        """What Trainer recorded; ``data`` is what its evaluations score."""
        best = state.best_model_checkpoint
        if not training.load_best_model_at_end or best is None:
            return cls(state.global_step, state.global_step, data)
        kept = int(Path(best).name.partition("-")[2])
        return cls(state.global_step, kept, data, training.metric_for_best_model, state.best_metric)

    @property
    def settings(self) -> Settings:
        """The same for the table of a card, and for the provenance of a report."""
        facts: dict[str, Any] = {"steps_run": self.steps, "step_kept": self.kept}
        if self.metric is not None:
            facts |= {"selection_metric": self.metric, "selection_value": self.value, "selection_data": self.data}
        return facts

    def describe(self) -> str:
        """A sentence for the console and the card."""
        if self.metric is None:
            return f"Trained for {self.steps:,} steps; the weights are those of the last step."
        return (
            f"Trained for {self.steps:,} steps; the weights are those of step {self.kept:,}, which had the best "
            f"{self.metric} on {self.data}: {self.value:.4g}."
        )

    def doubt(self, report: Report) -> Report:
        """A report on the data that chose the weights, with a doubt that says so."""
        sentence = (
            f"{self.data} chose the weights (step {self.kept:,} of {self.steps:,}, by {self.metric}), so its scores "
            "are too high. Report on another split."
        )
        return replace(report, doubts={"selecting_split": sentence, **report.doubts})


def list_settings_that_ran(
    identity: Settings, training: TrainingArguments, state: TrainerState, *, has_schedule: bool = True
) -> Settings:
    """The options of a run as Trainer took them: without those that others override, with those that choose weights.

    ``has_schedule`` says whether the learning rate followed the schedule of the arguments.
    """
    settings = dict(identity)
    for name in () if has_schedule else SCHEDULED:
        settings.pop(name, None)
    if training.max_steps <= 0:
        settings.pop("max_steps", None)
    settings["num_train_epochs"] = round(float(state.epoch or 0), 4)
    settings["load_best_model_at_end"] = training.load_best_model_at_end
    for name, further in STRATEGIES.items():
        settings[name] = str(getattr(training, name).value)
        if settings[name] == "steps":
            settings |= {option: getattr(training, option) for option in further}
    return settings
