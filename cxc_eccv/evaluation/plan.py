"""Which metrics are computed for the parts of a task, and which of them are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cxc_eccv.metrics.spec import Spec
from cxc_eccv.registry import metric_variants
from cxc_eccv.tasks.task import NotApplicable, Task

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
        parts: direction or kind of rated pairs to its metrics; a part may have none.
        whole: computed once, over all directions.
    """

    parts: Mapping[str, tuple[Variant, ...]]
    whole: tuple[Spec, ...]


def plan_of(task: Task, metrics: Sequence[str] | None) -> Plan:
    """The metrics that the user named, or the task's own.

    Args:
        task: the declaration.
        metrics: names as in :func:`cxc_eccv.registry.metric_variants`, or None.

    Raises:
        UnknownName: no such metric.
        NotApplicable: none of the metrics is defined for the task.

    Example:
        >>> from cxc_eccv.registry import task
        >>> plan = plan_of(task("cxc"), ["recall_at_k", "spearman_all_pairs"])
        >>> {part: [variant.label for variant in variants] for part, variants in plan.parts.items()}["t2t"]
        ['recall_at_1', 'recall_at_5', 'recall_at_10']
        >>> [variant.label for variant in plan.parts["sts"]]
        ['spearman_all_pairs']
    """
    named = [metric_variants(name) for name in (metrics if metrics is not None else (*task.metrics, *task.whole))]
    whole = [spec for spec, _ in named if spec.needs == "scores" and spec.name in task.whole]
    variants = [Variant(spec, parameters) for spec, calls in named for parameters in calls if spec.needs != "scores"]
    shown = {variant.label for variant in variants}
    for spec in whole:
        inputs = [(label, metric_variants(label)) for label in spec.inputs if label not in shown]
        variants += [Variant(one, calls[0], shown=False) for _, (one, calls) in inputs]
    fitting = [one for one in variants if one.spec.needs != "top_k" or one.spec.gains == task.gains]
    parts = {
        part: tuple({one.label: one for one in fitting if part in task.offers.get(one.spec.needs, ())}.values())
        for part in task.parts
    }
    if not any(parts.values()):
        raise NotApplicable(f"none of the metrics {', '.join(metrics or ())} is defined for {task.name}")
    return Plan(parts, tuple(whole))
