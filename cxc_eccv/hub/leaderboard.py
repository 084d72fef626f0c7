"""The leaderboard: its tasks, one number each, generated from the registry; and the dataset that declares them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import yaml

from cxc_eccv.builders.writing import MANIFEST_NAME
from cxc_eccv.errors import HubError, ReportRefused
from cxc_eccv.hub.client import Repository
from cxc_eccv.registry import metric, metric_variants, tasks
from cxc_eccv.sources.catalog import OFFICIAL, load_catalog
from cxc_eccv.tasks.task import Task

__all__ = [
    "FRAMEWORK",
    "NAME",
    "PATH",
    "SPLIT",
    "LeaderboardTask",
    "check_benchmark",
    "eval_yaml",
    "leaderboard_tasks",
    "read_task_ids",
]

SPLIT = "test"
"""The only split that is ranked on the Hub."""


@dataclass(frozen=True, slots=True)
class LeaderboardTask:
    """One column of the leaderboard: a key of report.json, and the dataset config that holds its labels."""

    key: str
    config: str

    @property
    def task_id(self) -> str:
        """Its name on the Hub."""
        return self.key.replace("/", "_")


@cache
def leaderboard_tasks() -> Mapping[str, LeaderboardTask]:
    """Report key to leaderboard task: what a report shows by default on the test split.

    A task without a config has its labels elsewhere and is left out. So is a metric of which lower is better, as median
    rank: an ``eval.yaml`` has no place to say so.

    Example:
        >>> leaderboard_tasks()["eccv_caption/i2t/map_at_r"].task_id
        'eccv_caption_i2t_map_at_r'
    """
    entries = (entry for task in tasks().values() if task.config and SPLIT in task.splits for entry in _entries(task))
    return MappingProxyType({entry.key: entry for entry in entries})


def _entries(task: Task) -> Iterator[LeaderboardTask]:
    metrics = [metric_variants(name) for name in task.metrics]
    for part in task.parts:
        config = part if part in task.rated else task.config
        for spec, variants in metrics:
            if spec.higher_is_better and part in task.offers.get(spec.needs, {}):
                labels = (spec.label(**chosen) for chosen in variants)
                yield from (LeaderboardTask(f"{task.name}/{part}/{label}", config) for label in labels)
    for name in task.whole:
        if metric(name).higher_is_better:
            yield LeaderboardTask(f"{task.name}/{name}", task.config)


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
    """The text of ``eval.yaml``: one task for each of :func:`leaderboard_tasks` whose config is among ``configs``.

    The Hub knows the evaluation by the name ``framework``.
    """
    tasks = [
        {"id": task.task_id, "config": task.config, "split": SPLIT}
        for task in leaderboard_tasks().values()
        if configs is None or task.config in configs
    ]
    content = {"name": NAME, "description": DESCRIPTION, "evaluation_framework": framework, "tasks": tasks}
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100))


def read_task_ids(text: str, where: str) -> frozenset[str]:
    """Ids of the tasks that the text of an ``eval.yaml`` declares."""
    try:
        return frozenset(str(task["id"]) for task in yaml.safe_load(text)["tasks"])
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise HubError(f"{where} does not declare tasks: {type(error).__name__}: {error}") from None


def check_benchmark(
    repository: Repository, task_ids: Collection[str], files: Mapping[str, str]
) -> tuple[str, Mapping[str, str]]:
    """Raise unless a dataset is the benchmark, has the tasks, and was built from the raw files of a report.

    Gives its commit that was looked at, and the sha256 of its raw files, by catalog name as the report's.
    """
    revision = repository.head()
    if revision is None:
        raise HubError(f"there is no {repository}, or it may not be read. Name the released dataset with --dataset.")
    present = repository.files(revision)
    for name in (PATH, MANIFEST_NAME):
        if name not in present:
            raise HubError(f"{repository} has no {name}, so it is no benchmark that `cxc-eccv push` uploaded")
    declared = read_task_ids(repository.text(PATH, revision), f"{PATH} of {repository}")
    manifest = _read_manifest(repository.text(MANIFEST_NAME, revision), f"{MANIFEST_NAME} of {repository}")
    catalog = load_catalog()
    found = manifest["edition"], manifest["data_version"]
    if found != (OFFICIAL, catalog.version):
        raise ReportRefused(f"{repository} holds edition {found[0]!r} {found[1]}, not {OFFICIAL!r} {catalog.version}")
    if manifest.get("modified"):
        names = ", ".join(manifest["modified"])
        raise ReportRefused(f"{repository} was built from modified raw files ({names}), so it is no benchmark")
    lacking = [task_id for task_id in task_ids if task_id not in declared]
    if lacking:
        raise ReportRefused(f"{repository.repo_id} has no task {', '.join(lacking[:3])}. Is it the released dataset?")
    sources: dict[str, str] = manifest["sources"]
    for name, digest in files.items():
        if sources.get(name, digest) != digest:
            built_from = f"the file {repository.repo_id} was built from: sha256 {digest} there {sources[name]}"
            raise ReportRefused(f"{name} is not {built_from}")
    return revision, sources


def _read_manifest(text: str, where: str) -> dict[str, Any]:
    try:
        manifest = json.loads(text)
        if {"edition", "data_version"} <= set(manifest) and isinstance(manifest["sources"], dict):
            return dict(manifest)
    except (ValueError, KeyError, TypeError):
        pass
    raise HubError(f"{where} is not one that `cxc-eccv build` wrote")
