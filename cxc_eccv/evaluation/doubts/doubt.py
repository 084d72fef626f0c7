"""Doubt, the declaration, and Evidence, what doubts look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cxc_eccv.evaluation.needs import MeasuredRanks
from cxc_eccv.evaluation.score import MeasuredPart, ScoredPart
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
        return [row.result for part in self.scored for row in part.rows if row.variant.shown]

    def rankings(self) -> Iterator[tuple[str, MeasuredRanks, IntArray]]:
        """One part of each direction in which positives are ranked: direction, ranks, (Q,) images of the queries."""
        images = {part.part.key: row.images for part in self.scored for row in part.rows if row.images is not None}
        seen: set[str] = set()
        for part in self.measured:
            direction = part.part.needs[0].direction
            if direction in seen or part.part.key not in images:
                continue
            ranks = [each for each in part.measured if isinstance(each, MeasuredRanks)]
            if ranks:
                seen.add(direction)
                yield direction, ranks[0], images[part.part.key]


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
    """The mean over images of the means of their queries, and its standard error; NaN for a single image."""
    _, owners = np.unique(images, return_inverse=True)
    means = np.bincount(owners, values) / np.bincount(owners)
    if means.size < 2:
        return float(means.mean()), float("nan")
    return float(means.mean()), float(means.std(ddof=1) / np.sqrt(means.size))
