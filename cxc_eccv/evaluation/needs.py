"""What a metric can need: one class each, with what it asks of a run, what it learns, and the values that come of it.

A :class:`Need` stands for what some metrics of one part of a task are computed from. A new one is a class of this file
and its line in :data:`NEEDS`, under a name that :mod:`cxc_eccv.metrics.spec` allows; ``Spec.needs`` and ``Task.offers``
speak of it by that name, and no other stage of an evaluation does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import CxcEccvError, DataError, InvalidOption, MalformedRun, RunTooShallow
from cxc_eccv.evaluation.bounds import (
    Retrieved,
    TopOfKnown,
    ask_probabilities,
    bounds_of_matches,
    bounds_of_ranks,
    bounds_of_sums,
    bounds_of_top,
    bounds_of_tops,
)
from cxc_eccv.evaluation.settings import Settings, policy_name, policy_of
from cxc_eccv.judgments.plausible import CategoryMatches
from cxc_eccv.judgments.qrels import judged_pairs
from cxc_eccv.metrics.entail_at_k import Classifier
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.ranking.lists import FAR, GivenRanks, depths_alone, needed_depth, rows_of, values_at_known_depth
from cxc_eccv.ranking.rank import similarities_of_run
from cxc_eccv.ranking.readers import BestRows, PlausibleRows, RowReader, TopRows, too_shallow
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, Run
from cxc_eccv.runs.compared import compared_captions
from cxc_eccv.sources.library import Library
from cxc_eccv.tasks.task import NotApplicable, Task, direction_of
from cxc_eccv.types import (
    Bounds,
    Comparisons,
    Embeddings,
    FloatArray,
    IntArray,
    Judgments,
    PositiveRanks,
    RatedPairs,
    Result,
    TopK,
    look_up_gains,
)
from cxc_eccv.types.altered import AlteredRanks, is_altered, without_altered

__all__ = ["NEEDS", "AnyRanks", "Need", "OtherScores", "QueryValues", "Ranks", "Scored", "TopItems", "Variant"]

AnyRanks = PositiveRanks | GivenRanks
"""Ranks of the positives of every query; those of given rankings as far as these tell them."""

Judged = TypeVar("Judged")

TIED_SHARE = 0.1
CROSS_MODAL = ("i2t", "t2i")


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """A metric with the parameters of one call.

    Attributes:
        spec: the metric's declaration.
        parameters: keyword arguments of the call.
        shown: whether the report lists it; otherwise it is computed for another metric's sake.
    """

    spec: Spec
    parameters: dict[str, Any]
    shown: bool = True

    @property
    def label(self) -> str:
        """The name in report keys."""
        return self.spec.label(**self.parameters)

    @property
    def need(self) -> type[Need[Any]]:
        """What it is computed from."""
        return NEEDS[self.spec.needs]


@dataclass(frozen=True, slots=True, eq=False)
class QueryValues:
    """One metric's value for each query.

    Attributes:
        ids: (Q,) int64.
        values: (Q,) float64.
        best_ranks: (Q,) rank of the best positive, null where none was found; None where no positives are ranked.
        images: (Q,) image behind each query; None where the ids, or the captions of the split, tell it.
        among: (I,) images that an interval draws from; None for those behind the queries.
    """

    ids: IntArray
    values: FloatArray
    best_ranks: pa.Array | None = None
    images: IntArray | None = None
    among: IntArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """One number of a report, in full.

    Attributes:
        variant: the metric and its parameters.
        result: the row of the report.
        queries: the values that it aggregates, or None where it is no aggregate over queries.
        images: (Q,) image behind each of these queries, or None.
        samples: (S,) resampled numbers, or None.
    """

    variant: Variant
    result: Result
    queries: QueryValues | None = None
    images: IntArray | None = None
    samples: FloatArray | None = None


class Need(Generic[Judged]):
    """What some metrics of one part of a task are computed from.

    Args:
        task: the declaration.
        part: one of its directions or kinds of rated pairs; empty for the whole task.
        judged: what the part has for such metrics.
        variants: the metrics.

    Attributes:
        direction: from which modality to which.
        query_ids, gallery_ids: what a run must hold for it.
        judgments: whose positives must be ranked for it, or None.
        reader: what must read the scores for it, or None.
        errors: label of each metric that cannot be computed to the error that says why.
        unbounded: label of each metric that can be computed, but not its bounds over the unjudged, to the reason.
    """

    judgments: Judgments | None = None
    reader: RowReader | None = None
    query_ids: IntArray
    gallery_ids: IntArray

    def __init__(self, task: Task, part: str, judged: Judged, variants: Sequence[Variant]) -> None:
        self.task, self.part, self.judged, self.variants = task, part, judged, tuple(variants)
        self.direction = direction_of(part)
        self.errors: dict[str, CxcEccvError] = {}
        self.unbounded: dict[str, str] = {}

    @classmethod
    def build(cls, task: Task, part: str, judged: Judged, variants: Sequence[Variant], run: Run) -> list[Need[Judged]]:
        """One for all the metrics, or several where they must be told apart in this kind of run."""
        return [cls(task, part, judged, variants)]

    @classmethod
    def fits(cls, spec: Spec, task: Task) -> bool:
        """Whether what a task offers under this name is what the metric means by it."""
        return True

    @classmethod
    def why_not(cls, run: Run, direction: str) -> str | None:
        """Why a run can never give it, or None."""
        return run.why_not(direction)

    @property
    def key(self) -> str:
        """``task/part``, or the task alone."""
        return f"{self.task.name}/{self.part}" if self.part else self.task.name

    @property
    def requests(self) -> Mapping[str, Judgments]:
        """Name to the judgments whose positives must be ranked for it; their ranks have that name."""
        return {} if self.judgments is None else {self.key: self.judgments}

    @property
    def caution(self) -> str:
        """What a user is warned of, or nothing."""
        return ""

    def find_too_short(self, run: RankingsRun) -> dict[str, RunTooShallow]:
        """Label of each metric that the mere lengths of rankings rule out, and the error that says where.

        Others may turn out to lack items too, once the rankings are read.
        """
        return {}

    @property
    def readers(self) -> Sequence[RowReader]:
        """All that must read the scores for it."""
        return () if self.reader is None else (self.reader,)

    def look_for_unjudged(self, run: Run, library: Library, split: str, depth: int, sources: Sequence[str]) -> None:
        """Prepare for bounds over the pairs that no source judged, those of so many items of every query.

        Called before the pass over the run. ``unbounded`` then has the label of each metric that cannot have bounds,
        and why.
        """

    def learn(self, run: Run, ranks: Mapping[str, AnyRanks], similarity: str | None) -> None:
        """Take what the pass over the run gave."""

    def score(self, variant: Variant, settings: Settings) -> list[Scored]:
        """The numbers of one metric, their intervals apart."""
        raise NotImplementedError

    def aggregate(
        self,
        variant: Variant,
        queries: QueryValues,
        *,
        ties: int,
        coverage: float | None = None,
        parameters: dict[str, Any] | None = None,
        bounds: Bounds | None = None,
    ) -> list[Scored]:
        """The one number of a metric that has a value for each query: their mean or median."""
        values = queries.values
        row = Result(
            self.task.name,
            self.part,
            variant.label,
            variant.spec.average(values),
            values.size,
            ties=ties,
            coverage=coverage,
            parameters=dict(variant.parameters) if parameters is None else parameters,
            bounds=bounds,
        )
        return [Scored(variant, row, queries)]


class Ranks(Need[Judgments]):
    """Ranks of the positives of every query.

    Example:
        >>> from cxc_eccv.metrics.mrr import SPEC
        >>> from cxc_eccv.registry import task
        >>> mrr = Variant(SPEC, {})
        >>> need = Ranks(task("coco_5k"), "i2t", Judgments.from_pairs([5], [7, 8], [5], [7]), [mrr])
        >>> need.settle(PositiveRanks.of([[2]]))
        >>> need.score(mrr, Settings())[0].result.value
        0.5
    """

    def __init__(self, task: Task, part: str, judged: Judgments, variants: Sequence[Variant]) -> None:
        super().__init__(task, part, judged, variants)
        self.query_ids, self.gallery_ids, self.judgments = judged.query_ids, judged.gallery_ids, judged
        self._ranks: PositiveRanks
        self._top: TopOfKnown | None = None
        self._depth = 0
        self._stopping: list[_StoppingReader] = []
        self._retrieved: Retrieved | None = None
        self._probabilities: FloatArray | None = None

    def find_too_short(self, run: RankingsRun) -> dict[str, RunTooShallow]:
        """In folds all but whole rankings; else what a metric looks at, wherever the positives stand."""
        given = depths_alone(run, self.direction, self.judged)
        folds = self.judged.gallery_folds is not None
        return self._find_unsettled(given, [own for own in self.variants if folds or _is_limited(own, given)])

    @property
    def readers(self) -> Sequence[RowReader]:
        """Of the top of every query, where bounds are asked for."""
        return self._stopping

    def look_for_unjudged(self, run: Run, library: Library, split: str, depth: int, sources: Sequence[str]) -> None:
        """Read the top, of rankings as far down as all go; what the sources of its labels judged is known."""
        deepest = max(_looks_at(variant, depth) for variant in self.variants)
        if isinstance(run, RankingsRun):
            deepest = min(deepest, int(run.depths(self.direction)[rows_of(run, self.direction, self.query_ids)].min()))
        known = judged_pairs(library, split, self.direction, sources)
        self._top, self._depth = TopOfKnown(self.judged, known, deepest), depth
        self._stopping = [_StoppingReader(reader) for reader in self._top.readers]
        needed = {variant.label: min(_looks_at(variant, depth), self._top.largest) for variant in self.variants}
        self.unbounded = {
            label: f"bounds look at the top {items}, but the rankings hold {deepest} items; ask for bounds_depth="
            f"{deepest} (--bounds-depth {deepest}), or rank more"
            for label, items in needed.items()
            if items > self._top.depth
        }

    def learn(self, run: Run, ranks: Mapping[str, AnyRanks], similarity: str | None) -> None:
        """Take its own ranks, and find out whether rankings were long enough for bounds."""
        self.settle(ranks[self.key])
        for reader in self._stopping:
            if reader.error is not None:
                self.unbounded |= dict.fromkeys((variant.label for variant in self.variants), str(reader.error))
                return
        if self._top is not None:
            self._retrieved = self._top.retrieved(self._ranks, self._depth)
            deepest = min(self._depth, self._top.depth)
            self.unbounded = self._find_unsettled_bounds(ranks[self.key], deepest) | self.unbounded

    def _find_unsettled_bounds(self, ranks: AnyRanks, depth: int) -> dict[str, str]:
        """R grows with each label: a metric at R then looks below the retrieved items, for known positives there."""
        if not isinstance(ranks, GivenRanks):
            return {}
        needed = np.where(ranks.complete, 0, ranks.ranks.n_positives + depth)
        if (ranks.depths >= needed).all():
            return {}
        reason = (
            f"with all {depth} retrieved items labelled it looks at the top {needed.max()}, but a ranking ends at rank "
            f"{ranks.depths[ranks.depths < needed].min()}; ask for a smaller bounds_depth (--bounds-depth) or rank more"
        )
        return {own.label: reason for own in self.variants if not own.spec.best_rank}

    def _bound(self, variant: Variant, settings: Settings) -> Bounds | None:
        """Bounds over the unjudged; probabilities are asked once for all metrics, of pairs that matter to any."""
        top = self._retrieved
        if top is None or variant.label in self.unbounded:
            return None
        if self._probabilities is None and self.direction in CROSS_MODAL and settings.probabilities_of is not None:
            own = [variant for variant in self.variants if variant.label not in {*self.unbounded, *self.errors}]
            asked = np.any([top.matters(own.spec, own.parameters) for own in own], axis=0)
            self._probabilities = ask_probabilities(
                settings.probabilities_of, self.direction, self.query_ids, top.ids, asked
            )
        return bounds_of_ranks(variant.spec, variant.parameters, top, self._probabilities)

    def settle(self, ranks: AnyRanks) -> None:
        """Take ranks, whatever gave them, and find the metrics that they end too early for."""
        self.errors |= self._find_unsettled(ranks, self.variants)
        self._ranks = ranks.ranks if isinstance(ranks, GivenRanks) else ranks

    @property
    def caution(self) -> str:
        """A model gives many items the same score; a few equal captions are no cause for alarm."""
        if all(variant.label in self.errors for variant in self.variants):
            return ""
        ties, sizes = self._ranks.ties, self._ranks.n_gallery
        decided = int(np.count_nonzero(ties > TIED_SHARE * sizes))
        if decided <= TIED_SHARE * ties.size:
            return ""
        return (
            f"{decided} of {ties.size} queries are decided by ties: more than {TIED_SHARE:.0%} of the gallery scores "
            "exactly as high as a positive, and each of these items counts as ranked above it"
        )

    def score(self, variant: Variant, settings: Settings) -> list[Scored]:
        """One number, with the best rank of every query."""
        ranks = self._ranks
        values = variant.spec.function(ranks, **variant.parameters)
        best = pa.array(ranks.best, mask=np.diff(ranks.indptr) == 0)
        queries = QueryValues(ranks.query_ids, values, best)
        bounds = self._bound(variant, settings)
        return self.aggregate(variant, queries, ties=int(np.count_nonzero(ranks.ties)), bounds=bounds)

    def _find_unsettled(self, ranks: AnyRanks, variants: Sequence[Variant]) -> dict[str, RunTooShallow]:
        """In folds (COCO 1K) only whole rankings settle anything: how many items of its fold one holds is chance."""
        if not isinstance(ranks, GivenRanks):
            return {}
        if self.judged.gallery_folds is not None and not ranks.complete.all():
            query = np.flatnonzero(~ranks.complete)[0]
            error = RunTooShallow(
                f"folds are cut out of rankings of the whole gallery, {self.gallery_ids.size} items; that of query "
                f"{self.query_ids[query]} holds {ranks.depths[query]} of the {ranks.ranks.n_gallery[query]} items of "
                "its fold. Rank the whole gallery."
            )
            return dict.fromkeys((variant.label for variant in variants), error)
        errors = {variant.label: _refuse_depth(ranks, variant) for variant in variants}
        return {label: error for label, error in errors.items() if error is not None}


def _looks_at(variant: Variant, depth: int) -> int:
    """How many items of a query count as retrieved."""
    return int(variant.parameters.get("k", depth))


def _is_limited(variant: Variant, given: GivenRanks) -> bool:
    """Whether a metric looks so deep and no deeper, wherever the positives stand."""
    sizes = np.unique(given.ranks.n_positives)
    return bool((needed_depth(variant.spec.function, sizes, **variant.parameters) < FAR).all())


def _refuse_depth(given: GivenRanks, variant: Variant) -> RunTooShallow | None:
    try:
        values_at_known_depth(variant.spec.function, given, **variant.parameters)
    except RunTooShallow as error:
        return error
    return None


class _StoppingReader:
    """A reader that stops where rankings end too early, and remembers why."""

    def __init__(self, rows: TopRows | PlausibleRows) -> None:
        self.query_ids, self.gallery_ids = rows.query_ids, rows.gallery_ids
        self.without_self, self.deepest, self.attach = rows.without_self, rows.deepest, rows.attach
        self.error: RunTooShallow | None = None
        self._rows = rows

    def read(self, block: NDArray[Any], start: int) -> None:
        self._unless_too_short(self._rows.read, block, start)

    def take(self, queries: IntArray, scores: NDArray[Any], items: IntArray) -> None:
        self._unless_too_short(self._rows.take, queries, scores, items)

    @property
    def ended(self) -> bool:
        return self.error is not None

    @property
    def needs(self) -> IntArray:
        return self._rows.needs

    def _unless_too_short(self, read: Callable[..., None], *arguments: Any) -> None:  # noqa: ANN401 - as it takes them
        if self.error is None:
            try:
                read(*arguments)
            except RunTooShallow as error:
                self.error = error


class _FromRows(Need[Judged]):
    """What a reader learns from the rows of the score matrix, all at once or not at all."""

    reader: _StoppingReader
    _rows: TopRows | PlausibleRows

    def _read_with(self, rows: TopRows | PlausibleRows) -> None:
        self._rows, self.reader = rows, _StoppingReader(rows)
        self.query_ids, self.gallery_ids = rows.query_ids, rows.gallery_ids

    @classmethod
    def build(cls, task: Task, part: str, judged: Judged, variants: Sequence[Variant], run: Run) -> list[Need[Judged]]:
        """One for each metric of rankings, which may be long enough for some and too short for others."""
        groups = [[variant] for variant in variants] if run.kind == "rankings" else [variants]
        return [cls(task, part, judged, group) for group in groups]

    def find_too_short(self, run: RankingsRun) -> dict[str, RunTooShallow]:
        """Rankings that hold fewer items than are read."""
        needed = self._rows.needs
        held = run.depths(self.direction)[rows_of(run, self.direction, self.query_ids)]
        short = np.flatnonzero(held < needed)
        if not short.size:
            return {}
        first = short[0]
        error = too_shallow(self.query_ids[first], needed[first], held[first], self._rows.reason)
        return dict.fromkeys((variant.label for variant in self.variants), error)

    def learn(self, run: Run, ranks: Mapping[str, AnyRanks], similarity: str | None) -> None:
        """Find out whether the rankings were long enough."""
        if self.reader.error is not None:
            self.errors |= dict.fromkeys((variant.label for variant in self.variants), self.reader.error)


class TopItems(_FromRows[Judgments]):
    """The top K of every query, or the top R for a metric without K, beside judgments with gains."""

    _rows: TopRows

    def __init__(self, task: Task, part: str, judged: Judgments, variants: Sequence[Variant]) -> None:
        super().__init__(task, part, judged, variants)
        self._read_with(TopRows(judged, max(int(self._depths(variant).max()) for variant in variants)))
        self._further: TopRows | None = None
        self._stopping: list[_StoppingReader] = []
        self._answers: tuple[NDArray[Any], IntArray] | None = None
        self._probabilities: FloatArray | None = None

    @property
    def asked(self) -> int:
        """Of how many pairs a classifier was asked."""
        return 0 if self._answers is None else self._answers[1].size

    @classmethod
    def fits(cls, spec: Spec, task: Task) -> bool:
        """Gains are ratings, labels of 0 and 1, or degrees of being positive."""
        return spec.gains == task.gains

    @property
    def readers(self) -> Sequence[RowReader]:
        """Of the top, and of what lies below it where bounds of a metric at R are asked for."""
        return (self.reader, *self._stopping)

    def _depths(self, variant: Variant) -> IntArray:
        """(Q,) how many items a metric looks at: K, or R."""
        wanted = self.judged.n_relevant
        return np.full_like(wanted, variant.parameters["k"]) if "k" in variant.parameters else wanted

    def look_for_unjudged(self, run: Run, library: Library, split: str, depth: int, sources: Sequence[str]) -> None:
        """R grows with each label: a metric at R then looks below its own top."""
        if any("k" not in variant.parameters for variant in self.variants):
            self._further = TopRows(self.judged, int(self.judged.n_relevant.max()) + depth)
            self._stopping = [_StoppingReader(self._further)]

    def learn(self, run: Run, ranks: Mapping[str, AnyRanks], similarity: str | None) -> None:
        """Find out whether the rankings were long enough, for the metrics and for their bounds."""
        super().learn(run, ranks, similarity)
        for reader in self._stopping:
            if reader.error is not None:
                reason = f"{reader.error} Or ask for a smaller bounds_depth (--bounds-depth): each label adds one to R."
                self.unbounded |= {own.label: reason for own in self.variants if "k" not in own.parameters}
                self._further = None

    def score(self, variant: Variant, settings: Settings) -> list[Scored]:
        """One number under the policy for pairs that nobody judged, where the metric has one."""
        top, judgments, depths = self._rows.result, self.judged, self._depths(variant)
        k = int(depths.max())
        gains, judged = look_up_gains(top, judgments, k, variant.label)
        looked_at = np.arange(gains.shape[1]) < depths[:, None]
        ties, coverage = _count_tied(top, gains, looked_at), float(judged[looked_at].mean())
        parameters = dict(variant.parameters)
        options = variant.spec.accepted({"unjudged": settings.unjudged})
        if options:
            parameters["unjudged"] = policy_name(settings.unjudged)
            options["unjudged"] = self._policy(policy_of(settings.unjudged), k)
        if options.get("unjudged") == "leave_out":
            top, judgments = _keep_queries(top, judgments, np.flatnonzero(judged.any(axis=1)))
            parameters["queries_left_out"] = self.query_ids.size - top.query_ids.size
            if not top.query_ids.size:
                raise DataError(
                    f"{variant.label}: no query has a labelled pair among its top {k}; choose another policy"
                )
        values = variant.spec.function(top, judgments, **variant.parameters, **options)
        queries = QueryValues(top.query_ids, values)
        bounds = self._bound(variant, settings) if settings.bounds else None
        return self.aggregate(variant, queries, ties=ties, coverage=coverage, parameters=parameters, bounds=bounds)

    def _bound(self, variant: Variant, settings: Settings) -> Bounds | None:
        """Bounds over the unjudged; probabilities are asked once, down to the deepest place that is looked at."""
        if variant.label in self.unbounded:
            return None
        top = (self._further or self._rows).result
        if self._probabilities is None and self.direction in CROSS_MODAL and settings.probabilities_of is not None:
            own = [other for other in self.variants if other.label not in self.unbounded]
            deepest = max(_looks_at(other, settings.depth) for other in own)
            asked = ~look_up_gains(top, self.judged, deepest, variant.label)[1]
            self._probabilities = ask_probabilities(
                settings.probabilities_of, self.direction, self.query_ids, top.ids, asked
            )
        return bounds_of_top(
            variant.spec, variant.parameters, top, self.judged, self._probabilities, depth=settings.depth
        )

    def _policy(self, policy: str | Classifier, k: int) -> str | Classifier:
        """A classifier is asked once, about all pairs down to the deepest place that is looked at, not for every K."""
        if isinstance(policy, str):
            return policy
        if self._answers is None:
            top = self._rows.result
            rows, places = np.nonzero(~look_up_gains(top, self.judged, top.depth, self.key)[1])
            labels = np.asarray(policy(top.query_ids[rows], top.ids[rows, places])) if rows.size else np.empty(0)
            if labels.shape != rows.shape:
                raise DataError(f"{self.key}: the classifier gave labels of shape {labels.shape} for {rows.size} pairs")
            self._answers = labels, places
        labels, places = self._answers
        return lambda _queries, _items: labels[places < k]  # both go through the pairs row by row


def _keep_queries(top: TopK, judgments: Judgments, rows: IntArray) -> tuple[TopK, Judgments]:
    entries = np.isin(judgments.rows, rows)
    return TopK(top.query_ids[rows], top.ids[rows]), replace(
        judgments,
        query_ids=judgments.query_ids[rows],
        indptr=np.concatenate([[0], np.cumsum(np.diff(judgments.indptr)[rows])]),
        indices=judgments.indices[entries],
        unreachable=judgments.unreachable[rows],
        gains=None if judgments.gains is None else judgments.gains[entries],
    )


def _count_tied(top: TopK, gains: FloatArray, looked_at: NDArray[np.bool_]) -> int:
    """Queries in which the tie rule decided: items of unequal gain tie in the top, or a tie goes beyond its end.

    Of the (Q, K) places those of a query are its top that are looked at.
    """
    if top.scores is None or top.cut is None:
        return 0
    equal = top.scores[:, 1:] == top.scores[:, :-1]
    within = (equal[:, : gains.shape[1] - 1] & (gains[:, 1:] != gains[:, :-1]) & looked_at[:, 1:]).any(axis=1)
    goes_on, last = np.column_stack([equal, top.cut > 0]), looked_at.sum(axis=1) - 1
    return int(np.count_nonzero(within | goes_on[np.arange(last.size), last]))


class MatchCounts(_FromRows[CategoryMatches]):
    """Plausible matches among the top of every ranking."""

    _rows: PlausibleRows

    def __init__(self, task: Task, part: str, judged: CategoryMatches, variants: Sequence[Variant]) -> None:
        super().__init__(task, part, judged, variants)
        self._read_with(
            PlausibleRows(judged, tuple(dict.fromkeys(look for own in variants for look in own.spec.looks)))
        )

    def score(self, variant: Variant, settings: Settings) -> list[Scored]:
        """One number."""
        hits = self._rows.result
        queries = QueryValues(hits.query_ids, variant.spec.function(hits, **variant.parameters))
        bounds = bounds_of_matches(variant.spec, hits) if settings.bounds else None
        return self.aggregate(variant, queries, ties=int(np.count_nonzero(hits.ties)), bounds=bounds)


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
        """One number; or of samples two, their mean and, under ``_std``, their standard deviation (ddof 0).

        Similarities that are all equal have no rank correlation, and neither do pairs too few: none, and an error.
        """
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
        spread = replace(row, metric=f"{variant.label}_std", value=float(values.std()))
        return [Scored(variant, row, samples=values), Scored(variant, spread)]


class Alterations(Need[Judgments]):
    """What altered captions in the galleries do to the ranks of the positives, and how often they stand first.

    Example:
        >>> from cxc_eccv.metrics.false_rate import SPEC
        >>> from cxc_eccv.registry import task
        >>> from cxc_eccv.types.altered import beside_altered
        >>> variant, judged = Variant(SPEC, {}), beside_altered(Judgments.from_pairs([5], [7], [5], [7]), "danger")
        >>> need = Alterations(task("rococo_danger"), "i2t", judged, [variant])
        >>> {name: wanted.gallery_ids.tolist() for name, wanted in need.requests.items()}
        {'rococo_danger/i2t altered': [7, -32], 'rococo_danger/i2t plain': [7]}
    """

    def __init__(self, task: Task, part: str, judged: Judgments, variants: Sequence[Variant]) -> None:
        super().__init__(task, part, judged, variants)
        self.query_ids, self.gallery_ids, self._plain = judged.query_ids, judged.gallery_ids, without_altered(judged)
        altered = judged.gallery_ids[is_altered(judged.gallery_ids)]
        self._best = [BestRows(judged.query_ids, items) for items in (altered, self._plain.gallery_ids)]
        self._ranks: AlteredRanks

    @property
    def requests(self) -> Mapping[str, Judgments]:
        """The positives among all items, and among the originals alone."""
        return {f"{self.key} altered": self.judged, f"{self.key} plain": self._plain}

    @property
    def readers(self) -> Sequence[RowReader]:
        """Of the best altered caption and the best original."""
        return self._best

    def learn(self, run: Run, ranks: Mapping[str, AnyRanks], similarity: str | None) -> None:
        """An altered caption is first where no original scores higher: it stands above whatever it ties with."""
        altered, plain = (ranks[name] for name in self.requests)
        if isinstance(altered, GivenRanks) or isinstance(plain, GivenRanks):
            raise MalformedRun("rankings have no altered captions")
        best_altered, best_original = (reader.result for reader in self._best)
        ties = best_altered == best_original
        self._ranks = AlteredRanks(plain, altered, best_altered >= best_original, ties)

    def score(self, variant: Variant, settings: Settings) -> list[Scored]:
        """One number."""
        ranks = self._ranks
        queries = QueryValues(self.query_ids, variant.spec.function(ranks, **variant.parameters))
        if variant.parameters:  # a depth, within which positives stand or do not
            return self.aggregate(variant, queries, ties=int(np.count_nonzero(ranks.altered.ties)))
        bounds = bounds_of_tops(variant.spec, ranks) if settings.bounds else None
        return self.aggregate(variant, queries, ties=int(np.count_nonzero(ranks.top_ties)), bounds=bounds)


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
        found = compared_captions(run, self.task.name, self.part, self.task.parts, self.judged)
        if found is None or not isinstance(run, EmbeddingsRun):
            raise MalformedRun(f"{self.key}: the run has no vectors of its captions")
        both = np.concatenate(found)
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


class OtherScores(Need[Mapping[str, Sequence[Scored]]]):
    """Scores of all directions of one task, for example for RSUM; their samples were drawn together."""

    def __init__(
        self, task: Task, part: str, judged: Mapping[str, Sequence[Scored]], variants: Sequence[Variant]
    ) -> None:
        super().__init__(task, part, judged, variants)
        for variant in variants:
            if lacking := self._find_lacking(variant.spec):
                self.errors[variant.label] = InvalidOption(f"needs {' and '.join(lacking)} too")

    def score(self, variant: Variant, settings: Settings) -> list[Scored]:
        """One number."""
        spec, directions = variant.spec, list(self.judged.values())
        inputs = [row for rows in directions for row in rows if row.variant.label in spec.inputs]
        value = float(spec.function(np.array([row.result.value for row in inputs])))
        n_queries, ties = (sum(getattr(rows[0].result, name) for rows in directions) for name in ("n_queries", "ties"))
        samples = [row.samples for row in inputs if row.samples is not None]
        bounds = [[row.result.bounds for row in rows if row in inputs] for rows in directions]
        return [
            Scored(
                variant,
                Result(
                    self.task.name,
                    self.part,
                    variant.label,
                    value,
                    n_queries,
                    ties=ties,
                    bounds=bounds_of_sums(spec.function, bounds),
                ),
                samples=spec.function(np.stack(samples, axis=-1)) if samples else None,
            )
        ]

    def _find_lacking(self, spec: Spec) -> list[str]:
        """Directions, or scores of a direction, that are not there."""
        labels = {direction: [row.variant.label for row in rows] for direction, rows in self.judged.items()}
        lacking: list[str] = []
        for direction in self.task.directions:
            if direction in labels:
                lacking += [f"{direction}/{label}" for label in spec.inputs if label not in labels[direction]]
            else:
                lacking.append(direction)
        return lacking


NEEDS: Mapping[str, type[Need[Any]]] = MappingProxyType(
    {
        "ranks": Ranks,
        "top_k": TopItems,
        "plausible_hits": MatchCounts,
        "rated_pairs": PairSimilarities,
        "altered_ranks": Alterations,
        "scores": OtherScores,
        "comparisons": ComparedScores,
    }
)
"""What ``Spec.needs`` calls them."""
