"""Bounds of the metrics of finished needs, the readers that these bounds require, and the units of a metric.

Units are what a metric averages, each with the open pairs whose labels decide its value. A unit of Entail@K is one
retrieved pair, as the metric is linear in their labels. A unit of Recall@K, MRR and metrics at R is a query with all
its open pairs: these metrics are not linear in labels, so that a query of which only some pairs are labelled would bias
them, however its labels were weighed.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation.bounds.expected import ProbabilitiesOf, ask_probabilities, expect_best
from cxc_eccv.evaluation.bounds.extremes import (
    bounds_of_matches,
    bounds_of_ranks,
    bounds_of_sums,
    bounds_of_top,
)
from cxc_eccv.evaluation.bounds.retrieved import Flags, Retrieved, TopOfKnown
from cxc_eccv.evaluation.needs import (
    MatchCounts,
    Need,
    OtherScores,
    Ranks,
    TopItems,
    Variant,
)
from cxc_eccv.evaluation.request import Request
from cxc_eccv.judgments.qrels import judged_pairs
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.ranking import ranked
from cxc_eccv.ranking.known_depth import GivenRanks
from cxc_eccv.ranking.readers import RowReader, TopRows
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.types import CROSS_MODAL, Bounds, FloatArray, IntArray, Judgments, TopK, look_up_gains
from cxc_eccv.types.judged import orient

LABELLINGS = 64
"""Random labellings behind the prediction of a metric at R."""

ROUNDING = 1e-12
"""A variance below this comes from rounding; the value is certain."""


class BoundsOfNeeds:
    """Bounds over unjudged pairs for all metrics of some needs."""

    def __init__(
        self, run: Run, needs: Iterable[Need[Any]], library: Library, split: str, depth: int, sources: Sequence[str]
    ) -> None:
        self._tops: dict[Need[Any], _Top] = {}
        for need in needs:
            if isinstance(need, Ranks):
                self._tops[need] = _TopOfRanks(need, depth, run, _find_judged(need, library, split, sources))
            elif isinstance(need, TopItems):
                self._tops[need] = _TopOfItems(need, depth)

    def readers(self, need: Need[Any]) -> Sequence[RowReader]:
        """Readers of the scores for the bounds of a need."""
        return self._tops[need].readers if need in self._tops else ()

    def settle(self) -> None:
        """Take the results of the readers, after the needs took theirs."""
        for top in self._tops.values():
            top.settle()

    def find(self, need: Need[Any], variant: Variant, request: Request) -> Bounds | None:
        """The bounds of a metric, or None."""
        if need in self._tops:
            return self._tops[need].find(variant, request.probabilities_of)
        if isinstance(need, MatchCounts):
            return bounds_of_matches(variant.spec, need.result)
        if isinstance(need, OtherScores):
            inputs = need.inputs(variant.spec)
            return bounds_of_sums(variant.spec.function, [[row.result.bounds for row in rows] for rows in inputs])
        return None

    def units(self, need: Need[Any], variant: Variant, request: Request) -> Units:
        """The units that a metric averages, with the pairs whose labels decide their values."""
        key, spec = f"{need.key}/{variant.label}", variant.spec
        is_open = spec.best_rank or spec.term is not None or spec.gains == "labels"
        if need not in self._tops or need.direction not in CROSS_MODAL or spec.unit != "percent" or not is_open:
            raise InvalidOption(
                f"{key} cannot be estimated from answers about some pairs: choose a mean between images and captions "
                "that only labels of retrieved pairs can change, such as recall_at_k, mrr_at_k, map_at_r, r_precision "
                "or entail_at_k"
            )
        return self._tops[need].units(variant, request.probabilities_of)

    def reasons(self, need: Need[Any]) -> Mapping[str, str]:
        """Label to reason, for the metrics whose bounds cannot be computed."""
        return self._tops[need].unbounded if need in self._tops else {}


def _find_judged(need: Ranks, library: Library, split: str, sources: Sequence[str]) -> tuple[IntArray, IntArray]:
    """(P,) ids of queries and items that somebody judged, whatever they said."""
    if verdicts := need.task.verdicts.get(need.part):
        pairs = verdicts(library, split)
        return pairs.query_ids[pairs.rows], pairs.gallery_ids[pairs.indices]
    return judged_pairs(library, split, need.direction, sources or need.task.sources_in(library, split))


class _Top(ABC):
    """The top of every query of one need."""

    need: Ranks | TopItems

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.unbounded: dict[str, str] = {}
        self.readers: list[TopRows] = []
        self._probabilities: FloatArray | None = None

    @abstractmethod
    def settle(self) -> None:
        """Take the results of the readers."""

    @abstractmethod
    def ask(self, variants: Sequence[Variant]) -> tuple[IntArray, Flags]:
        """(Q, D) items, and (Q, D) bool, whether the metrics need their probabilities."""

    @abstractmethod
    def compute(self, variant: Variant, probabilities: FloatArray | None) -> Bounds:
        """The bounds of a metric that has them."""

    @abstractmethod
    def make_units(self, variant: Variant, probabilities: FloatArray) -> Units:
        """The units of a metric that has them."""

    def find(self, variant: Variant, probabilities_of: ProbabilitiesOf | None) -> Bounds | None:
        """The bounds of a metric."""
        return None if variant.label in self.unbounded else self.compute(variant, self._ask(probabilities_of))

    def units(self, variant: Variant, probabilities_of: ProbabilitiesOf | None) -> Units:
        """The units of a metric; InvalidOption if there are no probabilities, or its bounds cannot be computed."""
        key = f"{self.need.key}/{variant.label}"
        if variant.label in self.unbounded:
            raise InvalidOption(f"{key}: {self.unbounded[variant.label]}")
        probabilities = self._ask(probabilities_of)
        if probabilities is None:
            raise InvalidOption(f"{key} needs a judge: give probabilities of pairs, or a classifier of entailment")
        return self.make_units(variant, probabilities)

    def _ask(self, probabilities_of: ProbabilitiesOf | None) -> FloatArray | None:
        """(Q, D) probabilities, asked once for all metrics; None without a judge."""
        need = self.need
        if self._probabilities is None and need.direction in CROSS_MODAL and probabilities_of is not None:
            lacking = {*self.unbounded, *need.errors}
            ids, asked = self.ask([other for other in need.variants if other.label not in lacking])
            self._probabilities = ask_probabilities(probabilities_of, need.direction, need.query_ids, ids, asked)
        return self._probabilities

    def looks_at(self, variant: Variant) -> int:
        """Number of items of a query that count as retrieved."""
        return int(variant.parameters.get("k", self.depth))


class _TopOfRanks(_Top):
    """The top of every query for metrics of ranks, as deep as the shallowest ranking; ``known`` pairs are judged."""

    _retrieved: Retrieved

    def __init__(self, need: Ranks, depth: int, run: Run, known: tuple[IntArray, IntArray]) -> None:
        super().__init__(depth)
        self.need: Ranks = need
        deepest = ranked(run).limit_depth(max(map(self.looks_at, need.variants)), need.judged, need.direction)
        self._top = TopOfKnown(need.judged, known, deepest)
        self.readers = self._top.readers
        needed = {variant.label: min(self.looks_at(variant), self._top.largest) for variant in need.variants}
        self.unbounded = {
            label: f"bounds look at the top {items}, but the rankings hold {deepest} items; set bounds_depth={deepest} "
            f"(--bounds-depth {deepest}) or rank more items"
            for label, items in needed.items()
            if items > self._top.depth
        }

    def settle(self) -> None:
        errors = [str(reader.error) for reader in self.readers if reader.error is not None]
        if errors:
            self.unbounded |= dict.fromkeys((variant.label for variant in self.need.variants), errors[0])
        else:
            self._retrieved = self._top.retrieved(self.need.ranks, self.depth)
            self.unbounded = self._find_unsettled(min(self.depth, self._top.depth)) | self.unbounded

    def _find_unsettled(self, depth: int) -> dict[str, str]:
        """Labels add to R, so a metric at R may look below the retrieved items for known positives."""
        given = self.need.ranks
        if not isinstance(given, GivenRanks):
            return {}
        needed = np.where(given.complete, 0, given.n_positives + depth)
        if (given.depths >= needed).all():
            return {}
        reason = (
            f"with labels for all {depth} retrieved items it looks at the top {needed.max()}, but a ranking ends at "
            f"rank {given.depths[given.depths < needed].min()}; set a smaller bounds_depth (--bounds-depth) or rank "
            "more items"
        )
        return {variant.label: reason for variant in self.need.variants if not variant.spec.best_rank}

    def ask(self, variants: Sequence[Variant]) -> tuple[IntArray, Flags]:
        """The unjudged items whose labels can change a metric."""
        top = self._retrieved
        return top.ids, np.any([top.matters(variant.spec, variant.parameters) for variant in variants], axis=0)

    def compute(self, variant: Variant, probabilities: FloatArray | None) -> Bounds:
        return bounds_of_ranks(variant.spec, variant.parameters, self._retrieved, probabilities)

    def make_units(self, variant: Variant, probabilities: FloatArray) -> Units:
        return units_of_ranks(variant.spec, variant.parameters, self._retrieved, probabilities, self.need.direction)


class _TopOfItems(_Top):
    """The top of every query for metrics with gains; deeper than the need's for a metric at R, as labels add to R."""

    def __init__(self, need: TopItems, depth: int) -> None:
        super().__init__(depth)
        self.need: TopItems = need
        self._further: TopRows | None = None
        if any("k" not in variant.parameters for variant in need.variants):
            self._further = TopRows(need.judged, int(need.judged.n_relevant.max()) + depth)
            self.readers = [self._further]

    @property
    def _top(self) -> TopK:
        return self.need.top if self._further is None else self._further.result

    def settle(self) -> None:
        for reader in self.readers:
            if reader.error is not None:
                reason = f"{reader.error} Or set a smaller bounds_depth (--bounds-depth), as each label adds one to R."
                self.unbounded = {
                    variant.label: reason for variant in self.need.variants if "k" not in variant.parameters
                }
                self._further = None

    def ask(self, variants: Sequence[Variant]) -> tuple[IntArray, Flags]:
        """The unjudged items down to the greatest depth of the metrics."""
        top, deepest = self._top, max(map(self.looks_at, variants))
        return top.ids, ~look_up_gains(top, self.need.judged, deepest, self.need.key)[1]

    def compute(self, variant: Variant, probabilities: FloatArray | None) -> Bounds:
        return bounds_of_top(
            variant.spec, variant.parameters, self._top, self.need.judged, probabilities, depth=self.depth
        )

    def make_units(self, variant: Variant, probabilities: FloatArray) -> Units:
        return units_of_top(variant.parameters, self._top, self.need.judged, probabilities, self.need.direction)


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """All units of a metric and their open pairs.

    Attributes:
        query_ids: (U,) query of each unit.
        owners: (P,) unit of each open pair, ascending.
        images, captions: (P,) ids of the open pairs.
        predicted: (U,) mean value of each unit, if each open pair is positive with its probability.
        deviations: (U,) standard deviation of that value.
        value: maps (P,) labels of the open pairs to (U,) values.
    """

    query_ids: IntArray
    owners: IntArray
    images: IntArray
    captions: IntArray
    predicted: FloatArray
    deviations: FloatArray
    value: Callable[[FloatArray], FloatArray]

    @property
    def costs(self) -> IntArray:
        """(U,) number of open pairs of each unit."""
        return np.bincount(self.owners, minlength=self.query_ids.size)

    @property
    def fingerprint(self) -> str:
        """A hash of the open pairs and their units."""
        order = np.lexsort((self.captions, self.images))
        joined = np.stack([self.images[order], self.captions[order], self.query_ids[self.owners[order]]])
        return hashlib.sha256(np.ascontiguousarray(joined, dtype="<i8").tobytes()).hexdigest()


