"""Needs of metrics on pairs: similarities of rated pairs, and scores of captions and hard negatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, MalformedRun
from cxc_eccv.evaluation.needs.need import AnyRanks, Need, QueryValues, Scored, Variant
from cxc_eccv.evaluation.settings import Settings
from cxc_eccv.ranking.rank import similarities_of_run
from cxc_eccv.runs import EmbeddingsRun, Run
from cxc_eccv.runs.embeddings import compared_captions
from cxc_eccv.statistics import Draws
from cxc_eccv.tasks.task import TEXT, NotApplicable, Task
from cxc_eccv.types import CROSS_MODAL, Comparisons, Embeddings, FloatArray, RatedPairs, Result
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
        if run.kind == "multi-vectors" and direction not in CROSS_MODAL:
            return "the MaxSim of a rated pair depends on which of the two is the query"
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
            return [Scored(variant, row, samples=self._draw(variant, settings))]
        spread = replace(row, metric=f"{variant.label}{SPREAD}", value=float(values.std()))
        return [Scored(variant, row, samples=values), Scored(variant, spread)]

    def _draw(self, variant: Variant, settings: Settings) -> FloatArray | None:
        """(S,) values over draws of the queries, each with all its pairs; None for a metric that gives none."""
        if variant.spec.samples is None or settings.level is None:
            return None
        query_ids, clusters = np.unique(self.query_ids, return_inverse=True)
        times = Draws(settings.seed).times(query_ids.size)
        return variant.spec.samples(self.judged, self._similarities, times, clusters)


class ComparedScores(Need[Comparisons]):
    """The scores of captions and of a hard negative, whose vectors are further arrays of the run."""

    def __init__(self, task: Task, part: str, judged: Comparisons, variants: Sequence[Variant]) -> None:
        super().__init__(task, part, judged, variants)
        none = np.empty(0, dtype=np.int64)
        self.query_ids, self.gallery_ids = none if judged.of_text else np.unique(judged.image_ids), none
        self._scores: tuple[FloatArray, FloatArray]

    @classmethod
    def why_not(cls, run: Run, direction: str) -> str | None:
        """Why the run lacks the images or captions, or None; the sentences come in further arrays."""
        return run.why_not("i2i" if direction == "i2t" else direction)

    @classmethod
    def build(
        cls, task: Task, part: str, judged: Comparisons, variants: Sequence[Variant], run: Run
    ) -> list[Need[Comparisons]]:
        """One need; raises NotApplicable if the run lacks the vectors of the part's items."""
        need = cls(task, part, judged, variants)
        if need._read_vectors(run) is None:
            raise NotApplicable(f"the run has no arrays {task.config}_{need._part}_...")
        return [need]

    @property
    def _part(self) -> str:
        """What the part is called in the names of arrays."""
        return self.part.removeprefix(TEXT)

    def _read_vectors(self, run: Run) -> list[NDArray[np.float32]] | None:
        parts = [part.removeprefix(TEXT) for part in self.task.parts]
        return compared_captions(run, self.task.config, self._part, parts, self.judged)

    def learn(self, run: Run, ranks: Mapping[str, AnyRanks], similarity: str | None) -> None:
        """Compute the scores of captions and negatives together, so that equal vectors tie.

        Each of two captions must win by itself: the lower score of right pairs stands against the higher one of wrong
        pairs.
        """
        vectors = self._read_vectors(run)
        if vectors is None or not isinstance(run, EmbeddingsRun):
            raise MalformedRun(f"{self.key}: the run has no vectors of its captions")
        every = np.concatenate(vectors)
        seen = replace(run, captions=Embeddings(np.arange(len(every)), every))
        *captions, negatives = np.split(np.arange(len(every)), len(vectors))
        right = (
            [(captions[0], captions[1])]
            if self.judged.of_text
            else [(self.judged.image_ids, texts) for texts in captions]
        )
        wrong = (
            [(texts, negatives) for texts in captions] if self.judged.of_text else [(self.judged.image_ids, negatives)]
        )
        queries, items = (np.concatenate(side) for side in zip(*right, *wrong, strict=True))
        pairs = RatedPairs(queries, items, np.zeros(items.size))
        scores = similarities_of_run(seen, self.direction, pairs, similarity=similarity)
        scores = scores.reshape(len(right) + len(wrong), -1)
        self._scores = scores[: len(right)].min(axis=0), scores[len(right) :].max(axis=0)

    def score(self, variant: Variant, settings: Settings) -> list[Scored]:
        """One result."""
        captions, negatives = self._scores
        values = variant.spec.function(captions, negatives, **variant.parameters)
        judged = self.judged
        queries = QueryValues(judged.item_ids, values, images=judged.image_ids, among=judged.among)
        return self.aggregate(variant, queries, ties=int(np.count_nonzero(captions == negatives)))
