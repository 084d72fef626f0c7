"""The leaderboard's tasks: one number each, named after the report's key, generated from the registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from cxc_eccv.builders.discovery import dataset_configs
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.registry import metric, metric_variants, tasks
from cxc_eccv.tasks.task import Task

__all__ = ["SPLIT", "LeaderboardTask", "leaderboard_tasks"]

SPLIT = "test"
"""The only split that is ranked on the Hub."""

CONFIGS = {"coco_1k": "captions", "coco_5k": "captions", "cxc": "retrieval", "cxc_rated": "sits"}
"""Dataset config that holds the labels of a task, where the two have different names."""


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
    """Report key to leaderboard task: what a report shows by default on the test split, for each task with a config.

    Example:
        >>> leaderboard_tasks()["eccv_caption/i2t/map_at_r"].task_id
        'eccv_caption_i2t_map_at_r'
    """
    found = {key: spec for task in tasks().values() if SPLIT in task.splits for key, spec in _keys(task)}
    board = (LeaderboardTask(key.replace("/", "_"), key, _config(key), spec) for key, spec in found.items())
    return MappingProxyType({one.key: one for one in board if one.config})


def _keys(task: Task) -> Iterator[tuple[str, Spec]]:
    metrics = [metric_variants(name) for name in task.metrics]
    for part in task.parts:
        for spec, variants in metrics:
            if part in task.offers.get(spec.needs, {}):
                yield from ((f"{task.name}/{part}/{spec.label(**chosen)}", spec) for chosen in variants)
    yield from ((f"{task.name}/{name}", metric(name)) for name in task.whole)


def _config(key: str) -> str:
    """Empty for a task whose labels are not in the dataset."""
    task, direction, *_ = [*key.split("/"), ""]
    for name in (direction, task, CONFIGS.get(task)):
        if name in dataset_configs():
            return str(name)
    return ""
