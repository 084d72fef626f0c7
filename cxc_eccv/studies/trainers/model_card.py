"""What a training run came to, and the card of its model: description, results, training and use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from huggingface_hub import EvalResult, ModelCardData

from cxc_eccv import version
from cxc_eccv.extras import name_requirement
from cxc_eccv.hub import find_benchmark
from cxc_eccv.hub.card import CARD_FILE, join_card, merge_card
from cxc_eccv.hub.leaderboard import LEADERBOARD_NAME, leaderboard_tasks
from cxc_eccv.presentation import ShownResult
from cxc_eccv.registry import tasks
from cxc_eccv.report import Report
from cxc_eccv.report.page_content import Page
from cxc_eccv.report.score_tables import list_tables
from cxc_eccv.sources.catalog import OFFICIAL
from cxc_eccv.tables import tables_to_markdown
from cxc_eccv.terminal import code_block, code_span, markdown_table, markdown_text
from cxc_eccv.wording import list_names
from cxc_eccv.writing import replaced_file

if TYPE_CHECKING:
    from transformers import TrainerState, TrainingArguments

    from cxc_eccv.sources.library import Library
    from cxc_eccv.types import FloatArray

OWNED = ("base_model", "datasets", "model-index")
"""Keys of the front matter that describe the run; others are kept as they are."""

CLASSIFIER = "entailment-classifier"

Settings = Mapping[str, Any]
"""Options of a run, or facts about its data, by name, as JSON holds them."""

MODEL_KINDS = {
    (False, True): "image-text-retrieval",
    (False, False): "text-retrieval",
    (True, True): "visual-entailment",
    (True, False): "textual-entailment",
}
"""(is a classifier, has images) to the kind of model."""


class ScoredPairs(NamedTuple):
    """A classifier's report on labelled pairs, their probabilities, and what writes both, given the command line."""

    report: ShownResult
    probabilities: FloatArray
    write: Callable[[Path, str | None], Sequence[Path]]


@dataclass(frozen=True, slots=True)
class Trained:
    """The result of a training run, for its report and its card.

    ``model`` is the folder of the model, ``output`` or one within it; ``loading`` is Python code that uses it without
    this package, with FOLDER for the model's folder; ``scoring`` are commands that score it. ``outcome`` are sentences
    about the steps, the choice of the weights and a collapse, for console and card. ``before`` is the report of the
    model that training started from.
    """

    kind: str
    about: str
    output: Path
    model: Path
    has_images: bool
    base_models: Sequence[str]
    parts: Sequence[str]
    settings: Settings
    loading: Sequence[str]
    scoring: Sequence[Sequence[str]]
    library: Library
    outcome: Sequence[str] = ()
    report: Report | None = None
    before: Report | None = None
    pairs: ScoredPairs | None = None
    images: Path | None = None
    push: Callable[[], Any] | None = None
    pipeline_tag: str | None = None

    @property
    def name(self) -> str:
        """The name of the model in reports: that of its folder."""
        return self.output.resolve().name

    def scored(self, report: Report, **others: Any) -> Trained:  # noqa: ANN401 - recorded as they are
        """The same with its report, whose provenance names the model and these facts."""
        others = {"training": dict(self.settings), **others}
        provenance = replace(report.provenance, model=self.name, others=others)
        return replace(self, report=replace(report, provenance=provenance))


def without_places(settings: Settings) -> Settings:
    """The settings that are not None, for publication: files and folders are reduced to their names.

    Example:
        >>> without_places({"pretrained": None, "seed": 0})
        {'seed': 0}
    """
    return {
        name: Path(value).name if isinstance(value, str) and os.sep in value and Path(value).exists() else value
        for name, value in settings.items()
        if value is not None
    }


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


def write_model_card(trained: Trained, command: str, scoring: str) -> Path:
    """Write ``README.md`` beside the model; text around the generated part is kept."""
    path = trained.model / CARD_FILE
    before = path.read_text(encoding="utf-8") if path.is_file() else None
    card = merge_card(_write_card(trained, command, scoring), before, OWNED, str(path))
    with replaced_file(path) as part:
        part.write_text(card, encoding="utf-8", newline="\n")
    return path