def units_of_ranks(
    spec: Spec, parameters: Mapping[str, Any], retrieved: Retrieved, probabilities: FloatArray, direction: str
) -> Units:
    """A unit per query, with the unjudged items of its top that can change its value."""
    score, is_open = partial(spec.function, **parameters), retrieved.matters(spec, parameters)
    rows, places = np.nonzero(is_open)

    def value(labels: FloatArray | Flags) -> FloatArray:
        flags = np.zeros_like(is_open)
        flags[rows, places] = labels > 0
        return score(retrieved.with_best(retrieved.best(flags)) if spec.best_rank else retrieved.relabel(flags))

    if spec.best_rank:
        values, weights = expect_best(score, retrieved, np.where(is_open, probabilities, 0.0))
    else:
        random, chances = np.random.default_rng(0), probabilities[rows, places]
        values = np.stack([value(random.random(rows.size) < chances) for _ in range(LABELLINGS)], axis=1)
        weights = np.full(values.shape, 1 / LABELLINGS)
    predicted = (values * weights).sum(axis=1)
    variances = (values**2 * weights).sum(axis=1) - predicted**2
    deviations = np.sqrt(np.where(variances > ROUNDING, variances, 0))
    query_ids = retrieved.ranks.query_ids
    sides = orient(query_ids[rows], retrieved.ids[rows, places], direction)
    return Units(query_ids, rows, *sides, predicted, deviations, value)


def units_of_top(
    parameters: Mapping[str, Any], top: TopK, judgments: Judgments, probabilities: FloatArray, direction: str
) -> Units:
    """A unit per retrieved pair, for the share of positives in the top K."""
    gains, judged = look_up_gains(top, judgments, parameters["k"], "Entail@K")
    k = judged.shape[1]  # a gallery may hold fewer than K items
    (owners,), known = np.nonzero(~judged.ravel()), gains.ravel()
    chances = np.where(judged, gains, probabilities[:, :k]).ravel()

    def value(labels: FloatArray) -> FloatArray:
        values = known.copy()
        values[owners] = labels
        return values

    query_ids = np.repeat(top.query_ids, k)
    sides = orient(query_ids[owners], top.ids[:, :k].ravel()[owners], direction)
    return Units(query_ids, owners, *sides, chances, np.sqrt(chances * (1 - chances)), value)
