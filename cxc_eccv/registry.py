"""All tasks and metrics: found by walking their packages, looked up by name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType, ModuleType
from typing import Any, TypeVar

import cxc_eccv.metrics
import cxc_eccv.tasks
from cxc_eccv.errors import UnknownName
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.tasks.task import Task

__all__ = ["metric", "metric_variants", "metrics", "task", "tasks"]

Entry = TypeVar("Entry")


@cache
def tasks() -> Mapping[str, Task]:
    """Every task by name, in alphabetical order.

    Example:
        >>> "coco_5k" in tasks()
        True
    """
    return MappingProxyType(_declared(cxc_eccv.tasks, "TASK"))


@cache
def metrics() -> Mapping[str, Spec]:
    """Every metric by name, in alphabetical order.

    Example:
        >>> metrics()["map_at_r"].needs
        'ranks'
    """
    return MappingProxyType(_declared(cxc_eccv.metrics, "SPEC"))


def task(name: str) -> Task:
    """The task of this name.

    Raises:
        UnknownName: no such task; the message suggests the nearest.

    Example:
        >>> task("coco_5k").main_metric
        'recall_at_1'
    """
    return _lookup("task", name, tasks())


def metric(name: str) -> Spec:
    """The metric of this name.

    Raises:
        UnknownName: no such metric; the message suggests the nearest.

    Example:
        >>> metric("median_rank").higher_is_better
        False
    """
    return _lookup("metric", name, metrics())


def metric_variants(name: str) -> tuple[Spec, list[dict[str, Any]]]:
    """A metric and the parameters to call it with: its defaults, or the one that the name carries.

    Args:
        name: ``recall_at_k`` for the default depths, ``recall_at_20`` for one.

    Raises:
        UnknownName: no such metric; the message suggests the nearest.

    Example:
        >>> metric_variants("recall_at_20")[1], metric_variants("recall_at_k")[1]
        ([{'k': 20}], [{'k': 1}, {'k': 5}, {'k': 10}])
    """
    stem, _, number = name.rpartition("_")
    if number.isdecimal() and f"{stem}_k" in metrics():
        return metrics()[f"{stem}_k"], [{"k": int(number)}]
    spec = metric(name)
    return spec, list(spec.variants())


def _lookup(kind: str, name: str, known: Mapping[str, Entry]) -> Entry:
    if name not in known:
        raise UnknownName(kind, name, known)
    return known[name]


def _declared(package: ModuleType, constant: str) -> dict[str, Any]:
    """The constant of every module that has one; its name must be the file's."""
    found = {}
    for module_info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        entry = getattr(importlib.import_module(f"{package.__name__}.{module_info.name}"), constant, None)
        if entry is None:
            continue
        if entry.name != module_info.name:
            raise ImportError(f"{package.__name__}.{module_info.name}: its {constant} is named {entry.name!r}")
        found[entry.name] = entry
    return found
