"""The leaderboard's tasks: one number each, named after the report's key, generated from the registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from cxc_eccv.metrics.spec import Spec
from cxc_eccv.registry import metric, metric_variants, tasks
from cxc_eccv.tasks.task import Task

__all__ = ["SPLIT", "LeaderboardTask", "leaderboard_tasks"]

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
