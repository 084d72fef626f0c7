"""Ranks from counts of scores, which exist for every item of the gallery."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from cxc_eccv.errors import MissingIds
from cxc_eccv.ranking.counts import Counts, MergedJudgments, RowPairs
from cxc_eccv.ranking.missing import find_rows
from cxc_eccv.ranking.ranked import NO_READERS, Items, Ranked, Readers, Requests, collect_ids, collect_missing
from cxc_eccv.ranking.readers import RowReader
from cxc_eccv.ranking.scores import Layout, Options, Scores, scan
from cxc_eccv.ranking.ties import rank_positives
from cxc_eccv.runs import EmbeddingsRun, ScoresRun
from cxc_eccv.types import SIDES, Judgments, PositiveRanks


class ByCounts(Ranked):
    """A run with a score for every query with every item."""

    run: EmbeddingsRun | ScoresRun

    @abstractmethod
    def count(self, merged: Mapping[str, MergedJudgments], readers: Readers) -> dict[str, Counts]:
        """Counts of the positive pairs of every direction; the readers read the scores too."""

    def rank_all(self, judgments: Requests, readers: Readers = NO_READERS) -> Mapping[str, PositiveRanks]:
        """Exact ranks by name; judgments of one direction are merged."""
        grouped: dict[str, dict[str, Judgments]] = {direction: {} for direction in readers}
        for name, (direction, judged) in judgments.items():
            grouped.setdefault(direction, {})[name] = judged
        merged = {
            direction: MergedJudgments.of(named, readers.get(direction, ())) for direction, named in grouped.items()
        }
        counts = self.count(merged, readers)
        return {
            name: rank_positives(merged[direction].shares[name], counts[direction])
            for name, (direction, _) in judgments.items()
        }

    def find_missing(self, needs: Iterable[Items]) -> list[MissingIds]:
        """An error for each side that lacks items."""
        needs = [*needs]
        sides = {side: collect_ids(side, needs) for side in SIDES}
        return collect_missing(partial(find_rows, ids, self.run, side) for side, ids in sides.items() if ids.size)


def count_and_read(
    scores: Scores,
    merged: MergedJudgments,
    layout: Layout,
    readers: Sequence[RowReader],
    options: Options,
    label: str,
) -> Counts:
    """Count the positive pairs whose queries are rows; readers read the same blocks."""
    pairs = RowPairs(merged.queries, layout.column[merged.items], layout.bounds, scores.count_rows)
    for reader in readers:
        reader.attach(merged.query_ids, merged.gallery_ids, layout.column, layout.width)

    def read(block: Any, start: int) -> None:  # noqa: ANN401 - as scores fill it
        pairs.read(block, start)
        for reader in readers:
            reader.read(scores.to_host(block), start)

    scan(scores, read, options, label)
    return pairs.result
