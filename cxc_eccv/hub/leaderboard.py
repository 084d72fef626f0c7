"""The leaderboard's tasks from the registry, and the ``eval.yaml`` that declares them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import yaml

from cxc_eccv.errors import HubError, UnknownName
from cxc_eccv.metrics.kinds import WholeMetric
from cxc_eccv.registry import metric_variants, tasks
from cxc_eccv.tasks.task import Task

RANKED_SPLIT = "test"
"""The only split that is ranked on the Hub."""


@dataclass(frozen=True, slots=True)
class LeaderboardTask:
    """A column of the leaderboard: its key in report.json, the config with its labels, whether it is a main metric."""

    key: str
    config: str
    main: bool

    @property
    def task_id(self) -> str:
        """Its name on the Hub."""
        return self.key.replace("/", "_")


TASK_ORDER = (
    "eccv_caption",
    "cxc",
    "coco_5k",
    "coco_1k",
    "plausible_match",
    "entailment",
    "cxc_rated",
    "co_captions",
)
"""The leaderboard's order of tasks, all others behind: the Hub opens it at the first task."""


@cache
def leaderboard_tasks() -> Mapping[str, LeaderboardTask]:
    """Report key to leaderboard task, for the default metrics of the test split, main metrics first.

    Tasks without a config are left out. So are metrics for which lower is better: ``eval.yaml`` cannot say so.
    """
    ranked = {name: task for name, task in tasks().items() if task.config and RANKED_SPLIT in task.splits}
    names = [name for name in TASK_ORDER if name in ranked]
    names += [name for name in ranked if name not in TASK_ORDER]
    entries: list[LeaderboardTask] = []
    for name in names:
        entries += _list_entries(ranked[name])
    entries.sort(key=lambda entry: not entry.main)
    return MappingProxyType({entry.key: entry for entry in entries})


def _list_entries(task: Task) -> Iterator[LeaderboardTask]:
    """Every metric of every part. If the task's main metric does not apply, the part's first metric is the main one."""
    metrics = [metric_variants(name) for name in task.metrics]
    metrics = [(spec, variants) for spec, variants in metrics if spec.higher_is_better]
    whole = [spec.name for spec, _ in metrics if isinstance(spec, WholeMetric)]
    for part in task.parts:
        labels: list[str] = []
        for spec, variants in metrics:
            if spec.reads in part.offers:
                labels += [spec.label(**parameters) for parameters in variants]
        main = task.main_metric
        if main not in labels and main not in whole:
            main = labels[0] if labels else ""
        config = part.name if part.rated else task.config
        for label in labels:
            yield LeaderboardTask(f"{task.name}/{part.name}/{label}", config, label == main)
    for name in whole:
        yield LeaderboardTask(f"{task.name}/{name}", task.config, name == task.main_metric)


def select_tasks(names: Iterable[str]) -> dict[str, tuple[LeaderboardTask, ...]]:
    """Names of tasks or of their directions, keys, or ids on the Hub, to the leaderboard tasks they name."""
    board = leaderboard_tasks().values()
    selected = {}
    for name in names:
        selected[name] = tuple(task for task in board if name == task.task_id or f"{task.key}/".startswith(f"{name}/"))
        if not selected[name]:
            # All keys are too many to read: suggest those of the task, or the tasks.
            keys = [task.key for task in board if task.key.partition("/")[0] == name.partition("/")[0]]
            task_names = sorted({task.key.partition("/")[0] for task in board})
            raise UnknownName("task of the leaderboard", name, keys or task_names)
    return selected


EVAL_YAML = "eval.yaml"

FRAMEWORK = "cxc_eccv"
"""The Hub accepts only the names of its list; a pull request there adds this one."""

FRAMEWORK_LIST = "https://github.com/huggingface/huggingface.js/blob/main/packages/tasks/src/eval.ts"
ACTIVATION = "https://huggingface.co/spaces/OpenEvals/README/discussions/2"
"""Where the Hub's documentation of evaluation results asks for new benchmarks to be named."""

LEADERBOARD_NAME = "CxC and ECCV Caption"
LEADERBOARD_DESCRIPTION = (
    "Image-caption retrieval on MS-COCO with the labels that correct its false negatives: Crisscrossed Captions, ECCV "
    "Caption, plausible match and the original links. Scores come from `cxc-eccv evaluate` and are submitted with "
    "`cxc-eccv submit`; higher is better everywhere. Recall, precision and correlation are fractions, RSUM is in "
    "percent."
)


def eval_yaml(configs: Collection[str]) -> str:
    """The text of ``eval.yaml``: the main tasks whose config is in ``configs``."""
    tasks = [
        {"id": task.task_id, "config": task.config, "split": RANKED_SPLIT}
        for task in leaderboard_tasks().values()
        if task.main and task.config in configs
    ]
    content = {
        "name": LEADERBOARD_NAME,
        "description": LEADERBOARD_DESCRIPTION,
        "evaluation_framework": FRAMEWORK,
        "tasks": tasks,
    }
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100))


def read_task_ids(text: str, where: str) -> frozenset[str]:
    """Ids of the tasks that an ``eval.yaml`` declares."""
    try:
        return frozenset(str(task["id"]) for task in yaml.safe_load(text)["tasks"])
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise HubError(f"{where} does not declare tasks: {type(error).__name__}: {error}") from None
