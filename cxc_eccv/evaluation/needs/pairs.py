"""Needs of metrics on pairs: similarities of rated pairs, and scores of captions and hard negatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cxc_eccv.errors import DataError, MalformedRun
from cxc_eccv.evaluation.needs.need import AnyRanks, Need, QueryValues, Scored, Variant
from cxc_eccv.evaluation.settings import Settings
from cxc_eccv.ranking.rank import similarities_of_run
from cxc_eccv.runs import EmbeddingsRun, Run
from cxc_eccv.runs.altered import compared_captions
from cxc_eccv.tasks.task import NotApplicable, Task
from cxc_eccv.types import Comparisons, Embeddings, FloatArray, RatedPairs, Result
from cxc_eccv.types.reported import SPREAD


class PairSimilarities(Need[RatedPairs]):
    """The similarity of every rated pair."""

    def __init__(self, task: Task, part: str, judged: RatedPairs, variants: Sequence[Variant]) -> None:
        super().__init__(task, part, judged, variants)
        self.query_ids, self.gallery_ids = judged.query_ids, judged.item_ids
        self._similarities: FloatArray

    @classmethod
    def why_not(cls, run: Run, direction: str) -> str | None:
        """Why the run has no similarities, or None."""
        if run.kind == "rankings":
            return "rankings have no similarities of rated pairs"
        return super().why_not(run, direction)

    def learn(self, run: Run, ranks: Mapping[str, AnyRanks], similarity: str | None) -> None:
        """Compute the similarities of the pairs."""
        self._similarities = similarities_of_run(run, self.direction, self.judged, similarity=similarity)

    def score(self, variant: Variant, settings: Settings) -> list[Scored]:
        """One result; for a metric with samples their mean and standard deviation (ddof 0)."""
        options = variant.spec.select_options({"seed": settings.seed})
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


class ComparedScores(Need[Comparisons]):
    """The scores of images with their caption and a hard negative, whose vectors are further arrays of the run."""

    def __init__(self, task: Task, part: str, judged: Comparisons, variants: Sequence[Variant]) -> None:
        super().__init__(task, part, judged, variants)
        self.query_ids, self.gallery_ids = np.unique(judged.image_ids), np.empty(0, dtype=np.int64)
        self._scores: tuple[FloatArray, FloatArray]

    @classmethod
    def why_not(cls, run: Run, direction: str) -> str | None:
        """Why the run has no images, or None; the captions come in further arrays."""
        return run.why_not("i2i")

    @classmethod
    def build(
        cls, task: Task, part: str, judged: Comparisons, variants: Sequence[Variant], run: Run
    ) -> list[Need[Comparisons]]:
        """One need; raises NotApplicable if the run lacks the vectors of the part's items."""
        if compared_captions(run, task.name, part, task.parts, judged) is None:
            raise NotApplicable(f"the run has no arrays {task.name}_{part}_...")
        return [cls(task, part, judged, variants)]

    def learn(self, run: Run, ranks: Mapping[str, AnyRanks], similarity: str | None) -> None:
        """Compute the scores of captions and negatives together, so that equal vectors tie."""
        vectors = compared_captions(run, self.task.name, self.part, self.task.parts, self.judged)
        if vectors is None or not isinstance(run, EmbeddingsRun):
            raise MalformedRun(f"{self.key}: the run has no vectors of its captions")
        both = np.concatenate(vectors)
        combined = replace(run, captions=Embeddings(np.arange(len(both)), both))
        pairs = RatedPairs(np.tile(self.judged.image_ids, 2), np.arange(len(both)), np.zeros(len(both)))
        captions, negatives = np.split(similarities_of_run(combined, self.direction, pairs, similarity=similarity), 2)
        self._scores = captions, negatives

    def score(self, variant: Variant, settings: Settings) -> list[Scored]:
        """One result."""
        captions, negatives = self._scores
        values = variant.spec.function(captions, negatives, **variant.parameters)
        judged = self.judged
        queries = QueryValues(judged.item_ids, values, images=judged.image_ids, among=judged.among)
        return self.aggregate(variant, queries, ties=int(np.count_nonzero(captions == negatives)))
