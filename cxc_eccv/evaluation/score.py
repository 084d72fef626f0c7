"""From what was measured to numbers with their intervals: values of queries first, then what they come to.

Intervals are a bootstrap over images that keeps the captions of one image together, or Wilson's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import DataError
from cxc_eccv.evaluation.needs import QueryValues, Scored
from cxc_eccv.evaluation.select import Part
from cxc_eccv.evaluation.settings import Settings
from cxc_eccv.kernels import drawn_places, drawn_sums, times_drawn
from cxc_eccv.sources.library import Library
from cxc_eccv.tasks.task import COCO, Collection
from cxc_eccv.types import FloatArray, IntArray, positions_of

__all__ = ["ClusterBootstrap", "Draws", "Scorer", "images_behind", "interval", "wilson"]

SAMPLES = 1_000
WINDOW_DEVIATIONS = 5.0


class Scorer:
    """Turns what was measured into the numbers of a report.

    Args:
        library: says which image stands behind a caption.
        split: of the judgments.
        settings: of the report.
    """

    def __init__(self, library: Library, split: str, settings: Settings) -> None:
        self._library, self._split, self._settings = library, split, settings
        self._draws = None if settings.level is None else Draws(settings.seed)

    def score(self, part: Part) -> list[Scored]:
        """All metrics of one part that can be computed, in their order."""
        settings = self._settings.on(self._library, self._split, part.task.collection)
        rows = [
            row
            for variant, need in part.needs_of_variants
            if variant.label not in need.errors
            for row in need.score(variant, settings)
        ]
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


class Draws:
    """The random draws behind every interval of a report.

    They depend on the seed and the number of clusters alone: statistics over the same images are drawn together, so
    their samples may be added one by one (RSUM) or compared in pairs.

    Args:
        seed: of the generator.
        samples: number of resamples.

    Example:
        >>> Draws(seed=0, samples=4).times(3).sum(axis=1).tolist()
        [3, 3, 3, 3]
    """

    def __init__(self, seed: int, samples: int = SAMPLES) -> None:
        self.seed, self.samples = seed, samples
        self._times: dict[int, NDArray[np.integer]] = {}
        self._lock = Lock()

    def times(self, count: int) -> NDArray[np.integer]:
        """(S, count) how often each of ``count`` clusters is drawn, with replacement, in each sample."""
        with self._lock:
            if count not in self._times:
                self._times[count] = times_drawn(np.random.default_rng(self.seed), self.samples, count)
            return self._times[count]


class ClusterBootstrap:
    """Resamples clusters of queries with replacement and recomputes their mean or median.

    Captions of one image are not independent: resampling single queries would make the interval too narrow.

    Args:
        clusters: (Q,) image id of each query.
        draws: the random draws, shared by a whole report.
        among: (I,) ids of the images that are drawn, for queries of which another metric has others; None for those
            that stand behind the queries.

    Raises:
        DataError: a sample holds none of the queries.

    References:
        Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 8.

    Example:
        >>> bootstrap = ClusterBootstrap(np.array([1, 1, 2, 2]), Draws(seed=0, samples=4))
        >>> bootstrap.means(np.array([[5.0], [5.0], [5.0], [5.0]])).ravel().tolist()
        [5.0, 5.0, 5.0, 5.0]
    """

    def __init__(self, clusters: IntArray, draws: Draws, among: IntArray | None = None) -> None:
        drawn = np.unique(clusters if among is None else among)
        self._members = np.searchsorted(drawn, clusters)
        self._sizes = np.bincount(self._members, minlength=drawn.size)
        self._times = draws.times(self._sizes.size)
        self._totals = drawn_sums(self._times, self._sizes)
        if not self._totals.all():
            raise DataError(
                f"{np.unique(clusters).size} of {drawn.size} images have queries: too few for an interval, as a sample "
                "of the images may hold none of them. Ask for no intervals (--intervals none, intervals='none')."
            )

    def means(self, values: FloatArray) -> FloatArray:
        """(M, S) means of every sample."""
        sums = np.stack([np.bincount(self._members, column, self._sizes.size) for column in values.T])
        return drawn_sums(self._times, sums) / self._totals

    def medians(self, values: FloatArray) -> FloatArray:
        """(S,) medians of every sample.

        Only values near the middle can be a sample's median; the rest enters as a count. A sample whose median falls
        outside that window is computed over all values.
        """
        order = np.argsort(values, kind="stable")
        margin = WINDOW_DEVIATIONS * np.sqrt(values.size * self._sizes.max()) / 2 + 1
        window = max(0, int(values.size / 2 - margin)), min(values.size, int(np.ceil(values.size / 2 + margin)))
        ordered, members = values[order], self._members[order]
        medians = self._find_medians(ordered, members, window, self._times, self._totals)
        outside = np.flatnonzero(np.isnan(medians))
        if outside.size:
            medians[outside] = self._find_medians(
                ordered, members, (0, values.size), self._times[outside], self._totals[outside]
            )
        return medians

    def _find_medians(
        self,
        values: FloatArray,
        members: IntArray,
        window: tuple[int, int],
        times: NDArray[np.integer],
        totals: FloatArray,
    ) -> FloatArray:
        """Weighted medians of sorted values, NaN where one lies outside the window."""
        start, stop = window
        below = drawn_sums(times, np.bincount(members[:start], minlength=self._sizes.size))
        ranks = np.stack([(totals - 1) // 2, totals // 2]).astype(np.int64)
        lower, upper = drawn_places(times, members[start:stop], below.astype(np.int64), ranks)
        inside = (below <= ranks[0]) & (upper < stop - start)
        lower, upper = (np.minimum(index, stop - start - 1) for index in (lower, upper))
        return np.where(inside, (values[start + lower] + values[start + upper]) / 2, np.nan)


def interval(samples: FloatArray, confidence: float) -> tuple[float, float]:
    """Percentile interval of bootstrap samples.

    Example:
        >>> interval(np.arange(101.0), 0.5)
        (25.0, 75.0)
    """
    tail = (1 - confidence) / 2
    low, high = np.quantile(samples, [tail, 1 - tail])
    return float(low), float(high)


def wilson(values: FloatArray, confidence: float, trials: int | None = None) -> tuple[float, float]:
    """Wilson's score interval of a proportion, without continuity correction, as SciPy computes it.

    It takes trials to be independent, which captions of one image are not: the bootstrap over images is wider there.

    References:
        Wilson, Probable Inference, the Law of Succession, and Statistical Inference, JASA 1927.

    Example:
        >>> import numpy as np
        >>> found = np.array([1.0, 0.0, 0.0, 1.0])
        >>> tuple(round(bound, 3) for bound in wilson(found, 0.95))
        (0.15, 0.85)
        >>> tuple(round(bound, 3) for bound in wilson(found, 0.95, trials=2))
        (0.095, 0.905)
    """
    from scipy.special import ndtri  # a third of all imports, for this one number

    n, share, z = trials or values.size, float(values.mean()), float(ndtri(0.5 + 0.5 * confidence))
    divisor = 2 * (n + z**2)
    centre = (2 * n * share + z**2) / divisor
    half = z / divisor * math.sqrt(4 * n * share * (1 - share) + z**2)
    return 0.0 if share == 0 else centre - half, 1.0 if share == 1 else centre + half
