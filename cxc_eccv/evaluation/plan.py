"""Which metrics are computed for a task, and which of them are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cxc_eccv.errors import InvalidOption
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.registry import metric_variants
from cxc_eccv.tasks.task import Task

__all__ = ["Plan", "Variant", "plan_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """A metric with the parameters of one call.

    Attributes:
        spec: the metric's declaration.
        parameters: keyword arguments of the call.
        shown: whether the report lists it; otherwise it is computed for another metric's sake.
    """

    spec: Spec
    parameters: dict[str, Any]
    shown: bool = True

    @property
    def label(self) -> str:
        """The name in report keys."""
        return self.spec.label(**self.parameters)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The metrics of one task.

    Attributes:
        variants: computed for every direction.
        whole: computed once, over all directions.
    """

    variants: tuple[Variant, ...]
    whole: tuple[Spec, ...]


def plan_of(task: Task, metrics: Sequence[str] | None) -> Plan:
    """The metrics that the user named, or the task's own.

    Args:
        task: the declaration.
        metrics: names as in :func:`cxc_eccv.registry.metric_variants`, or None.

    Raises:
        UnknownName: no such metric.
        InvalidOption: a metric over whole tasks that this task does not define.

    Example:
        >>> from cxc_eccv.registry import task
        >>> [variant.label for variant in plan_of(task("coco_5k"), ["recall_at_k", "mrr"]).variants]
        ['recall_at_1', 'recall_at_5', 'recall_at_10', 'mrr']
    """
    named = [metric_variants(name) for name in (metrics if metrics is not None else (*task.metrics, *task.whole))]
    variants: dict[str, Variant] = {}
    whole = [spec for spec, _ in named if spec.needs == "scores" and spec.name in task.whole]
    for spec, calls in named:
        if spec.needs == "ranks":
            variants |= {spec.label(**parameters): Variant(spec, parameters) for parameters in calls}
    for label in (label for spec in whole for label in spec.inputs):
        spec, calls = metric_variants(label)
        variants.setdefault(label, Variant(spec, calls[0], shown=False))
    if not variants:
        raise InvalidOption(f"none of the metrics {', '.join(metrics or ())} is defined for {task.name}")
    return Plan(tuple(variants.values()), tuple(whole))
