"""The leaderboard's tasks: one number each, named after the report's key, generated from the registry."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import yaml

from cxc_eccv.errors import HubError
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.registry import metric, metric_variants, tasks
from cxc_eccv.tasks.task import Task

__all__ = ["FRAMEWORK", "PATH", "SPLIT", "LeaderboardTask", "eval_yaml", "leaderboard_tasks", "task_ids_of"]

SPLIT = "test"
"""The only split that is ranked on the Hub."""


@dataclass(frozen=True, slots=True)
class LeaderboardTask:
    """One column of the leaderboard.

    Attributes:
        task_id: its name on the Hub.
        key: ``task/direction/metric``, as in report.json.
        config: dataset config that holds its labels.
        spec: the metric.
    """

    task_id: str
    key: str
    config: str
    spec: Spec

    @property
    def task(self) -> str:
        """Name of the task in the registry."""
        return self.key.partition("/")[0]


@cache
def leaderboard_tasks() -> Mapping[str, LeaderboardTask]:
    """Report key to leaderboard task: what a report shows by default on the test split.

    A task without a config has its labels elsewhere and is left out. So is a metric of which lower is better, as median
    rank: an ``eval.yaml`` has no place to say so.

    Example:
        >>> leaderboard_tasks()["eccv_caption/i2t/map_at_r"].task_id
        'eccv_caption_i2t_map_at_r'
    """
    board = (one for task in tasks().values() if task.config and SPLIT in task.splits for one in _of_task(task))
    return MappingProxyType({one.key: one for one in board if one.spec.higher_is_better})


def _of_task(task: Task) -> Iterator[LeaderboardTask]:
    metrics = [metric_variants(name) for name in task.metrics]
    for part in task.parts:
        for spec, variants in metrics:
            if part in task.offers.get(spec.needs, {}):
                config = part if part in task.rated else task.config
                yield from (_entry(f"{task.name}/{part}/{spec.label(**chosen)}", config, spec) for chosen in variants)
    yield from (_entry(f"{task.name}/{name}", task.config, metric(name)) for name in task.whole)


def _entry(key: str, config: str, spec: Spec) -> LeaderboardTask:
    return LeaderboardTask(key.replace("/", "_"), key, config, spec)


PATH = "eval.yaml"

FRAMEWORK = "cxc_eccv"
"""The Hub validates this name against a list of its own, to which a pull request adds it."""

NAME = "CxC and ECCV Caption"
DESCRIPTION = (
    "Image-caption retrieval on MS-COCO with the labels that correct its false negatives: Crisscrossed Captions, ECCV "
    "Caption, plausible match and the original links. Scores come from `cxc-eccv evaluate` and are submitted with "
    "`cxc-eccv submit`; higher is better everywhere. Recall, precision and correlation are fractions, RSUM is in "
    "percent."
)


def eval_yaml(configs: Collection[str] | None = None, framework: str = FRAMEWORK) -> str:
    """The text of ``eval.yaml``: one task for each task, direction and metric of :func:`leaderboard_tasks`.

    Args:
        configs: configs in the repository; tasks of others are left out. None for all.
        framework: name that the Hub knows the evaluation by.

    Example:
        >>> print(eval_yaml(["eccv_caption"]).splitlines()[-3])
        - id: eccv_caption_t2i_recall_at_10
    """
    tasks = [
        {"id": one.task_id, "config": one.config, "split": SPLIT}
        for one in leaderboard_tasks().values()
        if configs is None or one.config in configs
    ]
    content = {"name": NAME, "description": DESCRIPTION, "evaluation_framework": framework, "tasks": tasks}
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100))


def task_ids_of(text: str, where: str) -> frozenset[str]:
    """Ids of the tasks that an ``eval.yaml`` declares.

    Args:
        text: its content.
        where: which file, for the message.

    Raises:
        HubError: it does not have the form of an ``eval.yaml``.

    Example:
        >>> sorted(task_ids_of("tasks: [{id: b}, {id: a}]", "eval.yaml"))
        ['a', 'b']
    """
    try:
        return frozenset(str(task["id"]) for task in yaml.safe_load(text)["tasks"])
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise HubError(f"{where} does not declare tasks: {type(error).__name__}: {error}") from None
