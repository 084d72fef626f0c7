"""Bootstrap over clusters: the draws, shared by all statistics of a report, and the means and medians they give."""

from __future__ import annotations

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import DataError
from cxc_eccv.kernels import drawn_places, drawn_sums, times_drawn
from cxc_eccv.types import FloatArray, IntArray

__all__ = ["SAMPLES", "ClusterBootstrap", "Draws"]

SAMPLES = 1_000
WINDOW_DEVIATIONS = 5.0


class Draws:
    """The random draws behind every interval of a report."""

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

    References:
        Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 8.
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