def _write_card(trained: Trained, command: str, scoring: str) -> str:
    folder = trained.model.resolve().name
    sections = [
        f"# {markdown_text(trained.name)}",
        trained.about,
        *_results(trained.report),
        *_pair_results(trained.pairs),
        "## Training",
        _data(trained),
        *map(markdown_text, trained.outcome),
        code_block(command, "sh"),
        f"Version {version.__version__} of `cxc_eccv`, seed {trained.settings['seed']}. All settings:",
        markdown_table(("option", "value"), _settings(trained)),
        "## Use",
        f"With the model's path or its name on the Hub for `{folder}`:",
        *(code_block(code.replace("FOLDER", folder).strip(), "python") for code in trained.loading),
        f"These commands compute its scores, after {_describe_installation()}:",
        code_block(scoring, "sh"),
    ]
    return join_card(_front_matter(trained), "\n\n".join(sections))


def _describe_installation() -> str:
    """How a reader of the card installs this package."""
    requirement = name_requirement("train")
    if requirement is None:
        return "`pip install '.[train]'` in a clone of cxc_eccv"
    return f"`pip install '{requirement}'`"


def _front_matter(trained: Trained) -> str:
    kind = MODEL_KINDS[trained.kind == CLASSIFIER, trained.has_images]
    parts = trained.parts if trained.library.edition == OFFICIAL else ()
    data = ModelCardData(
        language="en",
        license="unknown",
        library_name="transformers",
        pipeline_tag=trained.pipeline_tag,
        base_model=list(trained.base_models) or None,
        datasets=list(dict.fromkeys(part.partition("/")[0] for part in parts)) or None,
        tags=["cxc_eccv", trained.kind, kind],
        model_name=trained.name,
        eval_results=index_results(trained.report, kind) or None,
    )
    return str(data.to_yaml())


def index_results(report: Report | None, kind: str) -> list[EvalResult]:
    """The results for ``model-index``, each with the config of its labels; none that are not of the plain data."""
    if report is None or report.provenance.data.edition != OFFICIAL or report.departure:
        return []
    data = report.provenance.data
    configs = {key.rpartition("/")[0]: task.config for key, task in leaderboard_tasks().items()}
    known = tasks()
    common: dict[str, Any] = {
        "task_type": kind,
        "dataset_type": find_benchmark() or "cxc_eccv",
        "dataset_name": LEADERBOARD_NAME,
        "dataset_split": report.provenance.split,
        "dataset_args": {"version": data.version, "fingerprint": data.fingerprint},
    }
    index = []
    for result in report.results:
        config = configs.get(result.key.rpartition("/")[0])
        if config is None and result.task in known:
            config = known[result.task].config
        if config:
            index.append(
                EvalResult(
                    **common,
                    dataset_config=config,
                    metric_type=result.metric,
                    metric_name=result.key,
                    metric_value=result.value,
                )
            )
    return index


def _results(report: Report | None) -> Iterable[str]:
    if report is None:
        return
    data = report.provenance.data
    yield "## Results"
    yield (
        f"On {report.provenance.split}, version {markdown_text(data.version)} of the "
        f"{markdown_text(data.edition)} data."
    )
    yield tables_to_markdown(list_tables(Page(report))).strip()


def _pair_results(scored: ScoredPairs | None) -> Iterable[str]:
    if scored is not None:
        yield "## Results"
        yield tables_to_markdown([replace(scored.report.tables()[0], cautions=())]).strip()


def _data(trained: Trained) -> str:
    on = list_names(f"`{part}`" for part in trained.parts) if trained.parts else "custom data, named below"
    if trained.library.edition != OFFICIAL:
        on = f"the {markdown_text(trained.library.edition)} edition of the data"
    started = list_names(code_span(name) for name in trained.base_models)
    return f"Trained on {on}{f', from {started}' if started else ''}."


def _settings(trained: Trained) -> list[tuple[str, str]]:
    return [
        (code_span(name.replace("_", "-")), code_span(", ".join(value) if isinstance(value, list) else value))
        for name, value in sorted(trained.settings.items())
    ]
