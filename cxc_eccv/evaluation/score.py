"""From what was measured to numbers with their intervals: values of queries first, then what they come to.

Intervals are a bootstrap over images that keeps the captions of one image together, or Wilson's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cxc_eccv.evaluation.bounds import BoundsOfNeeds
from cxc_eccv.evaluation.needs import QueryValues, Scored
from cxc_eccv.evaluation.select import Part
from cxc_eccv.evaluation.settings import Settings
from cxc_eccv.sources.library import Library
from cxc_eccv.statistics import ClusterBootstrap, Draws, interval, wilson
from cxc_eccv.tasks.task import COCO, Collection
from cxc_eccv.types import FloatArray, IntArray, positions_of

__all__ = ["Scorer", "images_behind"]


class Scorer:
    """Turns what was measured into the numbers of a report."""

    def __init__(self, library: Library, split: str, settings: Settings, bounds: BoundsOfNeeds | None = None) -> None:
        self._library, self._split, self._settings, self._bounds = library, split, settings, bounds
        self._draws = None if settings.level is None else Draws(settings.seed)

    def score(self, part: Part) -> list[Scored]:
        """All metrics of one part that can be computed, in their order."""
        settings = self._settings.on(self._library, self._split, part.task.collection)
        rows: list[Scored] = []
        for variant, need in part.needs_of_variants:
            if variant.label in need.errors:
                continue
            scored = need.score(variant, settings)
            if self._bounds is not None:
                bounds = self._bounds.find(need, variant, settings)
                scored = [replace(row, result=replace(row.result, bounds=bounds)) for row in scored]
            rows += scored
        return [self._with_interval(row) for row in self._resample(part, rows)]

    def _resample(self, part: Part, rows: Sequence[Scored]) -> list[Scored]:
        """Find the images behind queries and draw them; metrics over the same queries are drawn together."""
        groups: dict[int, list[tuple[int, QueryValues]]] = {}
        for place, row in enumerate(rows):
            if row.queries is not None:
                groups.setdefault(id(row.queries.ids), []).append((place, row.queries))
        found, direction = list(rows), part.needs[0].direction
        for group in groups.values():
            first = group[0][1]
            images = first.images
            if images is None:
                images = images_behind(first.ids, self._library, self._split, direction, part.task.collection)
            aggregates = [rows[place].variant.spec.aggregate for place, _ in group]
            samples = self._draw(images, first.among, aggregates, [queries.values for _, queries in group])
            for (place, _), drawn in zip(group, samples, strict=True):
                found[place] = replace(rows[place], images=images, samples=drawn)
        return found

    def _draw(
        self, images: IntArray, among: IntArray | None, aggregates: Sequence[str], values: Sequence[FloatArray]
    ) -> Sequence[FloatArray | None]:
        """(S,) samples of the mean or the median of each metric's values."""
        if self._draws is None:
            return [None] * len(values)
        bootstrap, named = ClusterBootstrap(images, self._draws, among), list(zip(aggregates, values, strict=True))
        averaged = [own for aggregate, own in named if aggregate == "mean"]
        means = iter(bootstrap.means(np.stack(averaged, axis=1)) if averaged else ())
        return [next(means) if aggregate == "mean" else bootstrap.medians(own) for aggregate, own in named]

    def _with_interval(self, row: Scored) -> Scored:
        level, kind = self._settings.level, self._settings.intervals
        if row.samples is None or level is None:
            return row
        if row.queries is not None and row.images is not None and row.variant.spec.binary and kind != "bootstrap":
            trials = np.unique(row.images).size if kind == "binomial_images" else None
            low, high = wilson(row.queries.values, level, trials)
        else:
            low, high = interval(row.samples, level)
        return replace(row, result=replace(row.result, low=low, high=high))


def images_behind(
    query_ids: IntArray, library: Library, split: str, direction: str, collection: Collection = COCO
) -> IntArray:
    """(Q,) image id of each query: its own id, or that of the image a caption was written for."""
    if direction.startswith("i"):
        return query_ids
    content = collection.content(library, split)
    return content.caption_image_ids[positions_of(query_ids, content.caption_ids)[0]]
