"""What is read from the rows of the score matrix: all of it, or nothing where rankings end too early."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import RunTooShallow
from cxc_eccv.evaluation.needs.need import AnyRanks, Judged, Need, Variant
from cxc_eccv.ranking.lists import rows_of
from cxc_eccv.ranking.readers import PlausibleRows, TopRows, too_shallow
from cxc_eccv.runs import RankingsRun, Run
from cxc_eccv.tasks.task import Task
from cxc_eccv.types import IntArray

__all__ = ["FromRows", "StoppingReader"]


class StoppingReader:
    """A reader that stops where rankings end too early, and remembers why."""

    def __init__(self, rows: TopRows | PlausibleRows) -> None:
        self.query_ids, self.gallery_ids = rows.query_ids, rows.gallery_ids
        self.without_self, self.deepest, self.attach = rows.without_self, rows.deepest, rows.attach
        self.error: RunTooShallow | None = None
        self.rows = rows

    def read(self, block: NDArray[Any], start: int) -> None:
        """Take a block of scores."""
        self._unless_too_short(self.rows.read, block, start)

    def take(self, queries: IntArray, scores: NDArray[Any], items: IntArray) -> None:
        """Take the best items of some queries."""
        self._unless_too_short(self.rows.take, queries, scores, items)

    @property
    def ended(self) -> bool:
        """Whether it has stopped."""
        return self.error is not None

    @property
    def needs(self) -> IntArray:
        """(Q,) items that it takes of every query."""
        return self.rows.needs

    def _unless_too_short(self, read: Callable[..., None], *arguments: Any) -> None:  # noqa: ANN401 - as it takes them
        if self.error is None:
            try:
                read(*arguments)
            except RunTooShallow as error:
                self.error = error


class FromRows(Need[Judged]):
    """What a reader learns from the rows of the score matrix, all at once or not at all."""

    def _read_with(self, rows: TopRows | PlausibleRows) -> None:
        self.query_ids, self.gallery_ids, self.reader = rows.query_ids, rows.gallery_ids, StoppingReader(rows)
        self.readers = (self.reader,)

    @classmethod
    def build(cls, task: Task, part: str, judged: Judged, variants: Sequence[Variant], run: Run) -> list[Need[Judged]]:
        """One for each metric of rankings, which may be long enough for some and too short for others."""
        groups = [[variant] for variant in variants] if run.kind == "rankings" else [variants]
        return [cls(task, part, judged, group) for group in groups]

    def find_too_short(self, run: RankingsRun) -> dict[str, RunTooShallow]:
        """Rankings that hold fewer items than are read."""
        needed = self.reader.needs
        held = run.depths(self.direction)[rows_of(run, self.direction, self.query_ids)]
        short = np.flatnonzero(held < needed)
        if not short.size:
            return {}
        first = short[0]
        error = too_shallow(self.query_ids[first], needed[first], held[first], self.reader.rows.reason)
        return dict.fromkeys((variant.label for variant in self.variants), error)

    def learn(self, run: Run, ranks: Mapping[str, AnyRanks], similarity: str | None) -> None:
        """Find out whether the rankings were long enough."""
        if self.reader.error is not None:
            self.errors |= dict.fromkeys((variant.label for variant in self.variants), self.reader.error)
