"""How tasks, metrics and values are written for people, as their declarations say."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from cxc_eccv.errors import UnknownName
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.registry import metric_labelled, tasks

__all__ = ["list_names", "metric_name", "scale_of", "show_value", "task_name"]

SPREAD = "_std"
"""End of the label of a standard deviation over a metric's samples."""


def task_name(task: str) -> str:
    """The name papers use; that of a task of another version in words.

    Example:
        >>> task_name("coco_1k"), task_name("entailment"), task_name("of_next_year")
        ('COCO 1K', 'entailment', 'of next year')
    """
    known = tasks().get(task)
    return known.title if known else task.replace("_", " ")


def metric_name(label: str, *, in_full: bool = False) -> str:
    """The name papers use for a metric's label in report keys; that of a metric of another version in words.

    Example:
        >>> metric_name("recall_at_10"), metric_name("map_at_r"), metric_name("median_rank")
        ('R@10', 'mAP@R', 'median rank')
        >>> metric_name("bootstrap_spearman_std"), metric_name("bootstrap_spearman_std", in_full=True)
        ('std of samples', 'Spearman, std over samples')
    """
    spec, parameters, is_spread = _read(label)
    if spec is None:
        return label.replace("_", " ")
    if is_spread:
        return f"{spec.title.format(**parameters)}, std over samples" if in_full else "std of samples"
    return (spec.long_title if in_full else spec.title).format(**parameters)


def show_value(label: str, value: float, form: str = ".1f") -> str:
    """The value in its metric's unit: fractions and correlations in percent, ranks and numbers as they are.

    Example:
        >>> show_value("recall_at_1", 0.4174), show_value("median_rank", 2.5, "+.1f")
        ('41.7', '+2.5')
    """
    return format(scale_of(label) * value, form)


def scale_of(label: str) -> int:
    """What values of a metric are multiplied by to be shown; those of another version are taken for fractions."""
    spec, _, _ = _read(label)
    return 100 if spec is None else spec.scale


def list_names(names: Iterable[str]) -> str:
    """Names in a sentence.

    Example:
        >>> list_names(["COCO", "CxC", "ECCV"])
        'COCO, CxC and ECCV'
    """
    *most, last = names if (names := list(names)) else [""]
    return f"{', '.join(most)} and {last}" if most else last


def _read(label: str) -> tuple[Spec | None, dict[str, Any], bool]:
    """The metric behind a label, its parameters, and whether the label is that of its spread; None where unknown."""
    for stem in dict.fromkeys((label, label.removesuffix(SPREAD))):
        with suppress(UnknownName):
            return *metric_labelled(stem), stem != label
    return None, {}, False
