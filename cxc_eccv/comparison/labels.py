"""Names of tasks and metrics and formats of values for people, from their declarations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from cxc_eccv.errors import UnknownName
from cxc_eccv.metrics.spec import UNITS, Spec
from cxc_eccv.registry import metric_labelled, tasks
from cxc_eccv.shown import upper_first
from cxc_eccv.sources.catalog import describe_data
from cxc_eccv.tables import Cell
from cxc_eccv.types import Report, Result
from cxc_eccv.types.reported import SPREAD


def task_name(task: str) -> str:
    """The name that papers use; a task of another version is named in words."""
    known = tasks().get(task)
    return known.title if known else upper_first(task.replace("_", " "))


def metric_name(label: str, *, in_full: bool = False) -> str:
    """The name that papers use for the metric of a report key; one of another version is named in words."""
    spec, parameters, is_spread = _read(label)
    if spec is None:
        return label.replace("_", " ")
    if is_spread:
        return f"{spec.title.format(**parameters)}, std over samples" if in_full else "std of samples"
    return (spec.long_title if in_full else spec.title).format(**parameters)


def name_data(report: Report) -> str:
    """The data set, the split and the edition behind a report."""
    names = dict.fromkeys(tasks()[row.task].collection.name for row in report.results if row.task in tasks())
    return describe_data(report.provenance, list_names(names or ["COCO"]))


def heading_of(key: str) -> tuple[str, str, str]:
    """The heading of a metric's column: task, direction and metric."""
    task, *direction, metric = key.split("/")
    return task_name(task), "".join(direction), metric_name(metric)


def show_value(label: str, value: float, decimals: int = 1, *, sign: bool = False) -> str:
    """The value in its metric's unit; correlations get two decimals more, as they are not in percent."""
    unit = unit_of(label)
    return format(UNITS[unit] * value, f"{'+' if sign else ''}.{decimals + 2 * (unit == 'correlation')}f")


def score_cell(result: Result) -> Cell:
    """A score with its interval."""
    low, high = ("" if bound is None else show_value(result.metric, bound) for bound in (result.low, result.high))
    return Cell(show_value(result.metric, result.value), interval=f"[{low}, {high}]" if low else "")


def unit_of(label: str) -> str:
    """The unit of a metric's values; a metric of another version is taken to be a fraction."""
    spec, _, _ = _read(label)
    return "percent" if spec is None else spec.unit


def list_names(names: Iterable[str]) -> str:
    """Names joined as in a sentence."""
    *most, last = names if (names := list(names)) else [""]
    return f"{', '.join(most)} and {last}" if most else last


def _read(label: str) -> tuple[Spec | None, Mapping[str, Any], bool]:
    """The metric of a label (None if unknown), its parameters, and whether the label is of its spread."""
    for stem in dict.fromkeys((label, label.removesuffix(SPREAD))):
        with suppress(UnknownName):
            return *metric_labelled(stem), stem != label
    return None, {}, False


def row_name(key: str) -> str:
    """Direction and metric; ``both`` stands for a mean over directions, or RSUM."""
    _, *direction, metric = key.split("/")
    return f"  {''.join(direction) or 'both'} {metric_name(metric)}"
