"""Bounds of the metrics of finished needs, and the readers that these bounds require."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation.bounds.expected import ProbabilitiesOf, ask_probabilities
from cxc_eccv.evaluation.bounds.extremes import (
    bounds_of_matches,
    bounds_of_ranks,
    bounds_of_sums,
    bounds_of_top,
    bounds_of_tops,
)
from cxc_eccv.evaluation.bounds.retrieved import Flags, Retrieved, TopOfKnown
from cxc_eccv.evaluation.bounds.units import Units, units_of_ranks, units_of_top
from cxc_eccv.evaluation.needs import (
    Alterations,
    MatchCounts,
    Need,
    OtherScores,
    Ranks,
    TopItems,
    Variant,
)
from cxc_eccv.evaluation.settings import Settings
from cxc_eccv.judgments.qrels import judged_pairs
from cxc_eccv.ranking.lists import GivenRanks, rows_of
from cxc_eccv.ranking.readers import RowReader, TopRows
from cxc_eccv.runs import RankingsRun, Run
from cxc_eccv.sources.library import Library
from cxc_eccv.types import CROSS_MODAL, Bounds, FloatArray, IntArray, TopK, look_up_gains


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

    def find(self, need: Need[Any], variant: Variant, settings: Settings) -> Bounds | None:
        """The bounds of a metric, or None."""
        if need in self._tops:
            return self._tops[need].find(variant, settings.probabilities_of)
        if isinstance(need, MatchCounts):
            return bounds_of_matches(variant.spec, need.result)
        if isinstance(need, Alterations) and not variant.parameters:
            return bounds_of_tops(variant.spec, need.ranks)
        if isinstance(need, OtherScores):
            inputs = need.inputs(variant.spec)
            return bounds_of_sums(variant.spec.function, [[row.result.bounds for row in rows] for rows in inputs])
        return None

    def units(self, need: Need[Any], variant: Variant, settings: Settings) -> Units:
        """The units that a metric averages, with the pairs whose labels decide their values."""
        key, spec = f"{need.key}/{variant.label}", variant.spec
        is_open = spec.best_rank or spec.term is not None or spec.gains == "labels"
        if need not in self._tops or need.direction not in CROSS_MODAL or spec.unit != "percent" or not is_open:
            raise InvalidOption(
                f"{key} cannot be estimated from answers about some pairs: choose a mean between images and captions "
                "that only labels of retrieved pairs can change, such as recall_at_k, mrr_at_k, map_at_r, r_precision "
                "or entail_at_k"
            )
        return self._tops[need].units(variant, settings.probabilities_of)

    def reasons(self, need: Need[Any]) -> Mapping[str, str]:
        """Label to reason, for the metrics whose bounds cannot be computed."""
        return self._tops[need].unbounded if need in self._tops else {}


def _find_judged(need: Ranks, library: Library, split: str, sources: Sequence[str]) -> tuple[IntArray, IntArray]:
    """(P,) ids of queries and items that somebody judged, whatever they said."""
    if verdicts := need.task.verdicts.get(need.part):
        pairs = verdicts(library, split)
        return pairs.query_ids[pairs.rows], pairs.gallery_ids[pairs.indices]
    return judged_pairs(library, split, need.direction, sources or need.task.sources_in(library))


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
        deepest = max(map(self.looks_at, need.variants))
        if isinstance(run, RankingsRun):
            held = run.depths(need.direction)[rows_of(run, need.direction, need.query_ids)]
            deepest = min(deepest, max(1, int(held.min())))  # lists of run files may be empty, which the reader finds
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
        given = self.need.given
        if not isinstance(given, GivenRanks):
            return {}
        needed = np.where(given.complete, 0, given.ranks.n_positives + depth)
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
