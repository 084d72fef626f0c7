"""From ranks to results: per-query values first, then their mean or median, then the interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cxc_eccv.evaluation.bootstrap import ClusterBootstrap, Draws, interval
from cxc_eccv.evaluation.clusters import images_behind
from cxc_eccv.evaluation.plan import Variant
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.sources.library import Library
from cxc_eccv.types import FloatArray, IntArray, PositiveRanks, Result

__all__ = ["Scored", "Scorer"]


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """One metric of one direction, in full.

    Attributes:
        variant: the metric and its parameters.
        result: the row of the report.
        values: (Q,) value of each query.
        samples: (S,) bootstrap samples of the aggregate, or None.
    """

    variant: Variant
    result: Result
    values: FloatArray
    samples: FloatArray | None


@dataclass(frozen=True, slots=True, eq=False)
class Scorer:
    """Turns ranks into rows of a report.

    Attributes:
        library, split: say which image stands behind a caption.
        draws: of the bootstrap; None for no intervals.
        confidence: of the intervals, or None.
    """

    library: Library
    split: str
    draws: Draws | None
    confidence: float | None

    def direction(self, task: str, direction: str, ranks: PositiveRanks, variants: Sequence[Variant]) -> list[Scored]:
        """All metrics of one direction of one task, in the order of ``variants``."""
        values = [variant.spec.function(ranks, **variant.parameters) for variant in variants]
        samples = self._samples(direction, ranks.query_ids, variants, values)
        tied = int(np.count_nonzero(ranks.ties))
        scored = []
        for variant, one, draws in zip(variants, values, samples, strict=True):
            value = float(np.median(one) if variant.spec.aggregate == "median" else one.mean())
            parameters = dict(variant.parameters)
            row = Result(task, direction, variant.label, value, one.size, ties=tied, parameters=parameters)
            scored.append(Scored(variant, self._with_interval(row, draws), one, draws))
        return scored

    def whole(self, task: str, spec: Spec, directions: Sequence[Sequence[Scored]]) -> Result:
        """A metric over all directions of one task, for example RSUM; their samples were drawn together."""
        parts = [row for rows in directions for row in rows if row.variant.label in spec.inputs]
        value = float(spec.function(np.array([part.result.value for part in parts])))
        draws = [part.samples for part in parts if part.samples is not None]
        n_queries, ties = (sum(getattr(rows[0].result, name) for rows in directions) for name in ("n_queries", "ties"))
        row = Result(task, "", spec.name, value, n_queries, ties=ties)
        return self._with_interval(row, spec.function(np.stack(draws, axis=-1)) if draws else None)

    def _with_interval(self, row: Result, samples: FloatArray | None) -> Result:
        if samples is None or self.confidence is None:
            return row
        low, high = interval(samples, self.confidence)
        return replace(row, low=low, high=high)

    def _samples(
        self, direction: str, query_ids: IntArray, variants: Sequence[Variant], values: Sequence[FloatArray]
    ) -> Iterator[FloatArray | None]:
        if self.draws is None:
            yield from (None for _ in variants)
            return
        images = images_behind(query_ids, self.library, self.split, direction)
        bootstrap = ClusterBootstrap(images, self.draws)
        is_mean = [variant.spec.aggregate == "mean" for variant in variants]
        averaged = [one for one, mean in zip(values, is_mean, strict=True) if mean]
        means = iter(bootstrap.means(np.stack(averaged, axis=1)) if averaged else ())
        for one, mean in zip(values, is_mean, strict=True):
            yield next(means) if mean else bootstrap.medians(one)
