"""The leaderboard's tasks from the registry, the dataset that declares them, and strict checks of what is submitted."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import yaml

import cxc_eccv
from cxc_eccv.builders.output import MANIFEST_NAME
from cxc_eccv.errors import DataError, HubError, InvalidOption, ReportRefused, UnknownName
from cxc_eccv.evaluation import report_from_json
from cxc_eccv.evaluation.report_files import ROUNDING, find_report
from cxc_eccv.hub.client import Repository
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.registry import metric, metric_variants, task, tasks
from cxc_eccv.sources.catalog import OFFICIAL, Entry, fingerprint_files, load_catalog
from cxc_eccv.tasks.task import Task
from cxc_eccv.types import Report, Result
from cxc_eccv.types.reported import SPREAD

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


def checked_report(path: str | Path) -> tuple[Report, Mapping[str, str]]:
    """Check whether a report may be submitted, without the network; return it and the sha256 of its raw files.

    The path is that of the report's folder or of its report.json.

    Raises:
        InvalidOption: the file cannot be read.
        ReportRefused: the report is malformed, edited, or not of the official data.

    Example:
        >>> checked_report("no/report.json")
        Traceback (most recent call last):
        cxc_eccv.errors.InvalidOption: cannot read no/report.json: No such file or directory
    """
    path = find_report(Path(path))
    try:
        report = report_from_json(path.read_text(encoding="utf-8"))
        if not report.results:
            raise ReportRefused("it has no results")
        check_values(report)
        return report, _check_data(report)
    except (ReportRefused, DataError) as error:
        raise ReportRefused(f"{path}: {error}") from None
    except OSError as error:
        raise InvalidOption(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ReportRefused(f"{path} is not a report.json: {error}") from None


EVALUATE = "Evaluate again with `cxc-eccv evaluate FILE --split test` on the official data."


def _check_data(report: Report) -> Mapping[str, str]:
    """Raise unless a report was computed from official files; return their sha256 by catalog name.

    Files without a published hash pass; ``check_benchmark`` compares them with those of the released dataset.
    """
    facts, catalog, ours = report.provenance, load_catalog(), cxc_eccv.__version__
    package: dict[str, Any] = facts.get("package") or {}
    data: dict[str, Any] = facts.get("data") or {}
    files: dict[str, str] = data.get("files") or {}
    made_by, edition, version = package.get("version"), data.get("edition"), data.get("version")
    for is_wrong, fault in (
        (package.get("name") != "cxc_eccv" or not data, "its provenance does not name this package and its data"),
        (made_by != ours, f"cxc_eccv {made_by} computed it, and this is {ours}"),
        (facts.get("split") != SPLIT, f"it covers the split {facts.get('split')!r}; the leaderboard takes {SPLIT!r}"),
        (facts.get("restriction"), "it covers a part of the split; the leaderboard takes whole splits"),
        (facts.get("labels"), "it uses other labels than those of its tasks"),
        (data.get("modified"), f"it was computed from modified raw files: {', '.join(data.get('modified') or ())}"),
        (not files, "its provenance lists no data files"),
        (edition != OFFICIAL, f"it was computed from the edition {edition!r}, not the official data"),
        (
            version != catalog.version,
            f"it was computed from version {version} of the data; this package has {catalog.version}",
        ),
    ):
        if is_wrong:
            raise ReportRefused(f"{fault}. {EVALUATE}")
    for name, digest in files.items():
        _check_file(name, digest, catalog.entries.get(name))
    if data.get("fingerprint") != fingerprint_files(files):
        raise ReportRefused(f"its data fingerprint does not match the files it lists, so it was edited. {EVALUATE}")
    groups = {catalog.entry(name).group for name in files}
    for name in dict.fromkeys(result.task for result in report.results):
        lacking = [group for group in task(name).sources if group not in groups]
        if lacking:
            raise ReportRefused(
                f"it has results of {name} but lists no file of {lacking[0]}, so it was edited. {EVALUATE}"
            )
    return dict(files)


def _check_file(name: str, digest: str, entry: Entry | None) -> None:
    if entry is None:
        raise ReportRefused(f"it lists the data file {name!r}, which the official catalog does not have. {EVALUATE}")
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise ReportRefused(f"the sha256 of {name} is {digest!r}, not 64 hexadecimal digits, so the report was edited")
    if entry.sha256 is not None and digest != entry.sha256:
        raise ReportRefused(
            f"{name} was modified: its sha256 is {digest}, and the official file has {entry.sha256}. {EVALUATE}"
        )
    if entry.sha256 is None and entry.url is None:
        raise ReportRefused(f"it uses {name}, a file that only you have. Evaluate again without it.")


FREE = ("seed",)
"""Parameters that may have any value."""

AT_MOST = (("map_at_r", "r_precision"),)
"""Pairs of metrics whose first value is never above the second."""


def check_values(report: Report) -> None:
    """Check names, parameters, and relations between metrics, such as recall that grows with the depth."""
    by_place: dict[tuple[str, str], dict[str, Result]] = {}
    for result in report.results:
        spec = _find_spec(result)
        _check_parameters(result, spec)
        by_place.setdefault((result.key.rpartition("/")[0], spec.needs), {})[result.metric] = result
    for (place, _), results in by_place.items():
        _check_place(place, results)
    for result in report.results:
        if not result.direction:
            _check_whole(result, _find_spec(result), report)


def _find_spec(result: Result) -> Spec:
    try:
        declared = task(result.task)
        spec, _ = metric_variants(result.metric.removesuffix(SPREAD))
    except UnknownName as error:
        raise ReportRefused(f"{result.key}: {error}") from None
    parts = ("",) if spec.needs == "scores" else tuple(declared.offers.get(spec.needs, ()))
    if result.direction not in parts:
        raise ReportRefused(f"{result.key}: {result.metric} is not defined there; expected one of {', '.join(parts)}")
    return spec


def _check_parameters(result: Result, spec: Spec) -> None:
    """Raise unless parameters are those of the metric's name, and the defaults where the name has none."""
    named = {name: value for name, value in result.parameters.items() if name in spec.parameters}
    if spec.label(**named) != result.metric.removesuffix(SPREAD):
        raise ReportRefused(f"{result.key}: its parameters {dict(result.parameters)} do not match {result.metric}")
    for name, parameter in inspect.signature(spec.function).parameters.items():
        value = result.parameters.get(name, parameter.default)
        if name not in (*spec.parameters, *FREE) and value != parameter.default:
            raise ReportRefused(f"{result.key}: computed with {name}={value!r}, expected {parameter.default!r}")


def _check_place(place: str, results: dict[str, Result]) -> None:
    counts = {result.n_queries for result in results.values()}
    if len(counts) > 1:
        raise ReportRefused(
            f"{place}: its metrics have different numbers of queries: {' and '.join(map(str, sorted(counts)))}"
        )
    depths = sorted(int(name.rpartition("_")[2]) for name in results if name.startswith("recall_at_"))
    growing = [(f"recall_at_{less}", f"recall_at_{more}") for less, more in pairwise(depths)]
    for lower, upper in (*growing, *AT_MOST):
        if lower in results and upper in results and results[lower].value > results[upper].value + ROUNDING:
            raise ReportRefused(f"{place}: {lower} is above {upper}, which is impossible; the file was edited")


def _check_whole(result: Result, spec: Spec, report: Report) -> None:
    directions = task(result.task).directions
    keys = [f"{result.task}/{direction}/{label}" for direction in directions for label in spec.inputs]
    if all(key in report.scores for key in keys):
        expected = float(spec.function(np.array([report.scores[key] for key in keys])))
        if not np.isclose(result.value, expected, rtol=ROUNDING, atol=ROUNDING):
            raise ReportRefused(f"{result.key} is {result.value}, but its parts give {expected}; the file was edited")
