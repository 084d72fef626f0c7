"""Plausible matches among the top of every ranking."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cxc_eccv.evaluation.needs.need import QueryValues, Scored, Variant
from cxc_eccv.evaluation.needs.rows import FromRows
from cxc_eccv.evaluation.settings import Settings
from cxc_eccv.judgments.plausible import CategoryMatches, PlausibleHits
from cxc_eccv.ranking.readers import PlausibleRows
from cxc_eccv.tasks.task import Task

__all__ = ["MatchCounts"]


class MatchCounts(FromRows[CategoryMatches]):
    """Plausible matches among the top of every ranking."""

    def __init__(self, task: Task, part: str, judged: CategoryMatches, variants: Sequence[Variant]) -> None:
        super().__init__(task, part, judged, variants)
        looks = dict.fromkeys(look for variant in variants for look in variant.spec.looks)
        self._rows = PlausibleRows(judged, tuple(looks))
        self._read_with(self._rows)

    @property
    def hits(self) -> PlausibleHits:
        """The matches, once they were read."""
        return self._rows.result

    def score(self, variant: Variant, settings: Settings) -> list[Scored]:
        """One number."""
        hits = self.hits
        queries = QueryValues(hits.query_ids, variant.spec.function(hits, **variant.parameters))
        return self.aggregate(variant, queries, ties=int(np.count_nonzero(hits.ties)))
