"""Doubt, the declaration, and Evidence, what doubts look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from cxc_eccv.evaluation.measure import MeasuredPart
from cxc_eccv.evaluation.metric_inputs import RankResult, ScoredMetric
from cxc_eccv.evaluation.score import ScoredPart
from cxc_eccv.runs import Run
from cxc_eccv.types import FloatArray, IntArray, Result


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """The run, what was measured of it, and the results.

    Attributes:
        run: the run; None for ranks of unknown origin.
        measured: the parts of all tasks, in the order of the report.
        scored: the results of these parts, and of the whole tasks.
    """

    run: Run | None
    measured: Sequence[MeasuredPart]
    scored: Sequence[ScoredPart]

    @property
    def results(self) -> list[Result]:
        """The results that the report shows."""
        rows = chain.from_iterable(part.shown for part in self.scored)
        return [row.result for row in rows]

    def rankings(self) -> Iterator[tuple[str, RankResult, IntArray]]:
        """One part of each direction in which positives are ranked: direction, ranks, (Q,) images of the queries."""
        rows = {part.part.key: part.rows for part in self.scored}
        seen: set[str] = set()
        for part in self.measured:
            direction = part.part.inputs[0].direction
            for result in part.results:
                if direction in seen or not isinstance(result, RankResult):
                    continue
                images = _find_images(rows.get(part.part.key, ()), result.ranks.query_ids)
                if images is not None:
                    seen.add(direction)
                    yield direction, result, images


def _find_images(rows: Sequence[ScoredMetric], query_ids: IntArray) -> IntArray | None:
    """(Q,) image of each query, from a result over the same queries; None if there is none."""
    for row in rows:
        if row.queries is not None and row.images is not None and np.array_equal(row.queries.ids, query_ids):
            return row.images
    return None


@dataclass(frozen=True, slots=True)
class Doubt:
    """Declaration of a doubt.

    Attributes:
        find: maps evidence to one sentence, or None; its name is the doubt's and that of its file.
        explains: names of doubts whose findings this one causes, so that they are not told beside it.
    """

    find: Callable[[Evidence], str | None]
    explains: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The function's name."""
        return self.find.__name__


def average_by_image(values: FloatArray, images: IntArray) -> tuple[float, float]:
    """The mean over images, at least two, of the means of their queries, and its standard error."""
    _, owners = np.unique(images, return_inverse=True)
    means = np.bincount(owners, values) / np.bincount(owners)
    return float(means.mean()), float(means.std(ddof=1) / np.sqrt(means.size))
