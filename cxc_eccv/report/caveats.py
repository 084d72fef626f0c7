"""What stands between a number and its meaning: ties, pairs without a label, tasks that were skipped."""

from __future__ import annotations

from dataclasses import dataclass

from cxc_eccv.report.wording import metric_name
from cxc_eccv.types import Report

__all__ = ["Caveat", "caveats", "skipped_by_reason"]


@dataclass(frozen=True, slots=True)
class Caveat:
    """One direction of one task.

    Attributes:
        task, direction: what was scored.
        n_queries: queries behind the largest of its numbers.
        ties: queries in which an item tied with a positive and was counted as ranked above it.
        coverage: metric to the share of the pairs it needs that carry a label; empty where all do.
    """

    task: str
    direction: str
    n_queries: int
    ties: int
    coverage: tuple[tuple[str, float], ...]

    @property
    def coverage_text(self) -> str:
        """The coverage in words."""
        return ", ".join(f"{metric} {100 * covered:.1f} %" for metric, covered in self.coverage) or "all"


def caveats(report: Report) -> list[Caveat]:
    """One row per task and direction, in the report's order.

    Example:
        >>> from cxc_eccv.types import Result
        >>> caveats(Report((Result("entailment", "i2t", "entail_at_1", 0.5, 9, ties=2, coverage=0.25),), {}, {}))
        [Caveat(task='entailment', direction='i2t', n_queries=9, ties=2, coverage=(('Entail@1', 0.25),))]
    """
    rows = []
    for key in dict.fromkeys((result.task, result.direction) for result in report.results if result.direction):
        own = [result for result in report.results if (result.task, result.direction) == key]
        covered = tuple((metric_name(one.metric), one.coverage) for one in own if one.coverage is not None)
        rows.append(Caveat(*key, max(one.n_queries for one in own), max(one.ties for one in own), covered))
    return rows


def skipped_by_reason(report: Report) -> list[tuple[str, list[str]]]:
    """Reason to the tasks, directions or metrics that were skipped for it.

    Example:
        >>> skipped_by_reason(Report((), {"cxc/i2t": "no images", "cxc/i2i": "no images"}, {}))
        [('no images', ['cxc/i2t', 'cxc/i2i'])]
    """
    by_reason: dict[str, list[str]] = {}
    for name, reason in report.skipped.items():
        by_reason.setdefault(reason, []).append(name)
    return list(by_reason.items())
