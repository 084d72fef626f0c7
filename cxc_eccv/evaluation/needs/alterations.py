"""What altered captions in the galleries do to the ranks of the positives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cxc_eccv.errors import MalformedRun
from cxc_eccv.evaluation.needs.need import AnyRanks, Need, QueryValues, Scored, Variant
from cxc_eccv.evaluation.settings import Settings
from cxc_eccv.ranking.lists import GivenRanks
from cxc_eccv.ranking.readers import BestRows
from cxc_eccv.runs import Run
from cxc_eccv.tasks.task import Task
from cxc_eccv.types import Judgments
from cxc_eccv.types.altered import AlteredRanks, is_altered, without_altered

__all__ = ["Alterations"]


class Alterations(Need[Judgments]):
    """What altered captions in the galleries do to the ranks of the positives, and how often they stand first."""

    ranks: AlteredRanks

    def __init__(self, task: Task, part: str, judged: Judgments, variants: Sequence[Variant]) -> None:
        super().__init__(task, part, judged, variants)
        plain = without_altered(judged)
        self.query_ids, self.gallery_ids = judged.query_ids, judged.gallery_ids
        self.requests = {f"{self.key} altered": judged, f"{self.key} plain": plain}
        altered = judged.gallery_ids[is_altered(judged.gallery_ids)]
        self._best = [BestRows(judged.query_ids, items) for items in (altered, plain.gallery_ids)]
        self.readers = self._best

    def learn(self, run: Run, ranks: Mapping[str, AnyRanks], similarity: str | None) -> None:
        """Take the ranks; an altered caption is first where no original scores higher, as it stands above its ties."""
        altered, plain = (ranks[name] for name in self.requests)
        if isinstance(altered, GivenRanks) or isinstance(plain, GivenRanks):
            raise MalformedRun("rankings have no altered captions")
        best_altered, best_original = (reader.result for reader in self._best)
        ties = best_altered == best_original
        self.ranks = AlteredRanks(plain, altered, best_altered >= best_original, ties)

    def score(self, variant: Variant, settings: Settings) -> list[Scored]:
        """One number."""
        ranks = self.ranks
        queries = QueryValues(self.query_ids, variant.spec.function(ranks, **variant.parameters))
        # With a depth, positives stand within it or do not.
        ties = ranks.altered.ties if variant.parameters else ranks.top_ties
        return self.aggregate(variant, queries, ties=int(np.count_nonzero(ties)))
