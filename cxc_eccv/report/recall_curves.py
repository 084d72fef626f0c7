"""Recall over k: one panel per task, one curve per direction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from cxc_eccv.report.best_ranks import BestRanks
from cxc_eccv.types import FloatArray, IntArray, Report

__all__ = ["Curve", "CurvePanel", "Mark", "curve_panels", "table_depths"]

DEEPEST, SHALLOWEST = 1_000, 10
POINTS = 61
TABLE_DEPTHS = (1, 5, 10, 50, 100, 500, 1_000)
MARKED_DEPTHS = (1, 5, 10)


@dataclass(frozen=True, slots=True)
class Mark:
    """A recall of the report with its interval: depth, value and bounds, as fractions."""

    k: int
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Fraction of queries with a positive in the top k.

    Attributes:
        direction: of the task.
        ks: (P,) depths, ascending.
        recalls: (P,) fractions.
        marks: recalls of the report that carry an interval.
    """

    direction: str
    ks: IntArray
    recalls: FloatArray
    marks: tuple[Mark, ...]

    def at(self, k: int) -> float | None:
        """The recall at one of the depths, None where the curve has none.

        Example:
            >>> Curve("i2t", np.array([1, 5]), np.array([0.25, 0.5]), ()).at(5)
            0.5
        """
        places = np.flatnonzero(self.ks == k)
        return float(self.recalls[places[0]]) if places.size else None


@dataclass(frozen=True, slots=True, eq=False)
class CurvePanel:
    """The curves of one task."""

    task: str
    curves: tuple[Curve, ...]


def curve_panels(report: Report, ranks: Mapping[str, BestRanks]) -> list[CurvePanel]:
    """A panel per task that ranks positives, all to the same depth.

    Args:
        report: gives the intervals.
        ranks: ``task/direction`` to best ranks.

    Example:
        >>> ranks = {"cxc/i2t": BestRanks(np.array([1, 2]), np.array([1, 12]))}
        >>> panel = curve_panels(Report((), {}, {}), ranks)[0]
        >>> panel.curves[0].at(1), panel.curves[0].at(10), int(panel.curves[0].ks[-1])
        (0.5, 0.5, 12)
    """
    depths = _shown_depths(ranks)
    panels: dict[str, list[Curve]] = {}
    for key, one in ranks.items():
        task, _, direction = key.partition("/")
        ks = depths if one.depth is None else depths[depths <= one.depth]
        if not ks.size:  # a ranking that holds its own query alone tells nothing of any depth
            continue
        recalls = np.searchsorted(np.sort(one.ranks), ks, side="right") / one.ranks.size
        panels.setdefault(task, []).append(Curve(direction, ks, recalls, _marks(report, task, direction, ks)))
    return [CurvePanel(task, tuple(curves)) for task, curves in panels.items()]


def table_depths(panels: Iterable[CurvePanel]) -> list[int]:
    """Depths that a table of the curves shows: those of 1, 5, 10, 50, ... that any curve reaches.

    Example:
        >>> table_depths([CurvePanel("cxc", (Curve("i2t", np.array([1, 5, 7]), np.ones(3), ()),))])
        [1, 5]
    """
    deepest = max((int(curve.ks[-1]) for panel in panels for curve in panel.curves), default=0)
    return [k for k in TABLE_DEPTHS if k <= deepest]


def _shown_depths(ranks: Mapping[str, BestRanks]) -> IntArray:
    """Depths from 1 to at most 1,000, evenly spread on a logarithmic axis; those of the tables are among them."""
    if not ranks:
        return np.empty(0, dtype=np.int64)
    largest = max(int(one.found.max()) if one.depth is None else one.depth for one in ranks.values())
    limit = int(np.clip(largest, SHALLOWEST, DEEPEST))
    spread = np.round(np.geomspace(1, limit, POINTS)).astype(np.int64)
    return np.union1d(spread, [k for k in TABLE_DEPTHS if k <= limit])


def _marks(report: Report, task: str, direction: str, ks: IntArray) -> tuple[Mark, ...]:
    rows = {row.metric: row for row in report.results if (row.task, row.direction) == (task, direction)}
    marks = []
    for k in MARKED_DEPTHS:
        row = rows.get(f"recall_at_{k}")
        if row is not None and row.low is not None and row.high is not None and k <= ks[-1]:
            marks.append(Mark(k, row.value, row.low, row.high))
    return tuple(marks)
