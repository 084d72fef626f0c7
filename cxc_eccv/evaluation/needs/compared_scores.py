"""The scores of an image with its caption and with a hard negative."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cxc_eccv.errors import MalformedRun
from cxc_eccv.evaluation.needs.need import AnyRanks, Need, QueryValues, Scored, Variant
from cxc_eccv.evaluation.settings import Settings
from cxc_eccv.ranking.rank import similarities_of_run
from cxc_eccv.runs import EmbeddingsRun, Run
from cxc_eccv.runs.altered import compared_captions
from cxc_eccv.tasks.task import NotApplicable, Task
from cxc_eccv.types import Comparisons, Embeddings, FloatArray, RatedPairs

__all__ = ["ComparedScores"]


class ComparedScores(Need[Comparisons]):
    """The scores of an image with its caption and with a hard negative, whose vectors are further arrays of the run."""

    def __init__(self, task: Task, part: str, judged: Comparisons, variants: Sequence[Variant]) -> None:
        super().__init__(task, part, judged, variants)
        self.query_ids, self.gallery_ids = np.unique(judged.image_ids), np.empty(0, dtype=np.int64)
        self._scores: tuple[FloatArray, FloatArray]

    @classmethod
    def why_not(cls, run: Run, direction: str) -> str | None:
        """Its captions come in arrays of their own; the images must be there."""
        return run.why_not("i2i")

    @classmethod
    def build(
        cls, task: Task, part: str, judged: Comparisons, variants: Sequence[Variant], run: Run
    ) -> list[Need[Comparisons]]:
        """One, if the run has the vectors of the part's items."""
        if compared_captions(run, task.name, part, task.parts, judged) is None:
            raise NotApplicable(f"the run has no arrays {task.name}_{part}_...")
        return [cls(task, part, judged, variants)]

    def learn(self, run: Run, ranks: Mapping[str, AnyRanks], similarity: str | None) -> None:
        """Multiply the pairs out: captions and negatives alike, so that equal vectors tie."""
        vectors = compared_captions(run, self.task.name, self.part, self.task.parts, self.judged)
        if vectors is None or not isinstance(run, EmbeddingsRun):
            raise MalformedRun(f"{self.key}: the run has no vectors of its captions")
        both = np.concatenate(vectors)
        seen = replace(run, captions=Embeddings(np.arange(len(both)), both))
        pairs = RatedPairs(np.tile(self.judged.image_ids, 2), np.arange(len(both)), np.zeros(len(both)))
        captions, negatives = np.split(similarities_of_run(seen, self.direction, pairs, similarity=similarity), 2)
        self._scores = captions, negatives

    def score(self, variant: Variant, settings: Settings) -> list[Scored]:
        """One number; an image's items are drawn together."""
        captions, negatives = self._scores
        values = variant.spec.function(captions, negatives, **variant.parameters)
        judged = self.judged
        queries = QueryValues(judged.item_ids, values, images=judged.image_ids, among=judged.among)
        return self.aggregate(variant, queries, ties=int(np.count_nonzero(captions == negatives)))
