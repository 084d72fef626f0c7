"""Scores of all directions of one task, for metrics over them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation.needs.need import Need, Scored, Variant
from cxc_eccv.evaluation.settings import Settings
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.tasks.task import Task
from cxc_eccv.types import Result

__all__ = ["OtherScores"]


class OtherScores(Need[Mapping[str, Sequence[Scored]]]):
    """Scores of all directions of one task, for example for RSUM; their samples were drawn together."""

    def __init__(
        self, task: Task, part: str, judged: Mapping[str, Sequence[Scored]], variants: Sequence[Variant]
    ) -> None:
        super().__init__(task, part, judged, variants)
        for variant in variants:
            if lacking := self._find_lacking(variant.spec):
                self.errors[variant.label] = InvalidOption(f"needs {' and '.join(lacking)} too")

    def score(self, variant: Variant, settings: Settings) -> list[Scored]:
        """One number."""
        spec, directions = variant.spec, list(self.judged.values())
        inputs = [row for rows in self.inputs(spec) for row in rows]
        value = float(spec.function(np.array([row.result.value for row in inputs])))
        n_queries, ties = (sum(getattr(rows[0].result, name) for rows in directions) for name in ("n_queries", "ties"))
        samples = [row.samples for row in inputs if row.samples is not None]
        row = Result(self.task.name, self.part, variant.label, value, n_queries, ties=ties)
        return [Scored(variant, row, samples=spec.function(np.stack(samples, axis=-1)) if samples else None)]

    def inputs(self, spec: Spec) -> list[list[Scored]]:
        """The scores of each direction that a metric is made of."""
        return [[row for row in rows if row.variant.label in spec.inputs] for rows in self.judged.values()]

    def _find_lacking(self, spec: Spec) -> list[str]:
        """Directions, or scores of a direction, that are not there."""
        labels = {direction: [row.variant.label for row in rows] for direction, rows in self.judged.items()}
        lacking: list[str] = []
        for direction in self.task.directions:
            if direction in labels:
                lacking += [f"{direction}/{label}" for label in spec.inputs if label not in labels[direction]]
            else:
                lacking.append(direction)
        return lacking
