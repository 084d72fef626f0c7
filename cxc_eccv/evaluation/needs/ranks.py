"""Needs of metrics on ranks: ranks of the positives, without and with altered captions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import MalformedRun, RunTooShallow
from cxc_eccv.evaluation.needs.need import AnyRanks, Need, QueryValues, Scored, Variant
from cxc_eccv.evaluation.settings import Settings
from cxc_eccv.ranking.lists import FAR, GivenRanks, depths_alone, needed_depth, values_at_known_depth
from cxc_eccv.ranking.readers import BestRows
from cxc_eccv.runs import RankingsRun, Run
from cxc_eccv.tasks.task import Task
from cxc_eccv.types import Judgments, PositiveRanks
from cxc_eccv.types.altered import AlteredRanks, without_altered
from cxc_eccv.types.ids import is_altered

TIED_SHARE = 0.1


class Ranks(Need[Judgments]):
    """Ranks of the positives of every query."""

    given: AnyRanks

    def __init__(self, task: Task, part: str, judged: Judgments, variants: Sequence[Variant]) -> None:
        super().__init__(task, part, judged, variants)
        self.query_ids, self.gallery_ids = judged.query_ids, judged.gallery_ids
        self.requests = {self.key: judged}

    @property
    def ranks(self) -> PositiveRanks:
        """The ranks, from any kind of run."""
        return self.given.ranks if isinstance(self.given, GivenRanks) else self.given

    def find_too_short(self, run: RankingsRun) -> dict[str, RunTooShallow]:
        """Label to error, for metrics that need deeper rankings; with folds rankings must be whole."""
        if run.lists[self.direction].known is not None:  # lengths alone do not show which positives are known
            return {}
        given = depths_alone(run, self.direction, self.judged)
        if self.judged.gallery_folds is not None:
            return self._find_unsettled(given, self.variants)
        sizes = np.unique(given.ranks.n_positives)
        depths = [(each, needed_depth(each.spec.function, sizes, **each.parameters)) for each in self.variants]
        return self._find_unsettled(given, [variant for variant, depth in depths if (depth < FAR).all()])

    def learn(self, run: Run, ranks: Mapping[str, AnyRanks], similarity: str | None) -> None:
        """Take the ranks."""
        self.settle(ranks[self.key])

    def settle(self, ranks: AnyRanks) -> None:
        """Take ranks, and find the metrics that need deeper rankings."""
        self.given = ranks
        if isinstance(ranks, GivenRanks):
            self.errors |= self._find_unsettled(ranks, self.variants)

    @property
    def caution(self) -> str:
        """A warning if many items tie with a positive in many queries; a few equal captions are usual."""
        if all(variant.label in self.errors for variant in self.variants):
            return ""
        ties, sizes = self.ranks.ties, self.ranks.n_gallery
        decided = int(np.count_nonzero(ties > TIED_SHARE * sizes))
        if decided <= TIED_SHARE * ties.size:
            return ""
        return (
            f"{decided} of {ties.size} queries are decided by ties: more than {TIED_SHARE:.0%} of the gallery scores "
            "exactly as high as a positive, and these items rank above it"
        )

    def score(self, variant: Variant, settings: Settings) -> list[Scored]:
        """One result, with the best rank of every query."""
        ranks = self.ranks
        values = variant.spec.function(ranks, **variant.parameters)
        best = pa.array(ranks.best, mask=np.diff(ranks.indptr) == 0)
        return self.aggregate(
            variant, QueryValues(ranks.query_ids, values, best), ties=int(np.count_nonzero(ranks.ties))
        )

    def _find_unsettled(self, ranks: GivenRanks, variants: Sequence[Variant]) -> dict[str, RunTooShallow]:
        """Label to error, for metrics that need deeper rankings; with folds (COCO 1K) rankings must be whole."""
        if self.judged.gallery_folds is not None and not ranks.by_fold and not ranks.complete.all():
            query = np.flatnonzero(~ranks.complete)[0]
            error = RunTooShallow(
                f"folds are cut out of rankings of the whole gallery of {self.gallery_ids.size} items, but that of "
                f"query {self.query_ids[query]} holds {ranks.depths[query]} of the "
                f"{ranks.ranks.n_gallery[query]} items of its fold. Rank the whole gallery."
            )
            return dict.fromkeys((variant.label for variant in variants), error)
        errors: dict[str, RunTooShallow] = {}
        for variant in variants:
            try:
                values_at_known_depth(variant.spec.function, ranks, **variant.parameters)
            except RunTooShallow as error:
                errors[variant.label] = error
        return errors


class Alterations(Need[Judgments]):
    """Ranks of the positives without and with altered captions, and how often an altered caption ranks first."""

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
        """Take the ranks; an altered caption ranks first unless an original scores higher."""
        altered, plain = (ranks[name] for name in self.requests)
        if isinstance(altered, GivenRanks) or isinstance(plain, GivenRanks):
            raise MalformedRun("rankings have no altered captions")
        best_altered, best_original = (reader.result for reader in self._best)
        ties = best_altered == best_original
        self.ranks = AlteredRanks(plain, altered, best_altered >= best_original, ties)

    def score(self, variant: Variant, settings: Settings) -> list[Scored]:
        """One result."""
        ranks = self.ranks
        queries = QueryValues(self.query_ids, variant.spec.function(ranks, **variant.parameters))
        # A metric at K depends on ties of positives, one without K on ties at the top.
        ties = ranks.altered.ties if variant.parameters else ranks.top_ties
        return self.aggregate(variant, queries, ties=int(np.count_nonzero(ties)))
