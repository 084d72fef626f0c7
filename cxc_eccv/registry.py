"""All tasks and metrics by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TypeVar

import cxc_eccv.metrics
import cxc_eccv.tasks
from cxc_eccv.discovery import find_declared
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.metrics.families import FAMILIES, Family, find_family
from cxc_eccv.metrics.kinds import Spec
from cxc_eccv.tasks.task import Task

Entry = TypeVar("Entry")

DEPTH_IN_NAME = re.compile(r"(?<=@)\d+|(?<=_at_)\d+")
"""The depth K in the name of a metric."""

MOST_DEPTH_DIGITS = 20
"""Most digits of a depth in a name; Python refuses to read thousands."""


@cache
def tasks() -> Mapping[str, Task]:
    """Every task by name, in alphabetical order."""
    return find_declared(cxc_eccv.tasks, "TASK", Task)


@cache
def metrics() -> Mapping[str, Spec]:
    """Every metric by name, in alphabetical order."""
    return find_declared(cxc_eccv.metrics, "SPEC", Spec)


def metric_functions() -> Mapping[str, Spec]:
    """Every metric that has a page and a module: those of judged items alone are a parameter of others."""
    return {name: spec for name, spec in metrics().items() if spec.function.__name__ == name}


def group_metrics() -> Mapping[Family, tuple[Spec, ...]]:
    """Every metric, by the question that it answers."""
    specs = metrics().values()
    return {family: tuple(spec for spec in specs if find_family(spec) is family) for family in FAMILIES}


def group_tasks() -> Mapping[Family, tuple[Task, ...]]:
    """Every task, by the question that its main metric answers.

    Example:
        >>> [task.name for task in group_tasks()[find_family(metric("map_at_r"))]]
        ['eccv_caption', 'annotated']
    """
    groups: dict[Family, list[Task]] = {family: [] for family in FAMILIES}
    for each in sorted(tasks().values(), key=_place_in_group):
        spec, _ = metric_variants(each.main_metric)
        groups[find_family(spec)].append(each)
    return {family: tuple(group) for family, group in groups.items() if group}


def _place_in_group(task: Task) -> tuple[bool, bool]:
    """Tasks between images and captions come first, and last the one that exists only with label files."""
    return task.of_label_files, "i2t" not in task.part_names


def task(name: str) -> Task:
    """The task of this name, also as it is printed, such as ``COCO 5K``."""
    names = {}
    for each in tasks().values():
        names[each.title] = each
        names[each.name] = each
    return _find("task", name, names)


def metric(name: str) -> Spec:
    """The metric of this name, also as it is printed, such as ``mAP@R``."""
    return _find("metric", name, _metrics_as_written())


def _metrics_as_written() -> Mapping[str, Spec]:
    """Every metric by its titles, parameters by their names, and by its name."""
    names = {}
    for spec in metrics().values():
        parameters = {name: name for name in spec.parameters}
        for title in (spec.title, spec.long_title, spec.name):
            names[title.format(**parameters)] = spec
    return names


def metric_variants(name: str) -> tuple[Spec, list[dict[str, int]]]:
    """A metric and the parameters to call it with: its defaults, or the one in its name.

    Args:
        name: ``recall_at_k`` for the default depths, ``recall_at_20`` for one; also as it is printed, in any case:
            ``R@k``, ``R@20``.

    Raises:
        UnknownName: the metric is unknown; the message suggests the nearest name.
        InvalidOption: the number in its name is too long.

    Example:
        >>> metric_variants("recall_at_20")[1], metric_variants("recall_at_k")[1]
        ([{'k': 20}], [{'k': 1}, {'k': 5}, {'k': 10}])
        >>> metric_variants("r@1")[0].name, metric_variants("mAP@R")[0].name
        ('recall_at_k', 'map_at_r')
    """
    known = {title.casefold(): spec for title, spec in _metrics_as_written().items()}
    printed = name.strip().casefold()
    for text in (printed, re.sub(r"[\s-]", "_", printed.replace("@", "_at_"))):
        if text in known:
            return known[text], list(known[text].variants())
        depths = DEPTH_IN_NAME.findall(text)
        spec = known.get(DEPTH_IN_NAME.sub("k", text))
        if spec is not None and len(depths) == 1:
            if len(depths[0]) > MOST_DEPTH_DIGITS:
                raise InvalidOption(
                    f"{spec.name}: k has {len(depths[0]):,} digits, expected at most {MOST_DEPTH_DIGITS}"
                )
            return spec, [{"k": int(depths[0])}]
    spec = metric(name)
    return spec, list(spec.variants())


@cache
def metric_labelled(label: str) -> tuple[Spec, Mapping[str, int]]:
    """The metric and parameters of a label in report keys."""
    for spec in metrics().values():
        for parameters in spec.variants():
            if spec.label(**parameters) == label:
                return spec, parameters
    spec, (parameters, *_) = metric_variants(label)
    if spec.label(**parameters) != label:
        raise UnknownName("label of a metric", label, [spec.label(**every) for every in spec.variants()])
    return spec, parameters


def is_main(key: str) -> bool:
    """Whether a report's key is of its task's main metric.

    Example:
        >>> is_main("eccv_caption/t2i/map_at_r"), is_main("eccv_caption/t2i/recall_at_1")
        (True, False)
    """
    task_name, *_, label = key.split("/")
    return task_name in tasks() and tasks()[task_name].main_metric == label


def _find(kind: str, name: str, entries: Mapping[str, Entry]) -> Entry:
    """The entry of this name in any case."""
    by_folded_name = {title.casefold(): entry for title, entry in entries.items()}
    folded = name.strip().casefold()
    if folded not in by_folded_name:
        raise UnknownName(kind, name, entries, listed=f"{kind}s")
    return by_folded_name[folded]
