"""From what was measured to results: per-query values first, then their mean or median, then the interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cxc_eccv.evaluation.bootstrap import ClusterBootstrap, Draws, interval
from cxc_eccv.evaluation.clusters import images_behind
from cxc_eccv.evaluation.intervals import wilson
from cxc_eccv.evaluation.measured import Measured
from cxc_eccv.evaluation.plan import Variant
from cxc_eccv.evaluation.settings import Settings
from cxc_eccv.evaluation.values import Values, values_of
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.sources.library import Library
from cxc_eccv.types import FloatArray, IntArray, Result

__all__ = ["Scored", "Scorer"]


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """One metric of one direction, in full.

    Attributes:
        variant: the metric and its parameters.
        result: the row of the report.
        values: the value of each query.
        clusters: (Q,) image behind each query.
        samples: (S,) bootstrap samples of the aggregate, or None.
    """

    variant: Variant
    result: Result
    values: Values
    clusters: IntArray
    samples: FloatArray | None


class Scorer:
    """Turns what was measured into rows of a report.

    Args:
        library: says which image stands behind a caption.
        split: of the judgments.
        settings: of the report.
    """

    def __init__(self, library: Library, split: str, settings: Settings) -> None:
        self._library, self._split, self._settings = library, split, settings
        self._draws = None if settings.level is None else Draws(settings.seed)

    def direction(self, measured: Measured) -> list[Scored]:
        """All metrics of one direction of one task that were measured, in their order."""
        request = measured.request
        known = [variant for variant in request.variants if variant.label in measured.inputs]
        values = [values_of(one, measured.inputs[one.label], self._settings.unjudged) for one in known]
        clusters = [self._clusters(measured, one.query_ids) for one in values]
        samples = self._samples(known, values, clusters)
        scored = []
        for variant, one, images, draws in zip(known, values, clusters, samples, strict=True):
            value = float(np.median(one.values) if variant.spec.aggregate == "median" else one.values.mean())
            row = Result(
                request.task.name,
                request.part,
                variant.label,
                value,
                one.values.size,
                ties=one.ties,
                coverage=one.coverage,
                parameters=one.parameters,
            )
            row = self._with_interval(row, draws, (one.values, images) if variant.spec.binary else None)
            scored.append(Scored(variant, row, one, images, draws))
        return scored

    def whole(self, task: str, spec: Spec, directions: Sequence[Sequence[Scored]]) -> Result:
        """A metric over all directions of one task, for example RSUM; their samples were drawn together."""
        parts = [row for rows in directions for row in rows if row.variant.label in spec.inputs]
        value = float(spec.function(np.array([part.result.value for part in parts])))
        draws = [part.samples for part in parts if part.samples is not None]
        n_queries, ties = (sum(getattr(rows[0].result, name) for rows in directions) for name in ("n_queries", "ties"))
        row = Result(task, "", spec.name, value, n_queries, ties=ties)
        return self._with_interval(row, spec.function(np.stack(draws, axis=-1)) if draws else None)

    def _clusters(self, measured: Measured, query_ids: IntArray) -> IntArray:
        request = measured.request
        return images_behind(query_ids, self._library, self._split, request.direction, request.task.collection)

    def _with_interval(
        self, row: Result, samples: FloatArray | None, binary: tuple[FloatArray, IntArray] | None = None
    ) -> Result:
        level = self._settings.level
        if samples is None or level is None:
            return row
        if binary is not None and self._settings.intervals != "bootstrap":
            values, images = binary
            by_image = self._settings.intervals == "binomial_images"
            low, high = wilson(values, level, np.unique(images).size if by_image else None)
        else:
            low, high = interval(samples, level)
        return replace(row, low=low, high=high)

    def _samples(
        self, variants: Sequence[Variant], values: Sequence[Values], clusters: Sequence[IntArray]
    ) -> Iterator[FloatArray | None]:
        if self._draws is None:
            yield from (None for _ in variants)
            return
        groups: dict[int, list[int]] = {}
        for place, one in enumerate(values):
            groups.setdefault(id(one.query_ids), []).append(place)
        found: dict[int, Any] = {}
        for places in groups.values():
            bootstrap = ClusterBootstrap(clusters[places[0]], self._draws)
            averaged = [place for place in places if variants[place].spec.aggregate == "mean"]
            if averaged:
                stacked = np.stack([values[place].values for place in averaged], axis=1)
                found |= dict(zip(averaged, bootstrap.means(stacked), strict=True))
            found |= {place: bootstrap.medians(values[place].values) for place in places if place not in found}
        yield from (found[place] for place in range(len(variants)))
