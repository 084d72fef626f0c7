"""The leaderboard's tasks, one number each, from the registry; and the dataset that declares them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

import yaml

from cxc_eccv.builders.output import MANIFEST_NAME
from cxc_eccv.errors import HubError, ReportRefused, UnknownName
from cxc_eccv.hub.client import Repository
from cxc_eccv.registry import metric, metric_variants, tasks
from cxc_eccv.sources.catalog import OFFICIAL, load_catalog
from cxc_eccv.tasks.task import Task

SPLIT = "test"
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


ORDER = (
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
    known = {name: task for name, task in tasks().items() if task.config and SPLIT in task.splits}
    in_order = [name for name in ORDER if name in known] + [name for name in known if name not in ORDER]
    entries = [entry for name in in_order for entry in _entries(known[name])]
    return MappingProxyType({entry.key: entry for entry in sorted(entries, key=lambda entry: not entry.main)})


def _entries(task: Task) -> Iterator[LeaderboardTask]:
    """Every metric of every part. If the task's main metric does not apply, the part's first metric is the main one."""
    metrics = [metric_variants(name) for name in task.metrics]
    for part in task.parts:
        labels = [
            spec.label(**chosen)
            for spec, variants in metrics
            if spec.higher_is_better and part in task.offers.get(spec.needs, {})
            for chosen in variants
        ]
        main = task.main_metric if task.main_metric in (*labels, *task.whole) else next(iter(labels), "")
        config = part if part in task.rated else task.config
        yield from (LeaderboardTask(f"{task.name}/{part}/{label}", config, label == main) for label in labels)
    for name in task.whole:
        if metric(name).higher_is_better:
            yield LeaderboardTask(f"{task.name}/{name}", task.config, name == task.main_metric)


def select_tasks(names: Iterable[str]) -> dict[str, tuple[LeaderboardTask, ...]]:
    """Names of tasks or of their directions, keys, or ids on the Hub, to the leaderboard tasks they name."""
    board = leaderboard_tasks().values()
    selected = {
        name: tuple(task for task in board if name == task.task_id or f"{task.key}/".startswith(f"{name}/"))
        for name in names
    }
    for name, chosen in selected.items():
        if not chosen:
            # All keys are too many to read: suggest those of the task, or the tasks.
            keys = [task.key for task in board if task.key.partition("/")[0] == name.partition("/")[0]]
            suggested = keys or sorted({task.key.partition("/")[0] for task in board})
            raise UnknownName("task of the leaderboard", name, suggested)
    return selected


PATH = "eval.yaml"

FRAMEWORK = "cxc_eccv"
"""The Hub accepts only the names of its list; a pull request there adds this one."""

FRAMEWORK_LIST = "https://github.com/huggingface/huggingface.js/blob/main/packages/tasks/src/eval.ts"
ACTIVATION = "https://huggingface.co/spaces/OpenEvals/README/discussions/2"
"""Where the Hub's documentation of evaluation results asks for new benchmarks to be named."""

NAME = "CxC and ECCV Caption"
DESCRIPTION = (
    "Image-caption retrieval on MS-COCO with the labels that correct its false negatives: Crisscrossed Captions, ECCV "
    "Caption, plausible match and the original links. Scores come from `cxc-eccv evaluate` and are submitted with "
    "`cxc-eccv submit`; higher is better everywhere. Recall, precision and correlation are fractions, RSUM is in "
    "percent."
)


def eval_yaml(configs: Collection[str] | None = None, framework: str = FRAMEWORK, *, all_tasks: bool = False) -> str:
    """The text of ``eval.yaml``: the main tasks whose config is in ``configs``, or with ``all_tasks`` all of them."""
    tasks = [
        {"id": task.task_id, "config": task.config, "split": SPLIT}
        for task in leaderboard_tasks().values()
        if (task.main or all_tasks) and (configs is None or task.config in configs)
    ]
    content = {"name": NAME, "description": DESCRIPTION, "evaluation_framework": framework, "tasks": tasks}
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100))


def read_task_ids(text: str, where: str) -> frozenset[str]:
    """Ids of the tasks that an ``eval.yaml`` declares."""
    try:
        return frozenset(str(task["id"]) for task in yaml.safe_load(text)["tasks"])
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise HubError(f"{where} does not declare tasks: {type(error).__name__}: {error}") from None


class Benchmark(NamedTuple):
    """The released dataset: its commit, the ids of its tasks, and the sha256 of its raw files by catalog name."""

    revision: str
    task_ids: frozenset[str]
    sources: Mapping[str, str]


def check_benchmark(repository: Repository, files: Mapping[str, str]) -> Benchmark:
    """Raise unless a dataset is a benchmark built from the raw ``files`` of a report, name to sha256."""
    revision = repository.head()
    if revision is None:
        raise HubError(
            f"{repository} does not exist, or is private and may not be read. Name the released dataset with --dataset."
        )
    present = repository.files(revision)
    for name in (PATH, MANIFEST_NAME):
        if name not in present:
            raise HubError(f"{repository} has no {name}, so `cxc-eccv push` did not upload it as a benchmark")
    declared = read_task_ids(repository.text(PATH, revision), f"{PATH} of {repository}")
    try:
        manifest = json.loads(repository.text(MANIFEST_NAME, revision))
        version, sources = (manifest["edition"], manifest["data_version"]), dict(manifest["sources"])
    except (ValueError, KeyError, TypeError):
        raise HubError(f"{MANIFEST_NAME} of {repository} is not one that `cxc-eccv build` wrote") from None
    catalog = load_catalog()
    if version != (OFFICIAL, catalog.version):
        raise ReportRefused(
            f"{repository} holds edition {version[0]!r} {version[1]}, not {OFFICIAL!r} {catalog.version}"
        )
    if manifest.get("modified"):
        names = ", ".join(manifest["modified"])
        raise ReportRefused(f"{repository} was built from modified raw files ({names}), so it is not a benchmark")
    for name, digest in files.items():
        if sources.get(name, digest) != digest:
            raise ReportRefused(
                f"the report and {repository.repo_id} use different files of {name}: sha256 {digest} and "
                f"{sources[name]}"
            )
    return Benchmark(revision, declared, sources)
