"""Distribution of ranks: in which range the best positive of a query stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from cxc_eccv.types import FloatArray, IntArray, Report

__all__ = ["LABELS", "BestRanks", "RankBins", "best_ranks", "rank_bins"]

UPPER = (1, 5, 10, 50, 100, 500, 1_000)
LABELS = (
    "1",
    "2 to 5",
    "6 to 10",
    "11 to 50",
    "51 to 100",
    "101 to 500",
    "501 to 1,000",
    "over 1,000",
    "not found",
)
"""The last holds queries whose given ranking ends before their best positive, or whose positives no run can find."""


@dataclass(frozen=True, slots=True)
class RankBins:
    """One direction of one task.

    Attributes:
        task, direction: what was ranked.
        counts: queries in each range of ``LABELS``.
    """

    task: str
    direction: str
    counts: tuple[int, ...]

    @property
    def total(self) -> int:
        """All queries."""
        return sum(self.counts)


def rank_bins(ranks: Mapping[str, BestRanks]) -> list[RankBins]:
    """One row per task and direction.

    Args:
        ranks: ``task/direction`` to best ranks.

    Example:
        >>> rank_bins({"cxc/i2t": BestRanks(np.array([1, 2, 3]), np.array([1, 5, 2000]))})[0].counts
        (1, 1, 0, 0, 0, 0, 0, 1, 0)
    """
    rows = []
    for key, one in ranks.items():
        task, _, direction = key.partition("/")
        inside = np.bincount(np.searchsorted(UPPER, one.found), minlength=len(UPPER) + 1)
        rows.append(RankBins(task, direction, (*inside.tolist(), one.ranks.size - one.found.size)))
    return rows


@dataclass(frozen=True, slots=True, eq=False)
class BestRanks:
    """One direction of one task.

    Attributes:
        query_ids: (Q,) int64.
        ranks: (Q,) 1-based rank of the best positive, infinite where no ranking holds one.
        depth: ranks beyond it are not known, because rankings were given cut short; None where all are known.
    """

    query_ids: IntArray
    ranks: FloatArray
    depth: int | None = None

    @property
    def found(self) -> IntArray:
        """The ranks of those that were found."""
        return self.ranks[np.isfinite(self.ranks)].astype(np.int64)


def best_ranks(report: Report) -> dict[str, BestRanks]:
    """``task/direction`` to the best ranks of its queries; tasks that rank no positives are not in it.

    Args:
        report: with or without per-query values.

    Example:
        >>> import pyarrow as pa
        >>> rows = {"query_id": [7, 7], "task": ["cxc"] * 2, "direction": ["t2t"] * 2, "metric": ["mrr", "map_at_r"]}
        >>> table = pa.table(rows | {"value": [0.5, 0.25], "best_rank": [2, 2]})
        >>> best_ranks(Report((), {}, {}, table))["cxc/t2t"].ranks.tolist()
        [2.0]
    """
    if report.per_query is None:
        return {}
    table = report.per_query
    keys = pc.binary_join_element_wise(table["task"].cast("string"), table["direction"].cast("string"), "/")
    encoded = keys.combine_chunks().dictionary_encode()
    codes, metrics = encoded.indices.to_numpy(), np.asarray(table["metric"].cast("string"))
    queries, ranks = np.asarray(table["query_id"]), np.asarray(pc.fill_null(table["best_rank"].cast("double"), np.inf))
    found = {}
    for code, key in enumerate(encoded.dictionary.to_pylist()):
        rows = np.flatnonzero(codes == code)
        rows = rows[metrics[rows] == metrics[rows[0]]]  # every metric repeats the rank
        if np.isfinite(ranks[rows]).any():
            found[key] = BestRanks(queries[rows], ranks[rows], _known_depth(report, key.partition("/")[2]))
    return found


def _known_depth(report: Report, direction: str) -> int | None:
    run = report.provenance.get("run") or {}
    depth = run.get("directions", {}).get(direction, {}).get("shallowest")
    return None if depth is None else int(depth)
