"""The similarity of every rated pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cxc_eccv.errors import DataError, MalformedRun
from cxc_eccv.evaluation.needs.need import AnyRanks, Need, Scored, Variant
from cxc_eccv.evaluation.settings import Settings
from cxc_eccv.ranking.rank import similarities_of_run
from cxc_eccv.runs import Run
from cxc_eccv.tasks.task import Task
from cxc_eccv.types import FloatArray, RatedPairs, Result
from cxc_eccv.types.reported import SPREAD

__all__ = ["PairSimilarities"]


class PairSimilarities(Need[RatedPairs]):
    """The similarity of every rated pair."""

    def __init__(self, task: Task, part: str, judged: RatedPairs, variants: Sequence[Variant]) -> None:
        super().__init__(task, part, judged, variants)
        self.query_ids, self.gallery_ids = judged.query_ids, judged.item_ids
        self._similarities: FloatArray

    @classmethod
    def why_not(cls, run: Run, direction: str) -> str | None:
        """Rankings have no similarities, whatever the direction."""
        if run.kind == "rankings":
            return "rankings do not tell how similar rated pairs are"
        return super().why_not(run, direction)

    def learn(self, run: Run, ranks: Mapping[str, AnyRanks], similarity: str | None) -> None:
        """Multiply the pairs out."""
        self._similarities = similarities_of_run(run, self.direction, self.judged, similarity=similarity)

    def score(self, variant: Variant, settings: Settings) -> list[Scored]:
        """One number; or of samples two, their mean and their standard deviation (ddof 0)."""
        options = variant.spec.accepted({"seed": settings.seed})
        try:
            values = variant.spec.function(self.judged, self._similarities, **variant.parameters, **options)
        except (DataError, MalformedRun) as error:
            self.errors[variant.label] = error
            return []
        parameters = dict(variant.parameters) | ({"n_samples": values.size} if values.ndim else {})
        n_queries = int(np.unique(self.query_ids).size)
        row = Result(self.task.name, self.part, variant.label, float(values.mean()), n_queries, parameters=parameters)
        if not values.ndim:
            return [Scored(variant, row)]
        spread = replace(row, metric=f"{variant.label}{SPREAD}", value=float(values.std()))
        return [Scored(variant, row, samples=values), Scored(variant, spread)]
