"""Whether a number hangs on the order of items with equal scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cxc_eccv.evaluation.doubts.doubt import Doubt, Evidence
from cxc_eccv.metrics.kinds import UNIT_FACTORS
from cxc_eccv.registry import metric_labelled
from cxc_eccv.types import Result

SMALLEST_GAPS = {"percent": 0.001, "rank": 0.5, "number": 0.1}
"""Unit of a metric to the smallest gap that is told."""

GAP_IN_HALF_WIDTHS = 0.1
"""The smallest gap in half widths of the interval."""


def deciding_ties(evidence: Evidence) -> str | None:
    """Say which numbers another order of items with equal scores changes by more than their uncertainty allows."""
    deciding = find_deciding(evidence.results)
    if not deciding:
        return None
    return (
        f"Ties decide {describe_range(deciding)}. If the scores were rounded or saturate, give them as they were "
        "before, in float32; equal captions and images tie in any precision: report both ends (docs/ties.md)."
    )


def find_deciding(results: Iterable[Result]) -> list[Result]:
    """The results with a gap that matters, the greatest gap first."""
    excess: list[tuple[float, Result]] = []
    for row in results:
        if row.if_ties_help is None:
            continue
        unit = metric_labelled(row.metric)[0].unit
        half_width = 0.0 if row.low is None or row.high is None else (row.high - row.low) / 2
        least = max(SMALLEST_GAPS[unit], GAP_IN_HALF_WIDTHS * half_width)
        gap = abs(row.if_ties_help - row.value)
        if gap > least:
            excess.append((gap / least, row))
    excess.sort(key=lambda pair: -pair[0])
    return [row for _, row in excess]


def describe_range(deciding: Sequence[Result]) -> str:
    """The number that ties move most, with both of its ends, and how many more they move."""
    row = deciding[0]
    factor = UNIT_FACTORS[metric_labelled(row.metric)[0].unit]
    ends = f"{factor * row.value:.1f} if a tied item ranks above a positive, {factor * (row.if_ties_help or 0):.1f} if"
    more = len(deciding) - 1
    others = f"; {more} further {'number' if more == 1 else 'numbers'}" if more else ""
    queries = f"{row.decided_by_ties:,} of {row.n_queries:,} queries"
    return f"{row.key} ({ends} below; {queries}{others})"


DOUBT = Doubt(deciding_ties)
