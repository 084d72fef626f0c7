"""Needs of metrics on the top items of every query, and on rated pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, MalformedRun
from cxc_eccv.evaluation.needs.need import Judged, Need, QueryValues, Scored, Variant, describe_cut
from cxc_eccv.evaluation.policies import policy_name, policy_of
from cxc_eccv.evaluation.request import Request, Sides
from cxc_eccv.judgments.plausible import CategoryMatches
from cxc_eccv.metrics.entail_at_k import Classifier
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.ranking import Ranked
from cxc_eccv.ranking.readers import JudgedRows, PlausibleRows, TopRows
from cxc_eccv.statistics import Draws
from cxc_eccv.tasks.task import Task
from cxc_eccv.types import FloatArray, IntArray, Judgments, PositiveRanks, RatedPairs, Result, TopK, look_up_gains
from cxc_eccv.types.ids import make_indptr
from cxc_eccv.types.reported import SPREAD


class _FromRows(Need[Judged]):
    """A need whose reader reads rows of the score matrix, and fails as a whole if rankings are too short."""

    def _read_with(self, reader: TopRows | PlausibleRows | JudgedRows) -> None:
        self.query_ids, self.gallery_ids, self.reader = reader.query_ids, reader.gallery_ids, reader
        self.readers = (reader,)

    @classmethod
    def build(
        cls, task: Task, part: str, judged: Judged, variants: Sequence[Variant], sides: Sides
    ) -> list[Need[Judged]]:
        """One need for each metric of rankings, which may be long enough for some only."""
        groups = [[variant] for variant in variants] if sides.may_be_cut else [variants]
        return [cls(task, part, judged, group) for group in groups]

    @property
    def caution(self) -> str:
        """A warning about rankings that end within a tie."""
        return describe_cut(self.reader.n_cut, self.query_ids.size)

    def learn(self, ranker: Ranked, ranks: Mapping[str, PositiveRanks]) -> None:
        """Record an error if the rankings were too short."""
        if self.reader.error is not None:
            self.errors |= dict.fromkeys((variant.label for variant in self.variants), self.reader.error)

    @property
    def result(self) -> Any:  # noqa: ANN401 - TopK, PlausibleHits or JudgedRanks
        """What the metrics need, after the pass."""
        return self.reader.result

    def score(self, variant: Variant, request: Request) -> list[Scored]:
        """One result."""
        ranks = self.result
        queries = QueryValues(
            ranks.query_ids, variant.spec.function(ranks, **variant.parameters, **variant.spec.options)
        )
        return self.aggregate(variant, queries, ties=int(np.count_nonzero(ranks.ties)))


class MatchCounts(_FromRows[CategoryMatches]):
    """Plausible matches among the top of every ranking."""

    def __init__(self, task: Task, part: str, judged: CategoryMatches, variants: Sequence[Variant]) -> None:
        super().__init__(task, part, judged, variants)
        looks = dict.fromkeys(look for variant in variants for look in variant.spec.looks)
        self._read_with(PlausibleRows(judged, tuple(looks)))


class JudgedItems(_FromRows[Judgments]):
    """Ranks of all judged items, negatives too."""

    def __init__(self, task: Task, part: str, judged: Judgments, variants: Sequence[Variant]) -> None:
        super().__init__(task, part, judged, variants)
        self._read_with(JudgedRows(judged))


class TopItems(_FromRows[Judgments]):
    """The top K of every query, or the top R for a metric without K, with judgments with gains."""

    def __init__(self, task: Task, part: str, judged: Judgments, variants: Sequence[Variant]) -> None:
        super().__init__(task, part, judged, variants)
        self._read_with(TopRows(judged, max(int(self._depths(variant).max()) for variant in variants)))
        self._answers: tuple[NDArray[Any], IntArray] | None = None

    @property
    def top(self) -> TopK:
        """The items, after the pass."""
        top: TopK = self.result
        return top

    @property
    def n_asked(self) -> int:
        """Number of pairs that a classifier labelled."""
        return 0 if self._answers is None else self._answers[1].size

    @classmethod
    def fits(cls, spec: Spec, task: Task) -> bool:
        """Whether metric and task have the same kind of gains: ratings, labels or degrees."""
        return spec.gains == task.gains

    def _depths(self, variant: Variant) -> IntArray:
        """(Q,) depth of a metric: K or R."""
        wanted = self.judged.n_relevant
        return np.full_like(wanted, variant.parameters["k"]) if "k" in variant.parameters else wanted

    def score(self, variant: Variant, request: Request) -> list[Scored]:
        """One result, under the policy for unjudged pairs if the metric has one."""
        top, judgments, depths = self.top, self.judged, self._depths(variant)
        k = int(depths.max())
        gains, judged = look_up_gains(top, judgments, k, variant.label)
        looked_at = np.arange(gains.shape[1]) < depths[:, None]
        ties, coverage = _count_tied(top, gains, looked_at), float(judged[looked_at].mean())
        parameters = dict(variant.parameters)
        options = variant.spec.select_options({"unjudged": request.unjudged})
        if options:
            parameters["unjudged"] = policy_name(request.unjudged)
            options["unjudged"] = self._policy(policy_of(request.unjudged), k)
        if options.get("unjudged") == "leave_out":
            top, judgments = _keep_queries(top, judgments, np.flatnonzero(judged.any(axis=1)))
            parameters["queries_left_out"] = self.query_ids.size - top.query_ids.size
            if not top.query_ids.size:
                raise DataError(
                    f"{variant.label}: no query has a labelled pair among its top {k}; choose another policy"
                )
        values = variant.spec.function(top, judgments, **variant.parameters, **options)
        queries = QueryValues(top.query_ids, values)
        return self.aggregate(variant, queries, ties=ties, coverage=coverage, parameters=parameters)

    def _policy(self, policy: str | Classifier, k: int) -> str | Classifier:
        """The policy for K; a classifier is asked only once, about all pairs down to the greatest depth."""
        if isinstance(policy, str):
            return policy
        if self._answers is None:
            top = self.top
            rows, places = np.nonzero(~look_up_gains(top, self.judged, top.depth, self.key)[1])
            labels = np.asarray(policy(top.query_ids[rows], top.ids[rows, places])) if rows.size else np.empty(0)
            if labels.shape != rows.shape:
                raise DataError(
                    f"{self.key}: the classifier returned labels of shape {labels.shape} for {rows.size} pairs"
                )
            self._answers = labels, places
        labels, places = self._answers
        return lambda _queries, _items: labels[places < k]  # the metric asks in the same order, row by row


def _keep_queries(top: TopK, judgments: Judgments, rows: IntArray) -> tuple[TopK, Judgments]:
    entries = np.isin(judgments.rows, rows)
    return TopK(top.query_ids[rows], top.ids[rows]), replace(
        judgments,
        query_ids=judgments.query_ids[rows],
        indptr=make_indptr(np.diff(judgments.indptr)[rows]),
        indices=judgments.indices[entries],
        unreachable=judgments.unreachable[rows],
        gains=None if judgments.gains is None else judgments.gains[entries],
    )


def _count_tied(top: TopK, gains: FloatArray, looked_at: NDArray[np.bool_]) -> int:
    """Number of queries in which items of different gain tie in the top, or a tie continues below it."""
    if top.scores is None or top.cut is None:
        return 0
    equal = top.scores[:, 1:] == top.scores[:, :-1]
    within = (equal[:, : gains.shape[1] - 1] & (gains[:, 1:] != gains[:, :-1]) & looked_at[:, 1:]).any(axis=1)
    goes_on, last = np.column_stack([equal, top.cut > 0]), looked_at.sum(axis=1) - 1
    return int(np.count_nonzero(within | goes_on[np.arange(last.size), last]))


class PairSimilarities(Need[RatedPairs]):
    """The similarity of every rated pair."""

    def __init__(self, task: Task, part: str, judged: RatedPairs, variants: Sequence[Variant]) -> None:
        super().__init__(task, part, judged, variants)
        self.query_ids, self.gallery_ids = judged.query_ids, judged.item_ids
        self._similarities: FloatArray

    @classmethod
    def why_not(cls, sides: Sides, direction: str) -> str | None:
        """Why the run has no similarities, or None."""
        return sides.why_unrated(direction)

    def learn(self, ranker: Ranked, ranks: Mapping[str, PositiveRanks]) -> None:
        """Compute the similarities of the pairs."""
        self._similarities = ranker.compare(self.judged, self.direction)

    def score(self, variant: Variant, request: Request) -> list[Scored]:
        """One result; for a metric with samples their mean and standard deviation (ddof 0)."""
        options = variant.spec.select_options({"seed": request.seed})
        try:
            values = variant.spec.function(self.judged, self._similarities, **variant.parameters, **options)
        except (DataError, MalformedRun) as error:
            self.errors[variant.label] = error
            return []
        parameters = dict(variant.parameters) | ({"n_samples": values.size} if values.ndim else {})
        n_queries = int(np.unique(self.query_ids).size)
        row = Result(self.task.name, self.part, variant.label, float(values.mean()), n_queries, parameters=parameters)
        if not values.ndim:
            return [Scored(variant, row, samples=self._draw(variant, request))]
        spread = replace(row, metric=f"{variant.label}{SPREAD}", value=float(values.std()))
        return [Scored(variant, row, samples=values), Scored(variant, spread)]

    def _draw(self, variant: Variant, request: Request) -> FloatArray | None:
        """(S,) values over draws of the queries, each with all its pairs; None for a metric that gives none."""
        if variant.spec.samples is None or request.level is None:
            return None
        query_ids, clusters = np.unique(self.query_ids, return_inverse=True)
        times = Draws(request.seed).times(query_ids.size)
        return variant.spec.samples(self.judged, self._similarities, times, clusters)
